"""Rows of an outer join that nothing matches: which are written, when, and that never twice."""

from __future__ import annotations

import pytest

from app.join import Counts
from schemas.records import NO_OFFSET, Event, JoinType, Reason, Rejected, Side
from tests.lane import Lane, event, retraction, settings_of, watermark

L, D = 10, 50
FULL = JoinType.FULL


def lane_of(join_type: JoinType, **settings: int) -> Lane:
    return Lane(settings_of(L, D, join_type=join_type, **settings))


@pytest.fixture
def lane() -> Lane:
    return lane_of(FULL)


@pytest.mark.parametrize(
    ("join_type", "written"),
    [
        (JoinType.INNER, []),
        (JoinType.LEFT, [("L:a", True)]),
        (JoinType.RIGHT, [("R:b", True)]),
        (FULL, [("L:a", True), ("R:b", True)]),
    ],
)
def test_the_type_says_whose_rows_are_written(
    join_type: JoinType, written: list[tuple[str, bool]]
) -> None:
    lane = lane_of(join_type)
    lane.left(event("a", 0, 10))
    lane.right(event("b", 11, 20))
    lane.advance(500)
    assert sorted(lane.emitted) == written
    assert lane.store == {}


def test_a_row_is_written_once_the_watermark_is_past_its_horizon(lane: Lane) -> None:
    lane.left(event("a", 0, 10, ts=7))
    assert lane.advance(10 + L + D).matches == []
    effects = lane.advance(10 + L + D + 1)
    assert effects.matches == [(b"L:a", b"0 10 a:0:10 -", 7)]
    assert effects.counts == Counts(unmatched=1, watermarks=2)
    assert lane.advance(900).matches == []


def test_a_row_of_the_right_side_has_its_own_key_and_value(lane: Lane) -> None:
    lane.right(event("50%|", 0, 10, value=b"v"))
    assert lane.advance(500).matches == [(b"R:50%25%7C", b"0 10 - v", 0)]


def test_a_row_that_is_due_in_the_turn_that_brings_it(lane: Lane) -> None:
    records = [(Side.LEFT, event("a", 0, 10)), *((side, watermark(71)) for side in Side)]
    assert lane.turn(records).counts.unmatched == 1
    assert lane.emitted == [("L:a", True)]


def test_a_row_with_a_match_is_not_written(lane: Lane) -> None:
    lane.left(event("a", 0, 10), event("b", 0, 10, key=b"other"))
    lane.right(event("r", 10, 20))
    lane.advance(500)
    assert lane.emitted == [("L:a|R:r", True), ("L:b", True)]


def test_a_retracted_row_is_not_written(lane: Lane) -> None:
    lane.left(event("a", 0, 10), retraction("b", 0, 10), event("b", 0, 10))
    lane.left(retraction("a", 0, 10), retraction("c", 0, 10))
    lane.advance(500)
    assert lane.emitted == []


