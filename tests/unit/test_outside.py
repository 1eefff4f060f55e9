"""A worker that the group does not count in says so, after a while and now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from app.errors import Fenced
from app.outside import GIVEN_UP_S, LOST_S, TOLD_EVERY_S, Outside
from schemas.records import Side

if TYPE_CHECKING:
    from app.kafka.inputs import Inputs


class Left:
    """The left consumer, as far as it is asked."""

    def __init__(self) -> None:
        self.is_member = False
        self.is_lost = False

    def lost(self, side: Side) -> bool:
        return self.is_lost and side is Side.LEFT

    def member(self) -> bool:
        return self.is_member


@pytest.fixture
def left() -> Left:
    return Left()


@pytest.fixture
def outside(left: Left) -> Outside:
    return Outside(cast("Inputs", left))


def seconds(outside: Outside, first: int, after: int, away: range = range(0)) -> list[str]:
    """What is told from one second to another, with a broker that is away for some."""
    with capture_logs() as told:
        for now in range(first, after):
            outside.step(float(now), away=now in away)
    return [line["event"] for line in told]


def test_a_member_says_nothing(outside: Outside, left: Left) -> None:
    left.is_member = True
    assert seconds(outside, 0, 100) == []
    assert outside.reason is None


def test_it_is_told_after_a_while_and_now_and_then(outside: Outside) -> None:
    while_s = int(TOLD_EVERY_S)
    assert seconds(outside, 0, while_s) == []
    assert outside.reason is None
    assert seconds(outside, while_s, 3 * while_s + 5) == ["waiting for the group"] * 3
    assert outside.reason == f"not a member of the group for {3 * while_s + 4} s"


def test_a_member_that_is_back_soon_was_not_missed(outside: Outside, left: Left) -> None:
    assert seconds(outside, 0, 9) == []
    left.is_member = True
    assert seconds(outside, 9, 10) == []
    left.is_member = False
    assert seconds(outside, 10, 19) == []


def test_that_it_is_back_is_told_once(outside: Outside, left: Left) -> None:
    seconds(outside, 0, 15)
    left.is_member = True
    assert seconds(outside, 15, 20) == ["a member of the group again"]
    assert outside.reason is None


def test_a_worker_that_is_not_let_in_for_minutes_starts_again(outside: Outside) -> None:
    seconds(outside, 0, int(GIVEN_UP_S))
    with pytest.raises(Fenced, match="the group does not take the worker in for 180 s"):
        outside.step(GIVEN_UP_S, away=False)


def test_an_outage_is_waited_for(outside: Outside) -> None:
    outage = range(1_000)
    seconds(outside, 0, 999 + int(GIVEN_UP_S), away=outage)
    with pytest.raises(Fenced, match=f"for {999 + GIVEN_UP_S:.0f} s"):
        outside.step(999 + GIVEN_UP_S, away=False)


def test_a_client_that_finds_no_broker_is_not_waited_for(outside: Outside, left: Left) -> None:
    left.is_lost = True
    seconds(outside, 0, int(LOST_S))
    with pytest.raises(Fenced, match="for 30 s: its client finds no broker"):
        outside.step(LOST_S, away=False)


def test_while_all_are_away_there_is_none_to_find(outside: Outside, left: Left) -> None:
    left.is_lost = True
    seconds(outside, 0, 500, away=range(500))
