"""The state of a job on its way from one number of lanes to another: read, written, compared.

Invariant: the state of before is what the changelog says below the first mark of a reshard that did
not end. Nothing is taken away from there before the switch, so that every attempt begins with it.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from app.copies import stopped
from app.errors import Crash, UsageError
from app.progress import progress
from rebalance.lanes import START_OVER
from rebalance.moving import NewLane, differences, distribute, first_of, sources, strays
from rebalance.restore import directory_differences
from state.checkpoint import encode_turn
from state.store import SCAN_ROWS, LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.kafka.reshard import Mover
    from app.leftovers import Placing
    from app.steps import Reached
    from app.verify import Changelog
    from rebalance.moving import Turn
    from state.checkpoint import Bucket, Checkpoint

TRANSACTION_BYTES_MAX: Final = 8 * 1024 * 1024
"""Rows of one transaction, over all lanes."""
_SCRATCH: Final = "reshard-"


class State(NamedTuple):
    """A lane under the old layout, read into a store of its own."""

    path: Path
    checkpoint: Checkpoint
    buckets: Mapping[int, Bucket]


class Former(NamedTuple):
    """Where the state of before ends in a partition of the changelog."""

    end: int
    buckets: frozenset[int]
    """All that are spoken of anywhere in it."""
    empty: bool
    """Whether there is no such state: the lane is a new one."""
    epoch: int
    """The highest in it."""


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A place for stores, under the lock of a worker's directory. Raises UsageError."""
    with (
        stopped(directory, _SCRATCH),
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=directory) as path,
    ):
        yield Path(path)


def former_of(changelog: Changelog, lane: int) -> Former:
    """Find the first of the marks at the end of a lane's log."""
    start, _, end = changelog.extent(lane)
    marked: int | None = None
    buckets: set[int] = set()
    empty, epoch = True, 0
    for offset, turn in changelog.turns(lane, start, end):
        buckets |= turn.buckets.keys()
        epoch = max(epoch, turn.epoch)
        if turn.checkpoint is None:
            continue
        if not turn.checkpoint.resharding:
            marked, empty = None, False
        elif marked is None:
            marked = offset  # A mark is a turn of one part.
    return Former(end if marked is None else marked, frozenset(buckets), empty, epoch)


def read_states(
    changelog: Changelog, directory: Path, found: Sequence[Former], placing: Placing
) -> list[State]:
    """The old lanes, each audited, and with all its keys where the partitioner puts them.

    Raises UsageError where a person must decide, Crash where the changelog contradicts itself.
    """
    states = [
        _read_state(changelog, directory / f"old-{lane}", lane, former, placing)
        for lane, former in enumerate(found)
        if not former.empty
    ]
    if len({state.checkpoint.layout for state in states}) > 1:
        raise UsageError(f"the lanes' states were made with different bounds; {START_OVER}")
    return states


def _read_state(
    changelog: Changelog, path: Path, lane: int, former: Former, placing: Placing
) -> State:
    LaneStore.destroy(path)
    store = LaneStore.open(path, changelog.resources)
    try:
        changelog.replay(lane, former.end, store)
        checkpoint = store.checkpoint
        if checkpoint is None:
            raise Crash(f"the changelog of lane {lane} has no state; {START_OVER}")
        if found := directory_differences(store):
            raise Crash(f"lane {lane}: {found[0]}: the changelog is damaged; {START_OVER}")
        for rows in _chunks(store):
            if wrong := strays(rows, lane, placing.old):
                raise UsageError(
                    f"lane {lane} has rows of key {min(wrong)!r}, which the partitioner would not "
                    f"have put there: rows can only be moved where keys alone decide about "
                    f"partitions (--partitioner names another one)"
                )
        return State(path, checkpoint, store.buckets())
    finally:
        store.close()


