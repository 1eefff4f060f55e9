"""Sides that the client feeds no more are sought anew, and no others."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

import app.starvation
from app.errors import Fenced
from app.idleness import Idleness
from app.starvation import (
    ASK_EVERY_S,
    GIVEN_UP_AFTER,
    LOST_AFTER,
    PROMPT_S,
    SOUGHT_AFTER,
    Starvation,
)
from rebalance.lanes import Lane
from rebalance.phases import Signal
from schemas.records import Side
from tests.unit.test_process import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.kafka.authority import Ends

STABLE = 10
ON_THE_WAY: Final = [
    (Signal.OPENED,),
    (Signal.OPENED, Signal.CAUGHT_UP),
    (Signal.OPENED, Signal.CAUGHT_UP, Signal.BOUNDED),
]


@dataclass
class Inputs:
    emptied: tuple[int, int] = (0, 0)
    flows: list[tuple[Side, int, int]] = field(default_factory=list)
    error: KafkaError | None = None
    lost_sides: set[Side] = field(default_factory=set)

    def lost(self, side: Side) -> bool:
        return side in self.lost_sides

    def flow(self, side: Side, lane: int, position: int) -> None:
        self.flows.append((side, lane, position))
        if self.error is not None:
            raise KafkaException(self.error)


class Job:
    """A worker with one running lane, of which all is read but for what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.takes_s = 1000.0, 0.0
        self.failure: BaseException | None = None
        self.changelog = STABLE
        self.stable = {Side.LEFT: STABLE, Side.RIGHT: STABLE}
        self.empties = True
        self.started = 0
        self.asked = 0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(app.starvation, "time", clock)
        nothing = cast("Any", None)
        self.idleness = Idleness(nothing, nothing, nothing)
        self.inputs = Inputs()
        self.threads = self
        self.authority = SimpleNamespace(ends=self.ends, stable=self.stable_end)
        self.reader_is_lost = False
        self.reader = SimpleNamespace(lost=lambda: self.reader_is_lost)
        self.metrics = SimpleNamespace(starved=self._count)
        self.running = {0: running()}
        self.lanes: dict[int, Lane] = {}
        self.idleness.start(0)
        for side in Side:
            self.reads(side, STABLE)
        self.starvation = Starvation(cast("Any", self))

    def _count(self) -> None:
        self.started += 1

    def reads(self, side: Side, position: int) -> None:
        """The side is read up to there, and that is the end of it."""
        self.running[0].expected[side] = position
        self.idleness.heard(side, 0)
        self.idleness.ended(side, 0, position)

    def starves(self, side: Side, position: int) -> None:
        """Some records came, and then nothing, not even an end."""
        self.running[0].expected[side] = position
        self.idleness.heard(side, 0)

    def submit(self, question: Callable[..., Any], *about: object) -> Any:
        answer: Future[Any] = Future()
        self.asked += 1
        if self.failure is not None:
            answer.set_exception(self.failure)
        else:
            answer.set_result(question(*about))
        return answer

    def stable_end(self, _lane: int) -> int:
        return self.changelog

    def restores(self, *signals: Signal) -> Lane:
        """A second lane, on its way."""
        lane = self.lanes[1] = Lane(1, Path())
        for signal in signals:
            lane.signal(signal)
        return lane

    def ends(self, places: list[tuple[Side, int]]) -> Ends:
        return {(side, lane): (self.stable[side], STABLE) for side, lane in places}

    def answers(self, count: int) -> None:
        """So many questions are asked and answered."""
        for _ in range(count):
            self.now += ASK_EVERY_S
            self.starvation.step()
            self.now += self.takes_s
            left, right = self.inputs.emptied
            self.inputs.emptied = (left + self.empties, right + self.empties)
            self.starvation.step()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(monkeypatch)


@pytest.mark.parametrize("side", Side)
def test_a_side_that_is_not_fed_is_sought_anew_once(job: Job, side: Side) -> None:
    job.starves(side, 4)
    job.answers(SOUGHT_AFTER - 1)
    assert job.inputs.flows == []
    job.answers(1)
    assert job.inputs.flows == [(side, 0, 4)]
    job.answers(5)
    assert len(job.inputs.flows) == job.started == 1


def test_an_end_that_does_not_come_is_missed_too(job: Job) -> None:
    job.starves(Side.RIGHT, STABLE)
    job.answers(SOUGHT_AFTER)
    assert job.inputs.flows == [(Side.RIGHT, 0, STABLE)]


def test_records_behind_an_end_are_missed(job: Job) -> None:
    job.stable[Side.LEFT] = STABLE + 1
    job.answers(SOUGHT_AFTER)
    assert job.inputs.flows == [(Side.LEFT, 0, STABLE)]


def test_a_side_that_stays_unfed_ends_the_process(job: Job) -> None:
    job.starves(Side.RIGHT, 4)
    job.answers(GIVEN_UP_AFTER - 1)
    with pytest.raises(Fenced, match="right side of lane 0"):
        job.answers(1)


@pytest.mark.parametrize("side", Side)
def test_a_client_that_finds_no_broker_is_not_waited_for(job: Job, side: Side) -> None:
    job.starves(side, 4)
    job.inputs.lost_sides = {side}
    job.answers(LOST_AFTER - 1)
    with pytest.raises(Fenced, match="any more, at 4 of 10"):
        job.answers(1)


