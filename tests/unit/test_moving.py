"""State that moves to other lanes: sources, times, figures, and what a replay makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance.moving import (
    Jump,
    NewLane,
    differences,
    first_of,
    jumps,
    levels,
    marked,
    merged,
    sources,
    strays,
)
from rebalance.restore import Replay, directory_differences
from state.checkpoint import Bucket, Watermarks, decode_turn, encode_turn
from state.keys import REMEMBERED, parse_row_key
from tests.unit.stored import CHECKPOINT, RECORD_BYTES_MAX, Paper, held_by, open_store, row

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance.moving import Turn
    from state.store import LaneStore

MARKS = (7, "job-reshard", 3)
SILENT = Watermarks()


def test_sources() -> None:
    assert [sources(lane, 2, 3) for lane in range(3)] == [[0, 1]] * 3
    assert [sources(lane, 2, 4) for lane in range(4)] == [[0], [1], [0], [1]]
    assert [sources(lane, 4, 6) for lane in range(6)] == [[0, 2], [1, 3]] * 3


def test_watermarks_of_several_sources() -> None:
    both = [Watermarks(10, 12, 10), Watermarks(15, 15, 30)]
    assert merged(both) == Watermarks(15, 12, 10)
    assert merged([*both, Watermarks(None, None, 3)]) == Watermarks(15, None, 3)
    assert merged([SILENT]) == SILENT


def test_the_next_event_does_not_bring_the_lane_beyond_the_largest() -> None:
    """The sides' maxima would: one of each was far ahead, in different lanes."""
    found = merged([Watermarks(0, 100, 0), Watermarks(0, 0, 100)])
    assert found.left is not None
    assert found.right is not None
    assert min(found.left, found.right) <= 0


def test_levels_and_jumps() -> None:
    marks = [Watermarks(10, 10, 10), Watermarks(50, 50, 50)]
    assert levels(marks, 3) == [50, 50]
    assert levels(marks, 4) == [10, 50], "each lane of before is alone with its keys"
    assert jumps(marks, 3, 39) == [Jump(0, 10, 50)]
    assert jumps(marks, 3, 40) == []
    assert jumps(marks, 4, 0) == []


def test_a_lane_that_never_spoke_does_not_jump_but_one_that_waits_for_a_side_does() -> None:
    ahead = Watermarks(50, 50, 50)
    assert jumps([SILENT, ahead], 3, 0) == []
    assert jumps([Watermarks(None, 50, None), ahead], 3, 10**9) == [Jump(0, None, 50)]


def test_a_mark_changes_nothing_but_who_may_go_on() -> None:
    before = replace(CHECKPOINT, left_position=5, rows=3)
    mark = marked(before, 7, "job-reshard", 3)
    assert (mark.epoch, mark.sequence, mark.released, mark.resharding) == (7, 1, True, 3)
    kept = replace(mark, epoch=1, sequence=0, writer=before.writer, resharding=0, released=False)
    assert replace(kept, owner=before.owner, address=before.address) == before


def test_figures_of_a_new_lane_are_those_of_its_rows() -> None:
    lane = NewLane(first_of([CHECKPOINT], (4, 5), (4, 0), MARKS), first_offset=9)
    name, value = row(1, bucket=2)
    lane.add(2, 1, name, value)
    other, waiting = row(4, bucket=2, flags=REMEMBERED)
    lane.add(2, 4, other, waiting)
    turn = lane.turn()
    size = len(name) + len(value) + len(other) + len(waiting)
    assert turn.rows == {name: value, other: waiting}
    (entry,) = turn.buckets.values()
    assert entry[:2] + entry[3:] == (2, size, 4, 1, 9)
    assert (turn.checkpoint.rows, turn.checkpoint.size) == (2, size)
    assert (turn.checkpoint.left_position, turn.checkpoint.right_position) == (4, 5)
    assert (turn.checkpoint.left_since, turn.checkpoint.right_since) == (4, 0)
    assert turn.checkpoint.resharding == 3
    assert lane.closing().checkpoint.resharding == 0


def test_strays() -> None:
    rows = sorted([row(1, key=b"a"), row(2, key=b"b"), row(3, key=b"a")])
    assert strays(rows, 0, {b"a": 0, b"b": 1}.__getitem__) == {b"b"}


@pytest.mark.parametrize("field", ["rows", "size", "digest", "remembered"])
def test_each_figure_is_compared(field: str) -> None:
    entry = Bucket(3, 30, 2**64 - 1, 5, 1, 0)
    halves = [Bucket(1, 10, 2**64 - 2, 5, 1, 7), Bucket(2, 20, 1, 2, 0, 8)]
    assert differences([{4: entry}], [{4: halves[0]}, {4: halves[1]}]) == []
    wrong = halves[1]._replace(**{field: getattr(halves[1], field) + 1})
    (line,) = differences([{4: entry}], [{4: halves[0]}, {4: wrong}])
    assert line.startswith("bucket 4 had 3 rows of 30 bytes, 1 remembered")
    assert differences([{4: entry}], [{}])[0].endswith("and has no rows")


def test_a_stale_copy_goes_on_through_a_reshard(tmp_path: Path) -> None:
    """Nothing wipes it: the first turn of the new lane drops all that it held."""
    paper, store = Paper(), open_store(tmp_path / "stale")
    log: list[list[bytes]] = []

    def add(turn: Turn) -> None:
        log.append(encode_turn(*turn, RECORD_BYTES_MAX))

    old = dict(row(number, bucket=number % 3, key=b"moves") for number in range(30))
    new = dict(row(number, bucket=number % 2 + 1, key=b"comes") for number in range(30, 50))
    stays = dict([row(99, bucket=1, key=b"stays")])
    log += [paper.turn(part).encode() for part in (old, stays)]
    replayed(store, log, 0, 1)
    kept = {**stays, **new}
    lane = NewLane(first_of([paper.checkpoint], (1, 2), (0, 0), MARKS), first_offset=len(log))
    # An attempt that was killed, and the one after it.
    add(lane.dropping(paper.buckets))
    lane.add(1, 0, *row(7, bucket=1, key=b"wrong"))
    add(lane.turn())
    lane = NewLane(
        first_of([paper.checkpoint], (1, 2), (0, 0), (8, *MARKS[1:])), first_offset=len(log)
    )
    add(lane.dropping(paper.buckets))
    for name, value in kept.items():
        parsed = parse_row_key(name)
        lane.add(parsed.bucket, parsed.end - parsed.start, name, value)
    add(lane.turn())
    add(lane.closing())
    replayed(store, log, 1, len(log))
    assert held_by(store) == (kept, lane.buckets, lane.checkpoint)
    assert directory_differences(store) == []
    fresh = open_store(tmp_path / "fresh")
    replayed(fresh, log, len(log) - 3, len(log))
    assert held_by(fresh) == held_by(store)


def replayed(store: LaneStore, log: list[list[bytes]], first: int, end: int) -> None:
    replay = Replay(store)
    for offset in range(first, end):
        for value in log[offset]:
            replay.feed(offset, decode_turn(value))
    replay.finish(end)
