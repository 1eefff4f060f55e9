"""Duplicates, retractions and how long rows are kept: allowed lateness 10, max interval 50."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import decode_match, match_id
from tests.kafka.lane import HORIZON, LEFT, RIGHT, matches

if TYPE_CHECKING:
    from tests.kafka.lane import Lane

PAIR: Final = match_id("l1", "r1")
END: Final = 120
"""Where the row ends whose horizon is looked at: it is kept up to a watermark of 180."""


# --- duplicates -----------------------------------------------------------------------------


def test_of_a_changed_duplicate_the_first_wins(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20, payload=b"first")
    lane.insert(LEFT, "l1", 10, 20, payload=b"second")
    lane.insert(LEFT, "l1", 10, 20, ts=15)
    lane.settle()
    lane.insert(RIGHT, "r1", 10, 20, payload=b"right")
    assert lane.log() == matches(("l1", "r1"))
    (match,) = [decode_match(change.value) for change in lane.changes]
    assert (match.left.payload, match.left.ts, match.right.payload) == (b"first", 10, b"right")
    assert lane.reasons() == []


def test_a_duplicate_with_another_interval_is_a_conflict_and_the_first_stays(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(LEFT, "l1", 10, 21)
    lane.insert(LEFT, "l1", 9, 20)
    lane.insert(RIGHT, "r1", 20, 25)
    lane.insert(RIGHT, "r2", 21, 25)
    assert lane.log() == matches(("l1", "r1"))
    assert lane.reasons() == ["conflicting_duplicate"] * 2


def test_a_known_id_is_a_duplicate_before_it_is_late(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 90, END)
    lane.watermark(END + HORIZON)
    lane.insert(LEFT, "l1", 90, END)
    lane.settle()
    assert lane.reasons() == []
    lane.insert(LEFT, "l1", 91, END)
    lane.settle()
    assert lane.reasons() == ["conflicting_duplicate"]
    lane.watermark(END + HORIZON + 1)
    lane.insert(LEFT, "l1", 91, END)
    lane.settle()
    assert lane.reasons() == ["conflicting_duplicate", "late"]
    assert lane.log() == {}


def test_an_id_may_be_used_again_past_its_horizon(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 90, END)
    lane.insert(RIGHT, "r1", 90, END)
    lane.watermark(500)
    lane.insert(LEFT, "l1", 500, 510)
    lane.insert(RIGHT, "r2", 505, 510)
    assert lane.log() == matches(("l1", "r1"), ("l1", "r2"))
    assert lane.reasons() == []


def test_the_same_id_on_the_other_side_is_another_row(lane: Lane) -> None:
    lane.insert(LEFT, "same", 10, 20)
    lane.insert(RIGHT, "same", 15, 25)
    lane.settle()
    lane.retract(RIGHT, "same", 15, 25)
    lane.settle()
    lane.insert(RIGHT, "other", 10, 10)
    assert lane.log() == {"L:same|R:same": "+-", "L:same|R:other": "+"}


# --- retractions ----------------------------------------------------------------------------


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_a_retraction_takes_back_every_match_of_its_row_once(lane: Lane, side: str) -> None:
    other = RIGHT if side == LEFT else LEFT
    lane.insert(side, "gone", 10, 40)
    for number in range(20):
        lane.insert(other, f"o{number}", 10 + number, 10 + number)
    lane.insert(side, "stays", 10, 10)
    lane.settle()
    for _ in range(3):
        lane.retract(side, "gone", 10, 40)
        lane.settle()
    lane.insert(side, "gone", 10, 40)
    lane.insert(other, "later", 15, 16)
    pairs = {f"o{number}": "+-" for number in range(20)}
    expected = {
        match_id(*(("gone", name) if side == LEFT else (name, "gone"))): log
        for name, log in pairs.items()
    }
    expected |= matches(("stays", "o0") if side == LEFT else ("o0", "stays"))
    assert lane.log() == expected
    assert lane.reasons() == []


def test_a_match_of_two_retracted_rows_is_taken_back_once(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "r1", 15, 25)
    lane.settle()
    lane.retract(LEFT, "l1", 10, 20)
    lane.retract(RIGHT, "r1", 15, 25)
    assert lane.log() == {PAIR: "+-"}


def test_a_retraction_that_comes_first_is_remembered(lane: Lane) -> None:
    lane.retract(LEFT, "l1", 10, 20)
    lane.settle()
    lane.insert(RIGHT, "r1", 15, 25)
    lane.insert(LEFT, "l1", 10, 20)
    lane.settle()
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(LEFT, "l1", 11, 20)
    lane.retract(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "r2", 15, 25)
    lane.insert(LEFT, "l2", 15, 16)
    assert lane.log() == matches(("l2", "r1"), ("l2", "r2"))
    assert lane.reasons() == []


def test_insert_and_retraction_in_one_go_leave_nothing_live(lane: Lane) -> None:
    lane.insert(RIGHT, "r1", 10, 20)
    lane.settle()
    lane.insert(LEFT, "l1", 10, 20)
    lane.retract(LEFT, "l1", 10, 20)
    assert lane.log() in ({PAIR: "+-"}, {})


def test_the_interval_a_retraction_carries_does_not_matter_for_a_known_id(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 190, 200)
    lane.insert(RIGHT, "r1", 195, 205)
    lane.watermark(200)
    lane.retract(LEFT, "l1", 0, 0)
    assert lane.log() == {PAIR: "+-"}
    assert lane.reasons() == []


def test_an_update_is_a_retraction_and_an_insert_under_a_new_id(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "r1", 15, 25)
    lane.settle()
    lane.retract(LEFT, "l1", 10, 20)
    lane.insert(LEFT, "l1 moved", 20, 22)
    assert lane.log() == {PAIR: "+-", match_id("l1 moved", "r1"): "+"}


def test_a_retraction_may_be_stamped_long_after_its_row(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "r1", 15, 25)
    lane.settle()
    lane.retract(RIGHT, "r1", 15, 25, ts=1_000_000)
    lane.settle()
    lane.insert(RIGHT, "r2", 20, 25)
    assert lane.log() == {PAIR: "+-", match_id("l1", "r2"): "+"}


def test_a_retraction_is_for_its_own_key(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "r1", 15, 25)
    lane.settle()
    lane.retract(LEFT, "l1", 10, 20, key=b"another")
    assert lane.log() == matches(("l1", "r1"))


# --- the horizon ----------------------------------------------------------------------------


@pytest.mark.parametrize(("watermark", "log"), [(180, "+-"), (181, "+")])
def test_a_row_can_be_retracted_up_to_its_horizon(lane: Lane, watermark: int, log: str) -> None:
    lane.insert(LEFT, "l1", 95, 115)
    lane.insert(RIGHT, "r1", 90, END)
    lane.watermark(watermark)
    lane.retract(RIGHT, "r1", 90, END)
    assert lane.log() == {PAIR: log}
    assert lane.reasons() == ["retract_after_horizon"] * (log == "+")


def test_a_retraction_reaches_matches_whose_other_row_is_past_its_horizon(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 95, 115)
    lane.insert(RIGHT, "r1", 90, END)
    lane.watermark(176)
    lane.retract(LEFT, "l1", 95, 115)
    lane.settle()
    assert lane.reasons() == ["retract_after_horizon"]
    lane.retract(RIGHT, "r1", 90, END)
    assert lane.log() == {PAIR: "+-"}


def test_a_retraction_past_the_horizon_is_rejected_each_time(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 95, 115)
    lane.insert(RIGHT, "r1", 90, END)
    lane.watermark(500)
    lane.retract(RIGHT, "r1", 90, END)
    lane.settle()
    assert lane.reasons() == ["retract_after_horizon"]
    lane.retract(RIGHT, "r1", 90, END)
    assert lane.log() == {PAIR: "+"}
    assert lane.reasons() == ["retract_after_horizon"] * 2


@pytest.mark.parametrize(("watermark", "reasons"), [(180, []), (181, ["retract_after_horizon"])])
def test_an_unknown_id_is_judged_by_the_interval_its_retraction_carries(
    lane: Lane, watermark: int, reasons: list[str]
) -> None:
    lane.watermark(watermark)
    lane.retract(LEFT, "never seen", 110, END)
    assert lane.reasons() == reasons
    assert lane.log() == {}


def test_a_remembered_retraction_lasts_up_to_its_horizon(lane: Lane) -> None:
    lane.retract(LEFT, "l1", 170, END + 50)
    lane.watermark(180)
    lane.insert(RIGHT, "r1", 170, 170)
    lane.insert(LEFT, "l1", 170, 170)
    assert lane.log() == {}
    assert lane.reasons() == []


@pytest.mark.parametrize("late_side", [LEFT, RIGHT])
def test_no_late_row_can_reach_a_row_that_is_past_its_horizon(lane: Lane, late_side: str) -> None:
    """The horizon is the least there can be: at it, the latest row there may be still matches."""
    early_side = RIGHT if late_side == LEFT else LEFT
    lane.insert(early_side, "early", 100, END)
    lane.watermark(END + HORIZON)
    lane.insert(late_side, "latest", END, END + 50, ts=END + 50)
    pair = ("early", "latest") if early_side == LEFT else ("latest", "early")
    assert lane.log() == matches(pair)


def test_a_row_is_forgotten_and_found_again_in_no_order_of_cleaning(lane: Lane) -> None:
    """Rows of many ages, one of them as long as can be: what is kept longer is not joined with."""
    for start in range(0, 600, 30):
        lane.insert(LEFT, f"l{start}", start, start + 50)
        lane.insert(RIGHT, f"r{start}", start + 10, start + 20)
        lane.watermark(start)
    log = lane.log()
    assert lane.reasons() == []
    assert log == matches(
        *[
            (f"l{left}", f"r{right}")
            for left in range(0, 600, 30)
            for right in range(0, 600, 30)
            if left <= right + 20 and right + 10 <= left + 50
        ]
    )
    watermark = 570
    for start in range(0, 600, 30):
        lane.retract(RIGHT, f"r{start}", start + 10, start + 20)
    gone = {f"r{start}" for start in range(0, 600, 30) if watermark <= start + 20 + HORIZON}
    log = lane.log()
    assert {key.rpartition("R:")[2] for key, values in log.items() if values == "+-"} == gone
    assert {key.rpartition("R:")[2] for key, values in log.items() if values == "+"}.isdisjoint(
        gone
    )
    assert len(lane.reasons()) == 20 - len(gone)
