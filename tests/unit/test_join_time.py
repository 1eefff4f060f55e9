"""Which events are valid, and how they move the watermarks."""

from __future__ import annotations

import pytest

from app.join import Counts
from schemas.records import INT64_MAX, INT64_MIN, Event, Kind, Reason, Rejected, Side
from state.checkpoint import Watermarks
from tests.lane import Lane, event, retraction, settings_of, watermark

L, D = 10, 50
ROOM = L + 4 * D


@pytest.fixture
def lane() -> Lane:
    return Lane(settings_of(L, D))


class TestValidity:
    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (event("x", 1, 2, key=None), Reason.NULL_KEY),
            (retraction("x", 1, 2, key=None), Reason.NULL_KEY),
            (event("x", INT64_MIN, 2, key=None), Reason.NULL_KEY),
            (event("x", INT64_MIN, INT64_MAX), Reason.OUT_OF_RANGE),
            (event("x", 3, INT64_MAX - ROOM + 1), Reason.OUT_OF_RANGE),
            (event("x", INT64_MIN + ROOM - 1, 0), Reason.OUT_OF_RANGE),
            (event("x", 3, 2, ts=INT64_MAX - ROOM + 1), Reason.OUT_OF_RANGE),
            (retraction("x", 1, 2, ts=INT64_MAX), Reason.OUT_OF_RANGE),
            (watermark(INT64_MAX - ROOM + 1), Reason.OUT_OF_RANGE),
            (watermark(INT64_MIN + ROOM - 1), Reason.OUT_OF_RANGE),
            (event("x", 3, 2, ts=2), Reason.INVALID_INTERVAL),
            (retraction("x", 3, 2), Reason.INVALID_INTERVAL),
            (event("x", 1, 2, ts=3), Reason.INVALID_INTERVAL),
            (event("x", 1, 2, ts=0), Reason.INVALID_INTERVAL),
            (event("x", 0, 51, ts=52), Reason.INVALID_INTERVAL),
            (event("x", 0, 51), Reason.INTERVAL_TOO_LONG),
            (event("x", 1000, 1051), Reason.INTERVAL_TOO_LONG),
            (retraction("x", 0, 51), Reason.INTERVAL_TOO_LONG),
            (event("x", 1001, 1010), Reason.FUTURE_TS),
            (retraction("x", 0, 10, ts=1001), Reason.FUTURE_TS),
            (watermark(1001), Reason.FUTURE_TS),
        ],
    )
    def test_the_first_failing_check_names_the_reason(self, bad: Event, reason: Reason) -> None:
        lane = Lane(settings_of(L, D, max_future=100))
        effects = lane.turn([(Side.LEFT, bad)], now=900)
        assert [(reject.offset, reject.reason) for reject in effects.rejects] == [
            (bad.offset, reason)
        ]
        assert effects.rejects[0].detail
        assert effects.counts == Counts(rejected={reason: 1})
        assert effects.changed
        assert effects.watermarks == Watermarks()
        assert not effects.rows

    @pytest.mark.parametrize(
        "good",
        [
            event("x", 0, 50, ts=50),
            event("x", 0, 0),
            event("", 5, 5, key=b""),
            event("x", INT64_MIN + ROOM, INT64_MIN + ROOM + D),
            event("x", INT64_MAX - ROOM - D, INT64_MAX - ROOM),
            retraction("x", 0, 50, ts=INT64_MIN + ROOM),
            retraction("x", 0, 50, ts=INT64_MAX - ROOM),
        ],
    )
    def test_what_touches_its_limits_is_valid(self, lane: Lane, good: Event) -> None:
        assert lane.left(good).rejects == []

    def test_only_the_ts_of_a_watermark_counts(self, lane: Lane) -> None:
        odd = event("", 9, 3, ts=77, key=None, kind=Kind.WATERMARK)
        effects = lane.left(odd, odd._replace(key=b"k", start=INT64_MIN, end=INT64_MAX))
        assert effects.rejects == []
        assert effects.watermarks == Watermarks(None, 77, None)
        assert effects.counts == Counts(watermarks=2)

    def test_max_future_counts_from_the_clock_and_can_be_off(self) -> None:
        strict, off = Lane(settings_of(L, D, max_future=100)), Lane(settings_of(L, D))
        assert strict.turn([(Side.LEFT, event("x", 1000, 1000))], now=900).rejects == []
        assert strict.turn([(Side.LEFT, event("y", 1001, 1001))], now=None).rejects == []
        assert off.turn([(Side.LEFT, event("x", 10**6, 10**6))], now=0).rejects == []

    def test_what_was_rejected_before_passes_through(self, lane: Lane) -> None:
        reject = Rejected(7, Reason.UNDECODABLE, "why", "message")
        effects = lane.turn([(Side.LEFT, reject)])
        assert effects.rejects == [reject]
        assert effects.counts == Counts(rejected={Reason.UNDECODABLE: 1})
        assert effects.changed


