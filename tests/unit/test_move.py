"""The move of a job's state on a changelog in memory: attempts, the switch, and what is noticed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from app.errors import Crash, UsageError
from app.kafka.cluster import Extent
from app.leftovers import Placing
from app.moving import Former, Move, former_of, read_states
from rebalance.moving import marked
from rebalance.restore import Replay
from state.checkpoint import decode_turn
from state.resources import Resources
from state.store import LaneStore
from tests.unit.stored import RECORD_BYTES_MAX, Paper, row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from app.verify import Changelog
    from state.checkpoint import TurnRecord

PLACING: Final = Placing(lambda key: key[0], 2, 3)
POSITIONS: Final = [(4, 5), (6, 7), (0, 0)]


@dataclass
class Log:
    """Lanes of a changelog; a transaction's marker takes an offset in each lane it touches."""

    lanes: dict[int, list[bytes | None]] = field(default_factory=dict)
    resources: Resources = field(default_factory=lambda: Resources(8 << 20, 8 << 20))
    writer: str = "job-reshard"
    lost: int = -1
    """The transaction that is not written, counted from the first of `write`."""
    written: int = 0

    def write(self, turns: Mapping[int, Sequence[bytes]]) -> dict[int, int]:
        firsts = {}
        for lane, values in turns.items():
            log = self.lanes.setdefault(lane, [])
            firsts[lane] = len(log)
            log += [None] * (len(values) + 1) if self.written == self.lost else [*values, None]
        self.written += 1
        return firsts

    def extent(self, lane: int) -> Extent:
        end = len(self.lanes.get(lane, []))
        return Extent(0, end, end)

    def turns(self, lane: int, start: int, end: int) -> Iterator[tuple[int, TurnRecord]]:
        for offset, value in enumerate(self.lanes.get(lane, [])[:end]):
            if offset >= start and value is not None:
                yield offset, decode_turn(value)

    def replay(self, lane: int, end: int, into: LaneStore, start: int = 0) -> None:
        replay = Replay(into)
        for offset, turn in self.turns(lane, start, end):
            replay.feed(offset, turn)
        replay.finish(end)

    @property
    def changelog(self) -> Changelog:
        return cast("Changelog", self)

    def formers(self) -> list[Former]:
        return [former_of(self.changelog, lane) for lane in range(len(self.lanes))]

    def rows(self, directory: Path, lane: int) -> dict[bytes, bytes]:
        """What a worker without a copy finds in a lane."""
        store = LaneStore.open(directory / f"found-{lane}", self.resources)
        self.replay(lane, self.extent(lane).end, store)
        found = dict(store.scan())
        store.close()
        return found


def job(*, mark: bool = True) -> tuple[Log, list[dict[bytes, bytes]]]:
    """Two lanes of twenty rows of five keys each, perhaps marked."""
    log, rows = Log(), []
    for lane in range(2):
        keys = [bytes([2 * number + lane]) for number in range(5)]
        paper = Paper()
        mine = dict(row(n, bucket=n % 3, key=keys[n % 5], body=b"x" * n) for n in range(20))
        rows.append(mine)
        log.write({lane: paper.turn(mine).encode()})
        if mark:
            paper.checkpoint = marked(paper.checkpoint, 2, log.writer, 3)
            log.write({lane: paper.turn({}).encode()})
    return log, rows


def moved(log: Log, directory: Path) -> Move:
    """An attempt up to the switch, but for the look at what was written."""
    formers = log.formers()
    states = read_states(log.changelog, directory, formers, PLACING)
    move = Move(states, cast("Any", log), PLACING, RECORD_BYTES_MAX)
    move.open(POSITIONS, formers, 1 + max(former.epoch for former in formers))
    assert move.rows(log.changelog, lambda _step: None) == 40
    return move


def check(move: Move, log: Log, directory: Path) -> None:
    move.check(log.changelog, directory, [log.extent(lane).end for lane in range(3)])


