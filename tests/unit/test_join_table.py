"""The behaviours that define the join, with a lateness of 10 and a max interval of 50."""

from __future__ import annotations

from schemas.records import Reason, Side
from state.checkpoint import Watermarks
from state.keys import parse_row_key
from state.retention import is_retained
from tests.lane import Lane, event, retraction, settings_of

L, D = 10, 50


def lane() -> Lane:
    return Lane(settings_of(L, D))


def reasons(joined: Lane) -> list[Reason]:
    return [reject.reason for effects in joined.turns for reject in effects.rejects]


def test_out_of_order_and_duplicate_give_one_insert() -> None:
    joined = lane()
    joined.left(event("l0", 100, 105))
    joined.right(event("r1", 90, 99, ts=95))
    first = event("l1", 92, 97)
    joined.left(first)
    joined.left(first)
    joined.right(event("r1", 90, 99, ts=95))
    assert joined.emitted == [("L:l1|R:r1", True)]
    assert [effects.counts.duplicates for effects in joined.turns] == [0, 0, 0, 1, 1]
    assert not reasons(joined)


def test_rows_that_do_not_overlap_or_have_other_keys_do_not_match() -> None:
    joined = lane()
    joined.left(
        event("l1", 10, 20), event("l2", 10, 20, key=b"other"), event("l3", 10, 20, key=b"")
    )
    joined.right(event("r1", 21, 30), event("r2", 0, 9), event("r3", 10, 20, key=b"k\x00"))
    assert joined.emitted == []


def test_touching_intervals_match() -> None:
    joined = lane()
    joined.left(event("l1", 10, 20))
    effects = joined.right(event("r1", 20, 30), event("r2", 0, 10))
    assert joined.emitted == [("L:l1|R:r1", True), ("L:l1|R:r2", True)]
    assert [value and value.split()[:2] for _, value, _ in effects.matches] == [
        [b"20", b"20"],
        [b"10", b"10"],
    ]


def test_a_retraction_is_emitted_once_and_a_later_insert_ignored() -> None:
    joined = lane()
    joined.left(event("l1", 10, 20))
    joined.right(event("r1", 15, 25))
    for _ in range(2):
        joined.right(retraction("r1", 15, 25))
    joined.right(event("r1", 15, 25))
    joined.left(event("l2", 15, 25))
    assert joined.emitted == [("L:l1|R:r1", True), ("L:l1|R:r1", False)]
    assert [effects.counts.duplicates for effects in joined.turns] == [0, 0, 0, 1, 1, 0]


def test_a_late_retraction_takes_a_match_whose_other_row_is_past_its_horizon() -> None:
    joined = lane()
    joined.left(event("l1", 95, 115))
    joined.right(event("r1", 90, 120))
    joined.advance(176)
    assert not is_retained(115, 176, L + D)
    joined.right(retraction("r1", 90, 120))
    assert joined.emitted == [("L:l1|R:r1", True), ("L:l1|R:r1", False)]


def test_a_row_is_retained_at_its_horizon_and_gone_after_it() -> None:
    for at, retracted in ((180, True), (181, False)):
        joined = lane()
        joined.left(event("l1", 95, 115))
        joined.right(event("r1", 90, 120))
        joined.advance(at)
        joined.right(retraction("r1", 90, 120))
        assert (joined.emitted[1:] == [("L:l1|R:r1", False)]) is retracted
        assert reasons(joined) == ([] if retracted else [Reason.RETRACT_AFTER_HORIZON])


def test_a_retraction_past_the_horizon_is_rejected_and_counted_once() -> None:
    joined = lane()
    joined.left(event("l1", 95, 115))
    joined.right(event("r1", 90, 120))
    joined.advance(500)
    effects = joined.right(retraction("r1", 90, 120))
    assert effects.counts.rejected == {Reason.RETRACT_AFTER_HORIZON: 1}
    assert effects.counts.retracted == effects.counts.remembered == effects.counts.duplicates == 0
    assert joined.emitted == [("L:l1|R:r1", True)]


def test_match_ids_do_not_depend_on_the_order() -> None:
    one, other = event("l1", 10, 20), event("r1", 15, 25)
    first, second = lane(), lane()
    first.left(one)
    first.right(other)
    second.right(other)
    second.left(one)
    assert first.emitted == second.emitted == [("L:l1|R:r1", True)]
    assert first.turns[1].matches == second.turns[1].matches


def test_a_lane_goes_on_from_its_checkpoint() -> None:
    straight, broken = lane(), lane()
    for joined in (straight, broken):
        joined.left(event("l1", 95, 115), event("l2", 100, 100))
        joined.right(event("r1", 90, 120), retraction("r2", 100, 110))
        joined.left(retraction("l2", 100, 100))
        joined.advance(150)
        if joined is broken:
            joined.reopen()
        joined.left(event("l3", 110, 150, ts=145), event("l4", 110, 139))
        joined.right(event("r2", 100, 110), retraction("r1", 90, 120))
    assert broken.emitted == straight.emitted
    assert broken.watermarks == straight.watermarks
    assert reasons(broken) == reasons(straight) == [Reason.LATE]
    assert broken.directory == straight.directory


def test_state_depends_on_the_horizon_and_not_on_the_number_of_events() -> None:
    assert live_rows_after(10_000) == live_rows_after(40_000) == 134


def live_rows_after(events: int) -> int:
    joined = lane()
    stored_max = 0
    for first in range(0, events, 200):
        moments = range(first, min(first + 200, events))
        joined.turn(
            [
                pair
                for i in moments
                for pair in (
                    (Side.RIGHT, event(f"r{i}", i - 5, i + 5, ts=i)),
                    (Side.LEFT, event(f"l{i}", i - 3, i + 7, ts=i)),
                )
            ]
        )
        stored_max = max(stored_max, len(joined.store))
    assert joined.watermarks == Watermarks(*[events - 1] * 3)
    # At most two buckets (of 15) on top of the horizon and the longest interval, on two sides.
    assert len(joined.store) <= stored_max <= 2 * (L + D + 10 + 2 * 15 + 8)
    ends = [parse_row_key(name).end for name in joined.store]
    return sum(is_retained(end, joined.watermarks.lane, L + D) for end in ends)