class Move:
    """One attempt to write the new lanes."""

    def __init__(
        self, states: Sequence[State], mover: Mover, placing: Placing, record_bytes_max: int
    ) -> None:
        self.states = states
        self.placing = placing
        self.mover = mover
        self._bytes_max = record_bytes_max
        self.lanes: list[NewLane] = []

    def open(
        self,
        positions: Sequence[tuple[int, int]],
        found: Sequence[Former],
        epoch: int,
    ) -> None:
        """Begin every new lane, with nothing in it, at these positions of its inputs.

        `found` says what earlier attempts may have left in it; `epoch` is above all theirs.
        """
        marks = epoch, self.mover.writer, self.placing.after
        for lane, at in enumerate(positions):
            old = [
                self.states[number].checkpoint
                for number in sources(lane, self.placing.before, self.placing.after)
            ]
            if len({one.decided for one in old}) > 1:
                raise Crash("the lanes were not brought to one watermark; run the reshard again")
            since = at if lane < len(self.states) else (0, 0)
            self.lanes.append(NewLane(first_of(old, at, since, marks)))
        dropped = [
            (self.states[lane].buckets.keys() if lane < len(self.states) else set())
            | (found[lane].buckets if lane < len(found) else set())
            for lane in range(len(positions))
        ]
        turns = [new.dropping(buckets) for new, buckets in zip(self.lanes, dropped, strict=True)]
        for lane, offset in self._write(dict(enumerate(turns))).items():
            self.lanes[lane].first_offset = offset

    def rows(self, changelog: Changelog, reached: Reached) -> int:
        """Write every row to its new lane; returns how many there are."""
        total = sum(state.checkpoint.rows for state in self.states)
        done = 0
        with progress("moving rows", total) as advance:
            for state in self.states:
                store = LaneStore.open(state.path, changelog.resources)
                try:
                    for rows in _chunks(store):
                        distribute(rows, self.placing.new, self.lanes)
                        done += len(rows)
                        advance(done)
                        if sum(new.waiting for new in self.lanes) >= TRANSACTION_BYTES_MAX:
                            self._flush(reached)
                finally:
                    store.close()
            self._flush(reached)
        return done

    def check(self, changelog: Changelog, directory: Path, ends: Sequence[int]) -> None:
        """Read what was written back, and compare it with what there was; raises Crash."""
        written: list[Mapping[int, Bucket]] = []
        for lane, (new, end) in enumerate(zip(self.lanes, ends, strict=True)):
            path = directory / f"new-{lane}"
            LaneStore.destroy(path)
            store = LaneStore.open(path, changelog.resources)
            try:
                changelog.replay(lane, end, store, new.first_offset)
                found = directory_differences(store)
                if store.checkpoint != new.checkpoint or store.buckets() != new.buckets:
                    found.append("its checkpoint or directory is not what was written")
                if found:
                    raise Crash(f"lane {lane} was not written well: {found[0]}; {_AGAIN}")
                written.append(store.buckets())
            finally:
                store.close()
            LaneStore.destroy(path)
        if found := differences([state.buckets for state in self.states], written):
            raise Crash(f"{found[0]}; {_AGAIN}")

    def close(self) -> None:
        """Make the new lanes count, all at once."""
        self._write({lane: new.closing() for lane, new in enumerate(self.lanes)})

    def _flush(self, reached: Reached) -> None:
        turns = {lane: new.turn() for lane, new in enumerate(self.lanes) if new.waiting}
        if turns:
            self._write(turns)
            reached("moved")

    def _write(self, turns: Mapping[int, Turn]) -> dict[int, int]:
        return self.mover.write(
            {lane: encode_turn(*turn, self._bytes_max) for lane, turn in turns.items()}
        )


_AGAIN: Final = "nothing was switched; run the reshard again"


def _chunks(store: LaneStore) -> Iterator[list[tuple[bytes, bytes]]]:
    """All rows, many at a time."""
    last = b""
    while rows := store.rows_after(last, SCAN_ROWS):
        last = rows[-1][0]
        yield rows
