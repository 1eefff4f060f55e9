"""The index by end: what is in it after any write, and that rows are found in it by their ends."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from rebalance.restore import Replay, directory_differences
from schemas.records import INT64_MAX, INT64_MIN, JoinType, Side
from state.checkpoint import Checkpoint, decode_turn
from state.due import (
    INDEX_END,
    end_of,
    entries_of,
    entry_of,
    entry_range,
    first_entry,
    parse_entries,
)
from state.keys import bucket_range, parse_row_key, row_key
from tests.unit.stored import CHECKPOINT, LAYOUT, Paper, open_store, row

if TYPE_CHECKING:
    from pathlib import Path

    from state.store import LaneStore

SPAN = LAYOUT.span


def checkpoint_of(join: JoinType) -> Checkpoint:
    return replace(CHECKPOINT, layout=replace(LAYOUT, join_type=join.value))


@dataclass
class OuterPaper(Paper):
    checkpoint: Checkpoint = field(default_factory=lambda: checkpoint_of(JoinType.FULL))

    def entries(self, *sides: Side) -> list[bytes]:
        """What the index must hold, worked out row by row."""
        rows = [parse_row_key(name) for name in self.rows]
        return sorted(
            entry_of(one.side, one.key, one.end, one.start, one.id)
            for one in rows
            if one.side in sides
        )


def index_of(store: LaneStore) -> list[bytes]:
    return store.due(b"", INDEX_END, sys.maxsize)


ENDS = [INT64_MIN, -SPAN - 1, -SPAN, -1, 0, 1, SPAN - 1, SPAN, 2**40, INT64_MAX]


def test_entries_sort_by_end_first() -> None:
    entries = [
        entry_of(side, key, end, max(end - 3, INT64_MIN), "id")
        for end in ENDS
        for side in Side
        for key in (b"", b"k", b"\xff" * 40)
    ]
    assert sorted(entries) == entries
    assert [end_of(entry) for entry in entries[::6]] == ENDS
    assert max(entries) < INDEX_END


@pytest.mark.parametrize("end", ENDS[1:])
def test_the_first_entry_of_an_end_parts_those_before_it(end: int) -> None:
    before, at = (entry_of(Side.LEFT, b"", one, INT64_MIN, "") for one in (end - 1, end))
    assert before < first_entry(end) <= at
    assert first_entry(INT64_MIN - 5) == first_entry(INT64_MIN)


def test_an_entry_is_made_from_a_row_key_and_read_back() -> None:
    names = [
        row_key(end // SPAN, side, b"key\x00", end, end - 7, "id|é")
        for end in (-40, 3, 2**50)
        for side in Side
    ]
    entries = entries_of(names, [Side.RIGHT])
    parsed = list(parse_entries(entries))
    assert parsed == [one[1:] for one in map(parse_row_key, names) if one.side is Side.RIGHT]
    assert entries == [entry_of(*one) for one in parsed]
    assert entries_of(names, ()) == []


@pytest.mark.parametrize("bucket", [-3, 0, 7])
def test_the_entries_of_a_bucket_are_those_of_its_rows(bucket: int) -> None:
    first, after = entry_range(bucket, SPAN)
    for end in range((bucket - 1) * SPAN, (bucket + 2) * SPAN):
        name = row_key(end // SPAN, Side.LEFT, b"k", end, end, "id")
        (entry,) = entries_of([name], [Side.LEFT])
        low, high = bucket_range(bucket)
        assert (first <= entry < after) is (low <= name < high)


@pytest.mark.parametrize("join", list(JoinType))
def test_the_store_indexes_the_rows_of_preserved_sides(tmp_path: Path, join: JoinType) -> None:
    store, paper = open_store(tmp_path), OuterPaper(checkpoint=checkpoint_of(join))
    sides = join.preserved
    store.apply(*paper.turn(dict(row(n, bucket=n % 4, flags=n % 3) for n in range(40))), 1)
    assert index_of(store) == paper.entries(*sides)
    # Written again, and dropped; the last row in the very turn that writes it.
    store.apply(*paper.turn(dict(row(n, bucket=n % 4, flags=1) for n in range(6))), 2)
    store.apply(*paper.turn(dict([row(98, bucket=0), row(99, bucket=0)]), dropped=[0, 2]), 3)
    assert index_of(store) == paper.entries(*sides)
    assert directory_differences(store) == []
    store.close()
    store = open_store(tmp_path)
    assert index_of(store) == paper.entries(*sides)
    store.wipe()
    assert index_of(store) == []


def test_a_replay_makes_the_index_anew(tmp_path: Path) -> None:
    paper, store = OuterPaper(), open_store(tmp_path)
    values = [
        *paper.turn(dict(row(n, bucket=n % 4) for n in range(40))).encode(500),
        *paper.turn({}, dropped=[1]).encode(),
        *paper.turn(dict(row(n, bucket=3, flags=1) for n in range(3, 40, 4))).encode(),
    ]
    assert len(values) > 5
    replay = Replay(store)
    for number, value in enumerate(values):
        replay.feed(number, decode_turn(value))
    replay.finish(len(values))
    assert index_of(store) == paper.entries(*Side)
    assert directory_differences(store) == []


def test_due_rows_are_a_range_of_it(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), OuterPaper()
    store.apply(*paper.turn(dict(row(n, bucket=n % 4) for n in range(40))), 1)
    entries = paper.entries(*Side)
    first, after = first_entry(2), first_entry(2 * SPAN + 3)
    wanted = [entry for entry in entries if 2 <= end_of(entry) < 2 * SPAN + 3]
    assert 5 < len(wanted) < 35
    assert store.due(first, after, 100) == wanted
    assert store.due(first, after, 3) == wanted[:3]
    assert store.due(wanted[2] + b"\0", after, 100) == wanted[3:]
    assert store.due(after, after, 100) == store.due(first, first, 100) == []


@pytest.mark.parametrize("too_many", [False, True])
def test_the_audit_compares_the_index_with_the_rows(tmp_path: Path, too_many: bool) -> None:
    store, paper = open_store(tmp_path), OuterPaper()
    store.apply(*paper.turn(dict(row(n, bucket=n % 4) for n in range(40))), 1)
    assert directory_differences(store) == []
    entry = paper.entries(*Side)[0]
    db, store._reader = store._db, None
    if too_many:
        db[entry + b"more"] = b""
    else:
        del db[entry]
    (line,) = directory_differences(store)
    count = 41 if too_many else 39
    assert line.startswith(f"the index by end has {count} entries")
    assert "the rows make 40 (" in line
