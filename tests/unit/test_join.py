"""One clause of the join's rules after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.join import Counts, JoinSettings
from schemas.records import INT64_MAX, INT64_MIN, Event, Kind, Reason, Rejected, Side
from state.checkpoint import Bucket, Watermarks
from state.keys import MET, REMEMBERED, RETRACTED, parse_row_key, parse_row_value
from tests.lane import Lane, event, retraction, settings_of, watermark

L, D = 10, 50
ROOM = L + 4 * D


@pytest.fixture
def lane() -> Lane:
    return Lane(settings_of(L, D))


def reasons(lane: Lane) -> list[Reason]:
    return [reject.reason for effects in lane.turns for reject in effects.rejects]


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


class TestInsert:
    def test_is_late_beyond_the_allowed_lateness_only(self, lane: Lane) -> None:
        lane.advance(100)
        late = event("b", 89, 120, ts=89)
        effects = lane.left(event("a", 90, 90), late, event("c", 50, 95, ts=90))
        assert [(r.reason, r.offset) for r in effects.rejects] == [(Reason.LATE, late.offset)]
        assert effects.counts.inserted == 2

    def test_matches_every_overlapping_row_of_the_other_side(self, lane: Lane) -> None:
        lane.left(*[event(f"l{n}", n, n + 10, ts=n + 3) for n in range(0, 60, 5)])
        effects = lane.right(event("r", 22, 26, ts=25))
        assert sorted(effects.matches) == [
            (f"L:l{n}|R:r".encode(), b"%d %d l%d:%d:%d r:22:26" % (
                max(n, 22), min(n + 10, 26), n, n, n + 10), max(n + 3, 25))
            for n in (15, 20, 25)
        ]  # fmt: skip
        assert effects.counts.matched == 3

    def test_does_not_match_its_own_side(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), event("b", 0, 10))
        assert lane.emitted == []

    def test_sides_have_ids_of_their_own(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.right(event("a", 5, 15))
        assert lane.emitted == [("L:a|R:a", True)]

    def test_keys_have_ids_of_their_own(self, lane: Lane) -> None:
        effects = lane.left(event("a", 0, 10), event("a", 0, 10, key=b"other"))
        assert effects.counts.inserted == 2

    def test_match_and_tombstone_of_one_turn_keep_their_order(self, lane: Lane) -> None:
        left, right = event("l", 0, 10), event("r", 5, 15)
        lane.turn([(Side.LEFT, left), (Side.RIGHT, right), (Side.LEFT, retraction("l", 0, 10))])
        assert lane.emitted == [("L:l|R:r", True), ("L:l|R:r", False)]


class TestDuplicate:
    def test_with_other_bytes_is_counted_and_the_first_wins(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        effects = lane.left(event("a", 0, 10, value=b"new"), event("a", 0, 10, ts=3))
        assert (effects.counts.duplicates, effects.counts.duplicate_changed) == (2, 1)
        lane.right(event("r", 0, 10))
        assert lane.turns[-1].matches[0][1] == b"0 10 a:0:10 r:0:10"

    @pytest.mark.parametrize(("start", "end"), [(0, 11), (1, 10)])
    def test_with_another_interval_is_rejected(self, lane: Lane, start: int, end: int) -> None:
        lane.left(event("a", 0, 10))
        effects = lane.left(event("a", start, end))
        assert [r.reason for r in effects.rejects] == [Reason.CONFLICTING_DUPLICATE]
        assert effects.counts.duplicates == 0

    def test_comes_before_lateness(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), event("b", 0, 10))
        lane.advance(10 + L + D)
        effects = lane.left(event("a", 0, 10), event("b", 0, 9))
        assert effects.counts.duplicates == 1
        assert [r.reason for r in effects.rejects] == [Reason.CONFLICTING_DUPLICATE]

    def test_is_none_past_the_horizon(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.advance(10 + L + D + 1)
        effects = lane.left(event("a", 0, 10))
        assert [r.reason for r in effects.rejects] == [Reason.LATE]

    def test_of_a_retracted_row_may_have_any_interval(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), retraction("a", 0, 10))
        effects = lane.left(event("a", 0, 10), event("a", 3, 7, value=b"new"))
        assert effects.counts == Counts(duplicates=2)

    def test_an_expired_id_used_again_is_a_new_row_beside_the_old(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.right(event("r", 5, 40), event("s", 100, 120))
        lane.advance(71)
        effects = lane.left(event("a", 75, 110))
        assert effects.counts.inserted == 1
        # The retraction is of the new row alone; the old one's match stays.
        lane.left(retraction("a", 75, 110))
        lane.right(retraction("r", 5, 40))
        assert lane.emitted == [
            ("L:a|R:r", True),
            ("L:a|R:s", True),
            ("L:a|R:s", False),
            ("L:a|R:r", False),
        ]


class TestRetract:
    def test_ignores_the_interval_it_carries_when_the_id_is_known(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.right(event("r", 5, 15))
        effects = lane.left(retraction("a", 30, 35))
        assert effects.matches == [(b"L:a|R:r", None, 5)]
        assert effects.counts == Counts(retracted=1, unmatched=1)

    def test_is_not_late(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.advance(70)
        assert lane.left(retraction("a", 0, 10, ts=0)).counts.retracted == 1

    def test_under_another_key_is_of_an_unknown_row(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.right(event("r", 5, 15))
        effects = lane.left(retraction("a", 0, 10, key=b"other"))
        assert effects.counts == Counts(remembered=1)
        assert effects.matches == []

    def test_takes_only_matches_that_are_left(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), event("b", 0, 10))
        lane.right(event("r", 5, 15), event("s", 5, 15))
        lane.right(retraction("r", 5, 15))
        effects = lane.left(retraction("a", 0, 10))
        assert effects.matches == [(b"L:a|R:s", None, 5)]

    def test_a_tombstone_has_the_ts_of_its_match(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10, ts=9))
        lane.right(event("r", 5, 15, ts=7))
        effects = lane.right(retraction("r", 5, 15, ts=900))
        assert effects.matches == [(b"L:a|R:r", None, 9)]

    def test_of_an_unknown_row_waits_for_its_insert(self, lane: Lane) -> None:
        lane.right(event("r", 5, 15))
        assert lane.left(retraction("a", 0, 10)).counts == Counts(remembered=1)
        assert lane.left(retraction("a", 0, 10)).counts == Counts(duplicates=1)
        assert lane.left(event("a", 3, 12)).counts == Counts(duplicates=1)
        assert lane.left(event("a", 0, 10)).counts == Counts(duplicates=1)
        assert lane.left(retraction("a", 0, 10)).counts == Counts(duplicates=1)
        assert lane.emitted == []

    def test_is_remembered_up_to_its_horizon(self, lane: Lane) -> None:
        lane.advance(10 + L + D)
        effects = lane.left(retraction("a", 0, 10), retraction("b", 0, 9))
        assert effects.counts.remembered == 1
        assert [r.reason for r in effects.rejects] == [Reason.RETRACT_AFTER_HORIZON]

    def test_remembered_ignores_an_insert_that_would_be_late(self, lane: Lane) -> None:
        lane.left(retraction("a", 0, 10))
        lane.advance(70)
        assert lane.left(event("a", 0, 10)).counts == Counts(duplicates=1)

    def test_remembered_is_forgotten_past_its_horizon(self, lane: Lane) -> None:
        lane.left(retraction("a", 0, 10))
        lane.advance(71)
        assert lane.left(event("a", 61, 71, ts=61)).counts.inserted == 1

    def test_of_an_expired_row_with_a_later_end_is_remembered_beside_it(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        lane.advance(71)
        assert lane.left(retraction("a", 60, 70)).counts == Counts(remembered=1)
        assert lane.left(event("a", 60, 72, ts=72)).counts == Counts(duplicates=1)

    def test_remembered_counts_when_it_expires_unmet(self, lane: Lane) -> None:
        lane.left(retraction("met", 0, 10), retraction("unmet", 0, 10))
        lane.left(event("met", 0, 10))
        flags = {parse_row_key(k).id: parse_row_value(v)[1] for k, v in lane.store.items()}
        assert flags == {"met": MET, "unmet": REMEMBERED}
        assert [entry.remembered for entry in lane.directory.values()] == [1]
        assert lane.advance(500).counts.remembered_expired == 1
        assert lane.store == {}


class TestTooLarge:
    def settings(self, match_bytes_max: int) -> JoinSettings:
        return settings_of(L, D, match_bytes_max=match_bytes_max)

    def test_a_match_is_rejected_under_its_id(self) -> None:
        size = len(b"L:a|R:r") + len(b"5 10 a:0:10 r:5:15") + 512
        fits, over = Lane(self.settings(size)), Lane(self.settings(size - 1))
        for lane in (fits, over):
            lane.left(event("a", 0, 10))
            lane.right(event("r", 5, 15))
        assert fits.emitted == [("L:a|R:r", True)]
        assert over.emitted == []
        reject = over.turns[1].rejects[0]
        assert (reject.reason, reject.match_id) == (Reason.TOO_LARGE, b"L:a|R:r")
        assert "left id a" in reject.detail
        assert "right id r" in reject.detail
        assert over.turns[1].counts.rejected == {Reason.TOO_LARGE: 1}
        assert over.turns[1].counts.inserted == 1
        assert over.turns[1].counts.matched == 0

    def test_a_row_is_rejected_after_every_other_check(self) -> None:
        lane = Lane(settings_of(L, D, row_bytes_max=150))
        lane.advance(100)
        big = b"x" * 150
        effects = lane.left(event("a", 50, 50, value=big), event("b", 100, 100, value=big))
        assert [r.reason for r in effects.rejects] == [Reason.LATE, Reason.TOO_LARGE]
        assert effects.rejects[1].match_id is None
        assert not effects.rows

    def test_the_size_of_a_row_is_that_of_its_key_and_value(self) -> None:
        value = b"x" * 60
        for row_id in ("id", "\N{GRINNING FACE}"):
            size = 1 + 8 + 1 + 4 + 1 + 16 + len(row_id.encode()) + 9 + len(value)
            for over, fits in ((0, True), (1, False)):
                lane = Lane(settings_of(L, D, row_bytes_max=size - over))
                effects = lane.left(event(row_id, 0, 0, value=value))
                assert (effects.rejects == []) is fits
                assert all(len(k) + len(v) == size for k, v in effects.rows.items())

    def test_a_retraction_to_remember_can_be_too_large(self) -> None:
        lane = Lane(settings_of(L, D, row_bytes_max=100))
        effects = lane.left(retraction("a", 0, 0, key=b"k" * 100))
        assert [r.reason for r in effects.rejects] == [Reason.TOO_LARGE]


class TestEffects:
    def test_a_row_written_twice_in_a_turn_counts_once(self, lane: Lane) -> None:
        effects = lane.left(event("a", 0, 10), retraction("a", 0, 10))
        assert len(effects.rows) == 1
        assert [parse_row_value(v)[1:] for v in effects.rows.values()] == [(RETRACTED, b"")]
        assert list(effects.buckets.values()) == list(lane.recomputed_directory().values())
        assert (effects.counts.inserted, effects.counts.retracted) == (1, 1)

    def test_entries_are_absolute_and_keep_their_first_offset(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        effects = lane.left(event("b", 0, 5))
        assert effects.buckets == lane.recomputed_directory()
        (entry,) = effects.buckets.values()
        assert (entry.rows, entry.longest, entry.first_offset) == (2, 10, 0)
        effects = lane.left(event("c", 40, 40))
        assert [entry.first_offset for entry in effects.buckets.values()] == [2]

    def test_a_dropped_bucket_has_no_rows(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10))
        (bucket,) = lane.directory
        effects = lane.advance(1000)
        assert effects.dropped == [bucket]
        assert effects.buckets == {bucket: Bucket(0, 0, 0, 0, 0, 0)}
        assert lane.state.buckets == {}

    def test_rows_of_a_bucket_dropped_in_their_own_turn_are_not_written(self, lane: Lane) -> None:
        records = [event("a", 0, 10), retraction("b", 0, 10), watermark(1000)]
        lane.right(watermark(1000))
        effects = lane.left(*records, event("c", 1000, 1000))
        assert [parse_row_key(name).id for name in effects.rows] == ["c"]
        assert effects.counts.inserted == 2
        assert effects.counts.remembered_expired == 1
        assert lane.directory == lane.recomputed_directory() == lane.state.buckets
        assert lane.state.windows.size > 0

    def test_nothing_is_dropped_while_a_row_in_it_may_still_be_needed(self, lane: Lane) -> None:
        lane.left(event("l", 0, 14))  # The bucket of 0 to 14.
        lane.right(event("r", 14, 60))
        longest = 46
        kept = lane.advance(14 + L + D + longest)
        assert kept.dropped == []
        assert lane.advance(14 + L + D + longest + 1).dropped == [0]

    def test_an_aborted_turn_leaves_no_trace(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), event("b", 0, 10))
        size = lane.state.windows.size
        proposed = lane.propose(
            [(Side.LEFT, retraction("a", 0, 10)), (Side.RIGHT, event("r", 5, 5))]
        )
        assert proposed.touched == {b"k"}
        lane.abort(proposed)
        assert lane.state.windows.size == 0
        assert lane.state.watermarks == lane.watermarks
        effects = lane.right(event("r", 5, 5))
        assert sorted(lane.emitted) == [("L:a|R:r", True), ("L:b|R:r", True)]
        assert effects.counts.inserted == 1
        assert lane.state.windows.size > size

    def test_a_turn_run_again_has_the_same_effects(self, lane: Lane) -> None:
        lane.left(event("a", 0, 10), event("b", 5, 10))
        records = [
            (Side.RIGHT, event("r", 5, 5)),
            (Side.LEFT, retraction("a", 0, 10)),
            (Side.LEFT, event("c", 5, 50)),
            (Side.RIGHT, event("s", 500, 550)),
        ]
        first = lane.propose(records)
        lane.abort(first)
        second = lane.propose(records)
        assert second == replace(first, matches=second.matches)
        assert sorted(second.matches, key=repr) == sorted(first.matches, key=repr)

    def test_an_empty_turn_has_nothing_to_commit(self, lane: Lane) -> None:
        effects = lane.turn([])
        assert not effects.changed
        assert effects.counts == Counts()
        assert lane.left(event("a", 0, 0), event("a", 0, 0)).changed

    def test_late_events_leave_no_windows_behind(self, lane: Lane) -> None:
        lane.advance(1000)
        lane.left(*[event("x", 0, 0, key=b"%d" % n) for n in range(50)])
        assert reasons(lane) == [Reason.LATE] * 50
        assert lane.state.windows.table == {}
        assert lane.state.windows.size == 0
