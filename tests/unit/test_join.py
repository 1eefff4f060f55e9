"""One clause of the rules of inserts, duplicates and retractions after the other."""

from __future__ import annotations

import pytest

from app.join import Counts
from schemas.records import Reason, Side
from state.keys import MET, REMEMBERED, parse_row_key, parse_row_value
from tests.lane import Lane, event, retraction, settings_of

L, D = 10, 50


@pytest.fixture
def lane() -> Lane:
    return Lane(settings_of(L, D))


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
        assert effects.counts == Counts(retracted=1, tombstones=1)

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