def test_another_sides_client_may_find_none(job: Job) -> None:
    job.starves(Side.LEFT, 4)
    job.inputs.lost_sides = {Side.RIGHT}
    job.answers(GIVEN_UP_AFTER - 1)


def test_a_client_that_cannot_seek_is_given_time(job: Job) -> None:
    job.inputs.error = KafkaError(KafkaError._STATE)
    job.starves(Side.LEFT, 4)
    job.answers(SOUGHT_AFTER + 3)
    assert len(job.inputs.flows) == 1


def test_healthy_sides_are_left_alone(job: Job) -> None:
    job.answers(GIVEN_UP_AFTER + 3)
    # Somebody's open transaction holds the last stable offset back; the end is there.
    job.reads(Side.LEFT, 7)
    job.stable[Side.LEFT] = 7
    job.answers(GIVEN_UP_AFTER + 3)
    # Markers at the end: the last record is below it.
    job.running[0].expected[Side.LEFT] = 5
    job.answers(GIVEN_UP_AFTER + 3)
    assert job.inputs.flows == []


def test_a_side_of_which_something_comes_is_fed(job: Job) -> None:
    for position in range(2 * GIVEN_UP_AFTER):
        job.starves(Side.LEFT, position)
        job.stable[Side.LEFT] = 1000
        job.answers(SOUGHT_AFTER - 1)
    assert job.inputs.flows == []


def test_records_may_wait_in_the_clients_queue(job: Job) -> None:
    job.starves(Side.LEFT, 4)
    job.empties = False
    job.answers(GIVEN_UP_AFTER + 3)
    assert job.inputs.flows == []


@pytest.mark.parametrize("why", ["held", "unread"])
def test_a_side_that_we_hold_is_not_missed(job: Job, why: str) -> None:
    job.starves(Side.LEFT, 4)
    getattr(job.running[0], why)[Side.LEFT] = True
    job.answers(GIVEN_UP_AFTER + 3)
    assert job.inputs.flows == []


def test_a_broker_that_was_away_is_no_reason(job: Job) -> None:
    job.starves(Side.LEFT, 4)
    for _ in range(GIVEN_UP_AFTER):
        job.takes_s = 0.0
        job.answers(SOUGHT_AFTER - 1)
        job.takes_s = PROMPT_S + 1
        job.answers(1)
    assert job.inputs.flows == []


def test_a_question_that_fails_ends_nothing(job: Job) -> None:
    job.starves(Side.LEFT, 4)
    job.answers(SOUGHT_AFTER - 1)
    job.failure = Fenced("stopped while waiting for the broker")
    job.answers(2)
    job.failure = None
    job.answers(SOUGHT_AFTER - 1)
    assert job.inputs.flows == []


def test_a_lane_that_was_taken_over_anew_begins_anew(job: Job) -> None:
    job.starves(Side.LEFT, 4)
    job.answers(SOUGHT_AFTER - 1)
    before = job.running[0]
    job.running[0] = running()
    job.running[0].expected[:] = before.expected
    job.answers(SOUGHT_AFTER - 1)
    assert job.inputs.flows == []


def test_nobody_is_asked_without_a_lane(job: Job) -> None:
    job.running.clear()
    job.answers(3)
    assert job.asked == 0


@pytest.mark.parametrize("signals", ON_THE_WAY)
def test_a_changelog_that_stays_unfed_ends_the_process(
    job: Job, signals: tuple[Signal, ...]
) -> None:
    lane = job.restores(*signals)
    lane.record_seen = lane.end_seen = STABLE - 3
    job.answers(GIVEN_UP_AFTER - 1)
    with pytest.raises(Fenced, match=r"changelog of lane 1 .* at 7 of 10"):
        job.answers(1)
    assert job.inputs.flows == []


def test_a_reader_of_the_changelog_that_finds_no_broker_is_not_waited_for(job: Job) -> None:
    job.restores(*ON_THE_WAY[0])
    job.reader_is_lost = True
    job.answers(LOST_AFTER - 1)
    with pytest.raises(Fenced, match="changelog of lane 1"):
        job.answers(1)


def test_a_changelog_is_missed_while_the_lane_goes_back_and_forth(job: Job) -> None:
    lane = job.restores(*ON_THE_WAY[2])
    lane.end_seen = STABLE - 3
    for signal in (Signal.STALLED, Signal.CAUGHT_UP, Signal.BOUNDED) * (GIVEN_UP_AFTER // 3 - 1):
        job.answers(1)
        lane.signal(signal)
    with pytest.raises(Fenced):
        job.answers(3)


def test_a_changelog_that_is_read_to_its_end_is_fed(job: Job) -> None:
    lane = job.restores(*ON_THE_WAY[2])
    lane.end_seen = STABLE
    job.answers(GIVEN_UP_AFTER + 3)


def test_a_changelog_of_which_something_comes_is_fed(job: Job) -> None:
    lane = job.restores(*ON_THE_WAY[0])
    job.changelog = 1000
    for offset in range(3):
        lane.record_seen = offset
        job.answers(GIVEN_UP_AFTER - 1)


def test_a_lane_that_is_assigned_anew_has_all_the_time_again(job: Job) -> None:
    lanes = [job.restores(*ON_THE_WAY[0]) for _ in range(3)]
    for lane in lanes:
        job.lanes[1] = lane
        job.answers(GIVEN_UP_AFTER - 1)