class TestWatermark:
    def test_follows_the_slower_side_and_never_falls(self, lane: Lane) -> None:
        assert lane.left(event("a", 100, 100)).watermarks == Watermarks(None, 100, None)
        assert lane.right(event("a", 70, 70)).watermarks == Watermarks(70, 100, 70)
        assert lane.right(event("b", 65, 65)).watermarks == Watermarks(70, 100, 70)
        assert lane.right(watermark(130)).watermarks == Watermarks(100, 100, 130)
        lane.reopen()
        assert lane.left(event("c", 95, 95)).watermarks == Watermarks(100, 100, 130)

    def test_an_event_is_judged_by_the_watermark_before_it(self, lane: Lane) -> None:
        lane.left(watermark(1000))
        # Alone it would lift the watermark far above its own start.
        effects = lane.right(event("r", 1000, 1050, ts=1050), event("s", 1000, 1000))
        assert effects.watermarks.lane == 1000
        assert effects.rejects == []

    def test_is_moved_by_late_duplicate_conflicting_and_too_large_events(self) -> None:
        lane = Lane(settings_of(L, D, row_bytes_max=200))
        lane.turn([(Side.LEFT, watermark(10**6)), (Side.RIGHT, event("r", 100, 100, ts=100))])
        big = lane.right(event("big", 120, 120, value=b"x" * 500))
        assert [r.reason for r in big.rejects] == [Reason.TOO_LARGE]
        assert big.watermarks == Watermarks(120, 10**6, 120)
        conflict = lane.right(event("r", 125, 125))
        assert [r.reason for r in conflict.rejects] == [Reason.CONFLICTING_DUPLICATE]
        assert conflict.watermarks == Watermarks(125, 10**6, 125)

    def test_is_moved_by_a_duplicate(self, lane: Lane) -> None:
        lane.right(event("r", 100, 140, ts=100))
        effects = lane.right(event("r", 100, 140, ts=130))
        assert effects.counts.duplicates == 1
        assert effects.watermarks.right == 130

    def test_is_moved_by_a_late_event_of_the_side_that_is_behind(self, lane: Lane) -> None:
        lane.turn([(Side.LEFT, watermark(500))], counting=(True, False))
        effects = lane.right(event("r", 400, 400))
        assert [r.reason for r in effects.rejects] == [Reason.LATE]
        assert effects.watermarks == Watermarks(500, 500, 400)

    def test_is_not_moved_by_a_retraction(self, lane: Lane) -> None:
        lane.left(event("a", 10, 10))
        effects = lane.left(retraction("a", 10, 10, ts=400), retraction("b", 10, 10, ts=400))
        assert effects.watermarks == Watermarks(None, 10, None)

    def test_idle_sides_do_not_count(self, lane: Lane) -> None:
        lane.left(event("a", 100, 100))
        idle = lane.turn([], counting=(True, False))
        assert idle.watermarks == Watermarks(100, 100, None)
        assert idle.changed
        assert not lane.turn([], counting=(True, False)).changed
        assert lane.turn([], counting=(False, False)).watermarks.lane == 100
        # The side comes back: what it missed is late, and nothing falls.
        effects = lane.right(event("r", 50, 50), event("s", 95, 95))
        assert [r.reason for r in effects.rejects] == [Reason.LATE]
        assert effects.watermarks == Watermarks(100, 100, 95)

    def test_no_side_counting_changes_nothing(self, lane: Lane) -> None:
        both = [(Side.LEFT, watermark(5)), (Side.RIGHT, watermark(5))]
        effects = lane.turn(both, counting=(False, False))
        assert effects.watermarks == Watermarks(None, 5, 5)