def test_every_row_moves_and_every_lane_counts_at_once(tmp_path: Path) -> None:
    log, rows = job()
    move = moved(log, tmp_path)
    check(move, log, tmp_path)
    assert all(former.end < log.extent(lane).end for lane, former in enumerate(log.formers()))
    move.close()
    everything = rows[0] | rows[1]
    assert len(everything) == 40
    found = [log.rows(tmp_path, lane) for lane in range(3)]
    for lane, mine in enumerate(found):
        assert {PLACING.new(name[14:15]) for name in mine} == {lane}
    assert found[0] | found[1] | found[2] == everything
    newest = [list(log.turns(lane, 0, 10**6))[-1][1].checkpoint for lane in range(3)]
    for lane, checkpoint in enumerate(newest):
        assert checkpoint is not None
        assert (checkpoint.resharding, checkpoint.released) == (0, True)
        assert (checkpoint.left_position, checkpoint.right_position) == POSITIONS[lane]
        assert (checkpoint.left_since, checkpoint.right_since) == POSITIONS[lane]
    assert [former.end for former in log.formers()] == [log.extent(n).end for n in range(3)]


def test_an_attempt_that_was_killed_leaves_nothing_in_the_next(tmp_path: Path) -> None:
    log, _ = job()
    before = [former.end for former in log.formers()]
    moved(log, tmp_path)
    formers = log.formers()
    assert [former.end for former in formers] == [*before, 0]
    assert [former.empty for former in formers] == [False, False, True]
    move = moved(log, tmp_path)
    check(move, log, tmp_path)
    move.close()
    assert sum(len(log.rows(tmp_path, lane)) for lane in range(3)) == 40


def test_what_was_not_written_is_noticed(tmp_path: Path) -> None:
    log, _ = job()
    log.written, log.lost = 0, 1  # The first after that which opens the lanes.
    move = moved(log, tmp_path)
    with pytest.raises(Crash, match="nothing was switched"):
        check(move, log, tmp_path)


def test_rows_that_were_left_out_are_noticed(tmp_path: Path) -> None:
    """They are in no new lane at all, so each new lane is right by itself."""
    log, _ = job()
    move = moved(log, tmp_path)
    entry = move.states[0].buckets[1]
    more = {**move.states[0].buckets, 1: entry._replace(rows=entry.rows + 1)}
    move.states = [move.states[0]._replace(buckets=more), move.states[1]]
    with pytest.raises(Crash, match=r"bucket 1 had \d+ rows .* nothing was switched"):
        check(move, log, tmp_path)


def test_lanes_that_have_not_decided_about_the_same_moments_do_not_become_one(
    tmp_path: Path,
) -> None:
    log, _ = job()
    formers = log.formers()
    states = read_states(log.changelog, tmp_path, formers, PLACING)
    behind = replace(states[0].checkpoint, decided=b"\x02somewhere")
    states[0] = states[0]._replace(checkpoint=behind)
    move = Move(states, cast("Any", log), PLACING, RECORD_BYTES_MAX)
    with pytest.raises(Crash, match="not brought to one watermark"):
        move.open(POSITIONS, formers, 9)


def test_a_row_that_lies_elsewhere_stops_it(tmp_path: Path) -> None:
    log, _ = job(mark=False)
    wrong = Paper().turn(dict([row(1, key=b"\1")]))
    log.lanes[0] = [*wrong.encode(), None]
    with pytest.raises(UsageError, match=r"lane 0 has rows of key b'\\x01'"):
        read_states(log.changelog, tmp_path, log.formers(), PLACING)


def test_a_changelog_that_contradicts_itself_stops_it(tmp_path: Path) -> None:
    log, _ = job(mark=False)
    paper = Paper()
    turn = paper.turn(dict([row(1, key=b"\0")]))
    (bucket,) = turn.buckets
    damaged = turn._replace(buckets={bucket: turn.buckets[bucket]._replace(digest=1)})
    log.lanes[0] = [*damaged.encode(), None]
    with pytest.raises(Crash, match="lane 0: bucket 0 holds 1 rows"):
        read_states(log.changelog, tmp_path, log.formers(), PLACING)
