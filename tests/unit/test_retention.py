from __future__ import annotations

import pytest

from schemas.records import INT64_MAX, INT64_MIN
from state.checkpoint import Bucket, Watermarks
from state.retention import OUTER_REACH, droppable, first_kept_end, is_retained, longest, span_of
from state.watermark import Levels, levels_of, watermarks_of


@pytest.mark.parametrize(
    ("lateness", "max_interval", "span"),
    [(0, 0, 1), (0, 1, 1), (2, 2, 1), (2, 3, 2), (10, 50, 15), (10_000, 43_200_000, 10_802_500)],
)
def test_a_span_is_a_quarter_of_the_horizon_rounded_up(
    lateness: int, max_interval: int, span: int
) -> None:
    assert span_of(lateness, max_interval) == span


def test_a_row_is_retained_up_to_its_horizon() -> None:
    assert is_retained(120, None, 60)
    assert is_retained(120, 180, 60)
    assert not is_retained(120, 181, 60)


def entry(longest: int) -> Bucket:
    return Bucket(1, 1, 1, longest, 0, 0)


def test_a_bucket_is_dropped_after_its_last_end_the_horizon_and_the_longest_row() -> None:
    buckets = {-1: entry(3), 0: entry(7), 4: entry(0)}
    # Bucket -1 ends with -1, bucket 0 with 9; the longest of all rows counts for each.
    assert droppable(buckets, None, 60, 10) == []
    assert droppable({}, 10**6, 60, 10) == []
    assert droppable(buckets, -1 + 60 + 7, 60, 10) == []
    assert droppable(buckets, -1 + 60 + 7 + 1, 60, 10) == [-1]
    assert droppable(buckets, 9 + 60 + 7, 60, 10) == [-1]
    assert droppable(buckets, 9 + 60 + 7 + 1, 60, 10) == [-1, 0]
    assert droppable(buckets, INT64_MAX, 60, 10) == [-1, 0, 4]
    # Twice that for an outer join.
    assert droppable(buckets, -1 + 60 + 14, 60, 10, OUTER_REACH) == []
    assert droppable(buckets, -1 + 60 + 14 + 1, 60, 10, OUTER_REACH) == [-1]
    assert first_kept_end(-1, 10) == 0
    assert longest([]) == 0


def again(levels: Levels) -> Watermarks:
    return watermarks_of(levels.lane, levels.tops, levels.floors)


def test_levels_say_what_the_watermarks_say() -> None:
    marks = Watermarks(None, 100, None)
    levels = levels_of(marks, (True, True))
    assert again(levels) == marks
    assert levels.lane < INT64_MIN > levels.tops[1]
    assert again(levels_of(marks, (True, False))) == Watermarks(100, 100, None)
    assert again(levels_of(marks, (False, True))) == marks
    assert again(levels_of(marks, (False, False))) == marks
    ahead = Watermarks(120, 100, 110)  # A side came back from being idle.
    assert again(levels_of(ahead, (True, True))) == ahead
    assert again(levels_of(Watermarks(70, 100, 90), (True, True))).lane == 90
