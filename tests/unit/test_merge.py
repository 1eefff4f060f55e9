from __future__ import annotations

import pytest

from app.merge import Inbox
from schemas.records import INT64_MAX, Event, Kind, Reason, Record, Rejected, Side
from state.checkpoint import Watermarks
from tests.lane import event, named, pushed, retraction, settings_of, watermark

EVERYTHING = 10**6
OPEN = (False, False)


def at(name: str, ts: int) -> Event:
    return event(name, ts, ts)


def reject(offset: int) -> Rejected:
    return Rejected(offset, Reason.UNDECODABLE, "", None)


def names(taken: list[tuple[Side, Record]]) -> list[str]:
    return [r.id if isinstance(r, Event) else f"reject {r.offset}" for _, r in taken]


def push(inbox: Inbox, side: Side, records: list[Record], now: int | None = None) -> None:
    inbox.push(side, map(pushed, records), now)


def taken(
    inbox: Inbox, limit: int, drained: tuple[bool, bool], max_skew: int
) -> list[tuple[Side, Record]]:
    return list(map(named, inbox.take(limit, drained, max_skew)))


def filled(left: list[Record], right: list[Record]) -> Inbox:
    inbox = Inbox(settings_of(10, 50, max_future=1000))
    push(inbox, Side.LEFT, left)
    push(inbox, Side.RIGHT, right)
    return inbox


def test_the_smaller_ts_comes_first_and_left_on_a_tie() -> None:
    inbox = filled([at("l1", 1), at("l5", 5), at("l9", 9)], [at("r1", 1), at("r4", 4), at("r9", 9)])
    assert names(taken(inbox, EVERYTHING, (True, True), 0)) == ["l1", "r1", "r4", "l5", "l9", "r9"]
    assert len(inbox) == 0


def test_a_side_is_never_reordered() -> None:
    inbox = filled([at("l5", 5), at("l1", 1), at("l3", 3)], [at("r2", 2), at("r6", 6)])
    assert names(taken(inbox, EVERYTHING, (True, True), 0)) == ["r2", "l5", "l1", "l3", "r6"]


def test_a_side_waits_for_the_other_unless_that_is_read_to_its_end() -> None:
    inbox = filled([at("l1", 1), at("l2", 2), at("l9", 9)], [at("r2", 2)])
    assert names(taken(inbox, EVERYTHING, OPEN, 0)) == ["l1", "l2", "r2"]
    assert taken(inbox, EVERYTHING, OPEN, 0) == []
    assert taken(inbox, EVERYTHING, (True, False), 0) == []
    assert names(taken(inbox, EVERYTHING, (False, True), 0)) == ["l9"]


def test_the_last_of_a_side_is_taken_only_when_it_is_the_smaller() -> None:
    inbox = filled([at("l5", 5)], [at("r5", 5), at("r6", 6)])
    assert names(taken(inbox, EVERYTHING, OPEN, 0)) == ["l5"]
    assert inbox.waiting(Side.RIGHT) == 2


def test_a_skew_lets_a_side_run_ahead_by_so_much() -> None:
    inbox = filled([at("l1", 1), at("l9", 9), at("l10", 10)], [at("r4", 4)])
    assert names(taken(inbox, EVERYTHING, OPEN, 5)) == ["l1", "r4", "l9"]
    assert inbox.waiting(Side.LEFT) == 1
    quiet = filled([at("l1", 1)], [])
    assert taken(quiet, EVERYTHING, OPEN, 5) == []


def test_no_more_than_the_limit_is_taken() -> None:
    inbox = filled([at("l1", 1), at("l2", 2)], [at("r1", 1), at("r3", 3)])
    assert names(taken(inbox, 3, (True, True), 0)) == ["l1", "r1", "l2"]
    assert len(inbox) == 1
    assert names(taken(inbox, 3, (True, True), 0)) == ["r3"]
    assert taken(inbox, 0, (True, True), 0) == []


def test_retractions_and_rejects_follow_what_came_before_them() -> None:
    left: list[Record] = [at("l5", 5), retraction("l1", 1, 1, ts=900), reject(7), at("l8", 8)]
    inbox = filled(left, [retraction("r0", 1, 1, ts=900), at("r6", 6), at("r7", 7)])
    assert names(taken(inbox, EVERYTHING, OPEN, 0)) == ["r0", "l5", "l1", "reject 7", "r6", "r7"]


@pytest.mark.parametrize(
    "nonsense",
    [
        at("x", INT64_MAX),
        watermark(INT64_MAX),
        at("x", 2001),
        event("x", 0, 10, ts=900),
        event("x", 0, 900, ts=900),
        event("x", 900, 900, key=None),
        event("x", 900, 900, kind=Kind.RETRACT),
    ],
)
def test_what_will_be_rejected_holds_nobody_up(nonsense: Event) -> None:
    inbox = Inbox(settings_of(10, 50, max_future=1000))
    push(inbox, Side.LEFT, [at("l5", 5), nonsense._replace(id="x"), at("l8", 8)], now=1000)
    push(inbox, Side.RIGHT, [at("r6", 6), at("r9", 9)], now=1000)
    assert names(taken(inbox, EVERYTHING, OPEN, 0)) == ["l5", "x", "r6", "l8"]


def test_the_order_is_the_same_after_a_restart() -> None:
    left: list[Record] = [at("l5", 5), retraction("l1", 1, 1), at("l3", 3), at("l8", 8)]
    right: list[Record] = [at("r4", 4), at("r5", 5), at("r7", 7)]
    straight = filled(left, right)
    order = names(taken(straight, EVERYTHING, (True, True), 0))
    assert order == ["r4", "l5", "l1", "l3", "r5", "r7", "l8"]
    again = Inbox(settings_of(10, 50), Watermarks(4, 5, 4))
    push(again, Side.LEFT, left[1:])
    push(again, Side.RIGHT, right[1:])
    assert names(taken(again, EVERYTHING, (True, True), 0)) == order[2:]


def test_an_inbox_needs_to_know_nothing() -> None:
    inbox = Inbox()
    push(inbox, Side.LEFT, [at("l", INT64_MAX)])
    push(inbox, Side.RIGHT, [watermark(5)])
    assert names(taken(inbox, EVERYTHING, OPEN, 0)) == [""]


def test_what_is_put_back_comes_again_in_the_same_order() -> None:
    left: list[Record] = [at("l5", 5), retraction("l1", 1, 1), at("l8", 8), at("l9", 9)]
    inbox = filled(left, [at("r4", 4), at("r5", 5), at("r7", 7)])
    first = inbox.take(EVERYTHING, OPEN, 0)
    assert names(list(map(named, first))) == ["r4", "l5", "l1", "r5", "r7"]
    inbox.put_back(first[1:])
    assert names(taken(inbox, 2, OPEN, 0)) == ["l5", "l1"]
    assert names(taken(inbox, EVERYTHING, (True, True), 0)) == ["r5", "r7", "l8", "l9"]
