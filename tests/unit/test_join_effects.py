"""What a turn wants committed: sizes, directory, aborted turns, empty turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.join import Counts, JoinSettings
from schemas.records import Reason, Side
from state.checkpoint import Bucket
from state.keys import RETRACTED, parse_row_key, parse_row_value
from tests.lane import Lane, event, retraction, settings_of, watermark

L, D = 10, 50


@pytest.fixture
def lane() -> Lane:
    return Lane(settings_of(L, D))


def reasons(lane: Lane) -> list[Reason]:
    return [reject.reason for effects in lane.turns for reject in effects.rejects]


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

    def test_no_tombstone_is_larger_than_what_the_topic_takes(self) -> None:
        row_id = "x" * 600
        lane = Lane(self.settings(1_000))
        lane.left(event(row_id, 0, 10))
        lane.right(event("r", 5, 15))
        assert reasons(lane) == [Reason.TOO_LARGE]
        effects = lane.left(retraction(row_id, 0, 10))
        assert (effects.matches, effects.counts.unmatched) == ([], 0)
        assert effects.counts.retracted == 1

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
        assert set(proposed.touched) == {b"k"}
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
