"""Which rows match, and which inserts are taken: allowed lateness 10, max interval 50."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import Event, decode_match, encode, match_id
from tests.kafka.lane import KEY, LATENESS, LEFT, MAX_INTERVAL, RIGHT, matches

if TYPE_CHECKING:
    from tests.kafka.lane import Lane, Lanes

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
ROOM: Final = LATENESS + 4 * MAX_INTERVAL
SIDES: Final = (LEFT, RIGHT)


@pytest.mark.parametrize("first", SIDES)
def test_a_match_comes_with_the_later_row_and_under_the_same_id(lane: Lane, first: str) -> None:
    second = RIGHT if first == LEFT else LEFT
    names = {LEFT: "l1", RIGHT: "r1"}
    lane.insert(first, names[first], 10, 30)
    assert lane.log() == {}
    lane.insert(second, names[second], 20, 40)
    assert lane.log() == {"L:l1|R:r1": "+"}


def test_out_of_order_and_duplicated_input_gives_each_match_once(lane: Lane) -> None:
    for start in (30, 25, 32, 25):
        lane.insert(LEFT, f"l{start}", start, start + 10)
    for start in (38, 30, 38):
        lane.insert(RIGHT, f"r{start}", start, start + 3)
    lane.settle()
    for _ in range(2):
        lane.insert(LEFT, "l25", 25, 35)
        lane.insert(RIGHT, "r38", 38, 41)
    assert lane.log() == matches(
        ("l25", "r30"), ("l30", "r30"), ("l32", "r30"), ("l30", "r38"), ("l32", "r38")
    )
    assert lane.reasons() == []


def test_rows_that_do_not_overlap_or_have_another_key_do_not_match(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20)
    lane.insert(RIGHT, "before", 5, 9)
    lane.insert(RIGHT, "after", 21, 30)
    lane.insert(RIGHT, "elsewhere", 10, 20, key=b"other")
    lane.insert(RIGHT, "here", 12, 13)
    assert lane.log() == matches(("l1", "here"))


def test_touching_intervals_match(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 20, 30)
    lane.insert(RIGHT, "ends there", 10, 20)
    lane.insert(RIGHT, "begins there", 30, 40)
    lane.insert(RIGHT, "all of it", 20, 30)
    lane.settle()
    values = {change.key: decode_match(change.value) for change in lane.changes}
    assert {value[:2] for value in values.values()} == {(20, 20), (30, 30), (20, 30)}
    assert lane.log() == matches(("l1", "ends there"), ("l1", "begins there"), ("l1", "all of it"))


def test_instants_match_where_they_are_equal(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 20, 20)
    for at in (19, 20, 21):
        lane.insert(RIGHT, f"r{at}", at, at)
    assert lane.log() == matches(("l1", "r20"))


def test_everything_that_overlaps_matches_each_with_each(lane: Lane) -> None:
    names = [str(number) for number in range(12)]
    for number, name in enumerate(names):
        lane.insert(LEFT, name, number, number + 20)
        lane.insert(RIGHT, name, number, number + 20)
    # The same ids on both sides are different rows.
    assert lane.log() == matches(*[(left, right) for left in names for right in names])


def test_the_longest_interval_is_taken(lane: Lane) -> None:
    lane.insert(LEFT, "long", 100, 100 + MAX_INTERVAL)
    lane.insert(RIGHT, "at its end", 150, 150)
    assert lane.log() == matches(("long", "at its end"))


def test_the_moment_may_be_anywhere_in_the_interval(lane: Lane) -> None:
    for name, ts in (("first", 10), ("inside", 15), ("last", 20)):
        lane.insert(LEFT, name, 10, 20, ts=ts)
    lane.insert(RIGHT, "r1", 10, 20, ts=20)
    assert lane.log() == matches(("first", "r1"), ("inside", "r1"), ("last", "r1"))
    assert lane.reasons() == []


def test_the_order_of_arrival_changes_nothing(lane: Lane) -> None:
    events = [(LEFT, "l1", 10, 20), (RIGHT, "r1", 15, 25), (RIGHT, "r2", 5, 10)]
    expected: dict[str, str] = {}
    for number, order in enumerate(permutations(events)):
        for side, name, start, end in order:
            lane.insert(side, f"{name} {number}", start, end, key=b"%d" % number)
            lane.settle()
        expected |= matches(*[(f"l1 {number}", f"{name} {number}") for name in ("r1", "r2")])
    assert lane.log() == expected


KEYS: Final = (b"", b"\0", b"\0\0", b"a", b"ab", b"a\0", b"a\0b", b"\xff", b"x" * 65_536)


def test_every_key_is_a_key_of_its_own(lane: Lane) -> None:
    for number, key in enumerate(KEYS):
        lane.insert(LEFT, f"l{number}", 10, 20, key=key)
    lane.settle()
    for number, key in enumerate(KEYS):
        lane.insert(RIGHT, f"r{number}", 15, 25, key=key)
    assert lane.log() == matches(*[(f"l{number}", f"r{number}") for number in range(len(KEYS))])
    assert lane.reasons() == []


IDS: Final = ("", "|", "%", "%7C", "a|R:b", "a", "%25", "L:a|R:a", "é", "日本", "\n", "\0", " ")


def test_ids_are_told_apart_whatever_they_contain(lane: Lane) -> None:
    for name in IDS:
        lane.raw(LEFT, KEY, encode(Event(name, 10, 10, 20)))
        lane.raw(RIGHT, KEY, encode(Event(name, 15, 15, 25)))
    expected = matches(*[(left, right) for left in IDS for right in IDS])
    assert len(expected) == len(IDS) ** 2
    assert lane.log() == expected
    assert lane.log()["L:%7C|R:%25"] == "+"
    assert lane.log()["L:a%7CR:b|R:a"] == "+"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (INT64_MIN + ROOM, INT64_MIN + ROOM + MAX_INTERVAL),
        (INT64_MAX - ROOM - MAX_INTERVAL, INT64_MAX - ROOM),
    ],
    ids=["least", "greatest"],
)
def test_times_at_the_ends_of_the_range_match(lane: Lane, start: int, end: int) -> None:
    lane.insert(LEFT, "l1", start, end)
    lane.insert(RIGHT, "r1", end, end)
    lane.insert(RIGHT, "r2", start, start)
    lane.settle()
    lane.watermark(end)
    lane.retract(RIGHT, "r2", start, start)
    assert lane.log() == {match_id("l1", "r1"): "+", match_id("l1", "r2"): "+-"}
    assert lane.reasons() == []


def test_time_can_go_from_one_end_of_the_range_to_the_other(lane: Lane) -> None:
    for at in (INT64_MIN + ROOM, 0, INT64_MAX - ROOM):
        lane.insert(LEFT, f"l{at}", at, at)
        lane.insert(RIGHT, f"r{at}", at, at)
        lane.settle()
    lane.insert(LEFT, "late", 0, 0)
    lane.settle()
    assert lane.reasons() == ["late"]
    ends = (INT64_MIN + ROOM, 0, INT64_MAX - ROOM)
    assert lane.log() == matches(*[(f"l{at}", f"r{at}") for at in ends])


# --- watermark and lateness ------------------------------------------------------------------


def test_a_row_at_the_edge_of_lateness_is_taken_and_one_before_it_is_late(lane: Lane) -> None:
    lane.watermark(200)
    lane.insert(LEFT, "edge", 190, 195)
    lane.insert(LEFT, "late", 189, 195)
    lane.insert(LEFT, "late start, moment in time", 189, 195, ts=190)
    lane.insert(RIGHT, "r1", 190, 195)
    assert lane.log() == matches(("edge", "r1"), ("late start, moment in time", "r1"))
    assert lane.reasons() == ["late"]


def test_the_watermark_is_that_of_the_side_that_is_behind(lane: Lane) -> None:
    lane.watermark(100, RIGHT)
    lane.watermark(1000, LEFT)
    lane.insert(LEFT, "l1", 90, 95)
    lane.insert(LEFT, "late", 89, 95)
    lane.insert(RIGHT, "r1", 95, 95)
    assert lane.log() == matches(("l1", "r1"))
    assert lane.reasons() == ["late"]


def test_nothing_is_late_until_both_sides_have_spoken(lane: Lane) -> None:
    lane.insert(LEFT, "l1000", 1000, 1000)
    lane.settle()
    lane.insert(LEFT, "l0", 0, 0)
    lane.settle()
    lane.insert(RIGHT, "r0", 0, 0)
    lane.insert(RIGHT, "r1000", 1000, 1000)
    assert lane.log() == matches(("l0", "r0"), ("l1000", "r1000"))
    assert lane.reasons() == []


def test_an_event_is_judged_by_the_watermark_before_it(lane: Lane) -> None:
    lane.watermark(100)
    lane.watermark(500, RIGHT)
    # It moves the watermark from 100 to 500 itself, and is not late for that.
    lane.insert(LEFT, "l500", 500, 500)
    lane.settle()
    lane.insert(LEFT, "l489", 489, 489)
    lane.insert(RIGHT, "r490", 490, 540)
    assert lane.log() == matches(("l500", "r490"))
    assert lane.reasons() == ["late"]


def test_only_the_ts_of_a_watermark_counts(lane: Lane) -> None:
    nonsense = Event("no id", 300, INT64_MAX, INT64_MIN, "WATERMARK", b"payload")
    lane.raw(LEFT, None, encode(nonsense))
    lane.raw(RIGHT, KEY, encode(nonsense._replace(start=5, end=7)))
    lane.settle()
    lane.insert(LEFT, "late", 289, 300)
    lane.insert(LEFT, "l1", 290, 300)
    lane.insert(RIGHT, "r1", 290, 300)
    assert lane.log() == matches(("l1", "r1"))
    assert lane.reasons() == ["late"]


def test_a_watermark_speaks_for_its_own_partition(lane: Lane, lanes: Lanes) -> None:
    other = lanes.take()
    other.watermark(1000)
    lane.insert(LEFT, "l1", 0, 0)
    lane.insert(RIGHT, "r1", 0, 0)
    assert lane.log() == matches(("l1", "r1"))
    other.insert(LEFT, "late", 0, 0)
    assert other.reasons() == ["late"]


def test_an_earlier_watermark_takes_nothing_back(lane: Lane) -> None:
    lane.watermark(500)
    lane.watermark(100)
    lane.insert(LEFT, "late", 489, 489)
    assert lane.reasons() == ["late"]


@pytest.mark.parametrize("start", [100, 101], ids=["duplicate", "conflicting_duplicate"])
def test_an_insert_that_is_not_taken_moves_the_watermark(lane: Lane, start: int) -> None:
    lane.watermark(200, RIGHT)
    lane.insert(LEFT, "known", 100, 150)
    lane.insert(LEFT, "known", start, 150, ts=150)
    lane.insert(LEFT, "late", 139, 139)
    lane.insert(LEFT, "l140", 140, 140)
    lane.insert(RIGHT, "r1", 190, 190)
    lane.insert(RIGHT, "r2", 130, 180, ts=140)
    lane.settle()
    assert lane.reasons() == ["conflicting_duplicate"] * (start != 100) + ["late"]
    assert lane.log() == matches(("known", "r2"), ("l140", "r2"))


def test_a_retraction_never_moves_the_watermark(lane: Lane) -> None:
    lane.watermark(10_000, RIGHT)
    lane.watermark(100, LEFT)
    lane.insert(LEFT, "l1", 100, 110)
    lane.settle()
    lane.retract(LEFT, "l1", 100, 110, ts=10_000)
    lane.settle()
    lane.insert(LEFT, "l2", 90, 110)
    lane.insert(RIGHT, "r1", 95, 99)
    lane.settle()
    assert lane.reasons() == []
    assert lane.log() == matches(("l2", "r1"))