def test_a_row_whose_match_was_retracted_before_it_was_due(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    lane.right(event("r", 5, 15), retraction("r", 5, 15))
    assert lane.emitted == [("L:a|R:r", True), ("L:a|R:r", False)]
    lane.advance(71)
    assert lane.emitted[2:] == [("L:a", True)]


def test_the_retraction_of_the_last_match_of_a_row_that_is_past_its_horizon(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    lane.right(event("r", 5, 40), event("s", 10, 50))
    lane.advance(100)
    lane.right(retraction("r", 5, 40))
    assert lane.emitted[2:] == [("L:a|R:r", False)]
    effects = lane.right(retraction("s", 10, 50))
    assert [(name, value is None) for name, value, _ in effects.matches] == [
        (b"L:a|R:s", True),
        (b"L:a", False),
    ]
    lane.advance(500)
    assert lane.emitted[5:] == []


def test_several_matches_that_are_retracted_in_one_turn(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    lane.right(event("r", 5, 40), event("s", 10, 50))
    lane.advance(100)
    lane.right(retraction("r", 5, 40), retraction("s", 10, 50))
    assert lane.emitted[2:] == [("L:a|R:r", False), ("L:a|R:s", False), ("L:a", True)]


def test_a_match_that_is_retracted_in_the_turn_in_which_the_row_is_due(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    lane.right(event("r", 5, 40))
    retracted = (Side.RIGHT, retraction("r", 5, 40))
    passing = [(side, watermark(71)) for side in Side]
    lane.turn([*passing, retracted])
    assert lane.emitted[1:] == [("L:a|R:r", False), ("L:a", True)]
    again = lane_of(FULL)
    again.left(event("a", 0, 10))
    again.right(event("r", 5, 40))
    again.turn([retracted, *passing])
    assert again.emitted == lane.emitted


@pytest.mark.parametrize("evicted", [False, True])
def test_rows_are_kept_for_as_long_as_they_show_that_another_has_a_match(evicted: bool) -> None:
    """r2, e and r are a chain of longest rows: r2 is twice that behind r, which is retracted late.

    Spans of one moment: storage is cleaned as soon as it may be.
    """
    lane = lane_of(FULL, span=1)
    lane.right(event("r2", 0, 0), event("r", 6, 12))
    lane.left(event("e", 0, 6))
    lane.advance(12 + L + D)
    if evicted:
        lane.reopen()
    lane.right(retraction("r", 6, 12))
    assert sorted(lane.emitted) == [("L:e|R:r", False), ("L:e|R:r", True), ("L:e|R:r2", True)]
    lane.advance(12 + L + D + 1)
    assert len(lane.store) == 2
    lane.advance(12 + L + D + 12 + 1)
    assert lane.store == {}
    assert len(lane.emitted) == 3


def test_an_inner_join_keeps_them_half_as_long() -> None:
    lane = lane_of(JoinType.INNER, span=1)
    lane.right(event("r2", 0, 0), event("r", 6, 12))
    lane.left(event("e", 0, 6))
    lane.advance(6 + L + D + 1)
    assert len(lane.store) == 2


class TestManyDueRows:
    """A jump in time makes more rows due than one turn looks at."""

    @pytest.fixture
    def lane(self) -> Lane:
        lane = lane_of(FULL, due_max=3)
        lane.left(*[event(f"{n}", 0, 10, key=b"%d" % (n % 3)) for n in range(9)])
        lane.right(event("r", 4, 12, key=b"0"))
        return lane

    def test_later_turns_go_on_without_any_record(self, lane: Lane) -> None:
        sizes = [lane.advance(80).counts.unmatched]
        while (effects := lane.turn([])).changed:
            sizes.append(effects.counts.unmatched)
        # The turn of two records looks at seven rows; three of the first key have a match.
        assert sum(sizes) == 6
        assert len(sizes) == 2
        assert sorted(lane.emitted[3:]) == [(f"L:{n}", True) for n in (1, 2, 4, 5, 7, 8)]

    def test_a_new_process_goes_on_where_it_stopped(self, lane: Lane) -> None:
        lane.advance(80)
        lane.reopen()
        lane.turn([])
        assert not lane.turn([]).changed
        assert len(lane.emitted) == 9

    def test_nothing_that_is_still_to_be_looked_at_is_dropped(self, lane: Lane) -> None:
        effects = lane.advance(100_000)
        assert effects.dropped == []
        effects = lane.turn([])
        assert effects.counts.unmatched > 0
        assert effects.dropped != []
        assert lane.store == {}

    def test_a_turn_that_has_to_read_much_stops_sooner(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane = lane_of(FULL)
        rows = [event(f"{n}", 0, 10, key=b"%d" % (n % 5), value=bytes(1000)) for n in range(50)]
        lane.left(*rows)
        monkeypatch.setattr("app.unmatched.LOADED_BYTES_MAX", 20_000)
        monkeypatch.setattr("app.unmatched.FETCHED_AT_ONCE", 1)
        lane.reopen()
        lane.advance(80)
        while lane.turn([]).changed:
            lane.reopen()
        # Entries are in the order of keys, and a key has 10 rows of 1,330 bytes. The second turn
        # finds what the first one has read.
        assert [turn.counts.unmatched for turn in lane.turns] == [0, 11, 20, 10, 9, 0]
        assert sorted(lane.emitted) == sorted((f"L:{n}", True) for n in range(50))

    def test_a_retraction_does_not_come_before_the_look(self) -> None:
        lane = lane_of(FULL, due_max=1)
        lane.left(*[event(f"{n}", 0, 10) for n in range(9)])
        lane.right(event("r", 4, 12))
        lane.advance(72)
        lane.right(retraction("r", 4, 12))
        while lane.turn([]).changed:
            pass
        alone = [name for name, _ in lane.emitted if "|" not in name]
        assert sorted(alone) == [f"L:{n}" for n in range(9)]


def test_an_aborted_turn_is_found_again(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    passing = [(side, watermark(71)) for side in Side]
    first = lane.propose(passing)
    lane.abort(first)
    assert lane.turn(passing).matches == first.matches == [(b"L:a", b"0 10 a:0:10 -", 0)]


def test_an_older_row_under_an_id_that_was_used_again(lane: Lane) -> None:
    lane.left(event("a", 0, 10))
    lane.right(event("r", 5, 40))
    lane.advance(71)
    lane.left(event("a", 75, 110))
    lane.right(retraction("r", 5, 40))
    assert lane.emitted[1:] == [("L:a|R:r", False), ("L:a", True)]
    assert lane.turns[-1].matches[-1][1] == b"0 10 a:0:10 -"
    lane.reopen()
    lane.advance(500)
    assert lane.turns[-1].matches == [(b"L:a", b"75 110 a:75:110 -", 75)]


def test_smaller_bounds_make_rows_due_at_once_and_change_no_match(lane: Lane) -> None:
    lane.left(event("a", 0, 0), event("b", 20, 20), event("c", 30, 30, key=b"other"))
    lane.right(event("r", 0, 40))
    lane.advance(50)
    span = lane.settings.span
    lane.settings = settings_of(L, 5, span=span, join_type=FULL)
    # Without any record: a is 50 past its end, b 30, c 20.
    assert lane.turn([]).matches == [(b"L:c", b"30 30 c:30:30 -", 30)]
    lane.right(retraction("r", 38, 40))  # Its own interval is longer than is taken now.
    written = sorted(lane.emitted[3:])
    assert written == [("L:a", True), ("L:a|R:r", False), ("L:b", True), ("L:b|R:r", False)]


def test_a_row_that_is_too_large_for_the_output_is_rejected_under_its_key() -> None:
    lane = lane_of(FULL, match_bytes_max=600)
    lane.left(event("a", 0, 10, value=bytes(100)), event("b", 0, 10, value=bytes(70)))
    effects = lane.advance(71)
    assert [name for name, _, _ in effects.matches] == [b"L:b"]
    detail = "the unmatched left id a takes 110 bytes"
    assert effects.rejects == [Rejected(NO_OFFSET, Reason.TOO_LARGE, detail, Side.LEFT, b"L:a")]
    assert effects.counts.rejected == {Reason.TOO_LARGE: 1}


def test_a_hot_key_of_rows_on_shelves(lane: Lane) -> None:
    lefts = [event(f"{n}", 9 * n, 9 * n + n % 5) for n in range(40)]
    rights = [event(f"{n}", 7 * n + 3, 7 * n + 3 + n % 3) for n in range(40)]
    lane.left(*lefts)
    lane.right(*rights[:20], retraction("11", 80, 82), *rights[20:])
    lane.advance(5_000)
    del rights[11]

    def alone(rows: list[Event], others: list[Event]) -> set[str]:
        return {
            row.id
            for row in rows
            if not any(row.start <= one.end and one.start <= row.end for one in others)
        }

    found = {name for name, _ in lane.emitted if "|" not in name}
    left, right = alone(lefts, rights), alone(rights, lefts)
    assert found == {f"L:{name}" for name in left} | {f"R:{name}" for name in right}
    assert 5 < len(left) < 35 > len(right) > 5
