"""A store against one made from the changelog: every difference is told, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance.compare import TOLD_MAX, Comparison
from tests.unit.stored import Paper, open_store, row

if TYPE_CHECKING:
    from pathlib import Path

    from state.store import LaneStore


def pair(tmp_path: Path) -> tuple[Paper, LaneStore, LaneStore]:
    """Two stores of the same turns, in buckets 0 to 2 of ten rows each."""
    paper = Paper()
    stores = open_store(tmp_path / "ours"), open_store(tmp_path / "theirs")
    for bucket in range(3):
        turn = paper.turn(dict(row(number, bucket=bucket) for number in range(10)))
        for store in stores:
            store.apply(turn.rows, turn.buckets, turn.checkpoint, bucket + 1)
    return paper, *stores


def plant(store: LaneStore, *rows: tuple[bytes, bytes]) -> None:
    store.apply(dict(rows), {}, None, store.position)


def compared(ours: LaneStore, theirs: LaneStore, log_start: int = 0) -> Comparison:
    comparison = Comparison(ours, theirs, log_start)
    for _ in comparison.run():
        pass
    return comparison


def test_equal_stores(tmp_path: Path) -> None:
    _, ours, theirs = pair(tmp_path)
    found = compared(ours, theirs)
    assert (found.told, found.count, found.rows) == ([], 0, 30)


def test_a_row_too_many_on_either_side(tmp_path: Path) -> None:
    _, ours, theirs = pair(tmp_path)
    plant(ours, row(11, bucket=1))
    plant(theirs, row(12, bucket=9))
    found = compared(ours, theirs)
    assert found.count == 2
    assert found.told == [
        "right row 'id-11' [15, 16] of key b'key' in bucket 1 is stored but not in the changelog",
        "left row 'id-12' [135, 137] of key b'key' in bucket 9 is in the changelog but not stored",
    ]


def test_a_row_that_says_something_else(tmp_path: Path) -> None:
    _, ours, theirs = pair(tmp_path)
    plant(ours, row(4, bucket=2, flags=1, body=b"BODY"))
    (line,) = compared(ours, theirs).told
    assert line.startswith("left row 'id-4' [30, 34] of key b'key' in bucket 2 is stored as ")
    assert "flags 1, 4 bytes 424f4459, the changelog says ts 30, flags 0, 4 bytes 626f6479" in line


def test_entries_and_the_checkpoint(tmp_path: Path) -> None:
    paper, ours, theirs = pair(tmp_path)
    entry = replace(paper.checkpoint, left_position=99)
    ours.apply({}, {1: paper.buckets[1]._replace(rows=11)}, entry, 3)
    lines = compared(ours, theirs).told
    assert len(lines) == 2
    assert lines[0].startswith("the entry of bucket 1 is Bucket(rows=11,")
    assert "left_position=99" in lines[1]


def test_what_the_changelog_no_longer_holds_is_left_out(tmp_path: Path) -> None:
    """The owner of today has dropped bucket 0 and let go of its part of the log."""
    paper, ours, _ = pair(tmp_path)
    theirs = open_store(tmp_path / "truncated")
    rows = dict(row(number, bucket=2) for number in range(10))
    theirs.apply(rows, {2: paper.buckets[2]}, paper.checkpoint, 3)
    first = {bucket: paper.buckets[bucket]._replace(first_offset=bucket) for bucket in range(3)}
    ours.apply({}, first, None, 3)
    theirs.apply({}, {2: first[2]}, None, 3)
    found = compared(ours, theirs, 2)
    assert (found.told, found.left_out, found.rows) == ([], {0, 1}, 10)
    assert compared(ours, theirs, 1).count == 11, "bucket 1 and its entry are wanted there"


def test_many_differences_are_counted_and_some_told(tmp_path: Path) -> None:
    _, ours, theirs = pair(tmp_path)
    plant(ours, *(row(number, bucket=5) for number in range(50)))
    found = compared(ours, theirs)
    assert found.count == 50
    assert len(found.told) == TOLD_MAX


def test_damaged_rows_are_told_as_they_are(tmp_path: Path) -> None:
    _, ours, theirs = pair(tmp_path)
    plant(ours, (b"\x01\xff", b"what"))
    (line,) = compared(ours, theirs).told
    assert "a row that is none (01ff" in line
