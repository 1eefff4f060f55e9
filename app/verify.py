"""`state verify`: the lane stores of a stopped worker against their directory and the changelog.

Invariant: nothing is changed. A store is opened and read, under the lock of its worker's
directory; the changelog is replayed into a store of its own, which is removed in the end.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from app.copies import lane_stores, stopped, worker_directories
from app.errors import Crash, UsageError
from app.kafka.cluster import Cluster, Extent
from app.kafka.scan import Scanner
from app.progress import progress
from app.rows import counted
from rebalance.compare import TOLD_MAX, Comparison
from rebalance.restore import Audit, Replay
from state.checkpoint import Unreadable, decode_turn
from state.disk import StoreDamaged
from state.resources import Resources
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config import Config
    from state.checkpoint import TurnRecord

CACHE_BYTES: Final = 64 * 1024 * 1024
_SCRATCH: Final = "verify-"


class Verdict(NamedTuple):
    """What was found of one lane; no differences: the line says what was compared."""

    lane: int
    line: str
    differences: list[str]
    directory: Path = Path()
    """Of the lane's store."""


def verify(config: Config, lane: int | None) -> Iterator[Verdict]:
    """Look at one lane, or at all there are. Raises UsageError, Crash."""
    found = _stores(config.state.dir, lane)
    with ExitStack() as stack:
        for directory in sorted({path.parent for _, path in found}):
            stack.enter_context(stopped(directory, _SCRATCH))
        changelog = Changelog(config)
        stack.callback(changelog.close)
        for number, path in found:
            yield _verdict(number, path, changelog)._replace(directory=path)


def _stores(state: Path, lane: int | None) -> list[tuple[int, Path]]:
    """The stores under a state directory, also those of `run --workers`."""
    if not state.is_dir():
        raise UsageError(f"state.dir {state} does not exist: give that of a worker")
    stores = [store for path in worker_directories(state) for store in lane_stores(path)]
    wanted = [store for store in stores if lane in {None, store[0]}]
    if not wanted:
        which = "any lane" if lane is None else f"lane {lane}"
        raise UsageError(f"state.dir {state} has no store of {which}")
    return wanted


class Changelog:
    """The job's changelog, to be replayed lane by lane."""

    def __init__(self, config: Config) -> None:
        self.topic = config.changelog_topic
        self.resources = Resources(CACHE_BYTES, CACHE_BYTES)
        cluster = Cluster(config)
        found = cluster.topics([self.topic]).get(self.topic)
        if found is None:
            raise UsageError(f"changelog topic {self.topic} does not exist: nothing to compare")
        self.id = found.id
        self._extents = cluster.extents(self.topic, found.partitions)
        self._scanner = Scanner(config)

    def extent(self, lane: int) -> Extent:
        """Where the lane's partition begins and ends; nothing for a lane that there is not."""
        return self._extents[lane] if lane < len(self._extents) else Extent(0, 0, 0)

    def replay(self, lane: int, end: int, into: LaneStore, start: int | None = None) -> None:
        """Fold everything committed below `end`. Raises Crash where a record cannot be read."""
        start = self.extent(lane).start if start is None else start
        replay = Replay(into)
        with progress(f"lane {lane}: replaying the changelog", end - start) as advance:
            for offset, turn in self.turns(lane, start, end):
                replay.feed(offset, turn)
                advance(offset + 1 - start)
        replay.finish(end)

    def turns(self, lane: int, start: int, end: int) -> Iterator[tuple[int, TurnRecord]]:
        """The committed records of a lane in [start, end), by offset. Raises Crash likewise."""
        for batch in self._scanner.scan(self.topic, lane, start, end):
            for record in batch:
                try:
                    yield record.offset, decode_turn(record.value or b"")
                except Unreadable as error:
                    where = f"offset {record.offset} of partition {lane} of {self.topic}"
                    raise Crash(f"{where} is no changelog record: {error}") from None

    def close(self) -> None:
        """Let the client go."""
        self._scanner.close()


def _verdict(lane: int, path: Path, changelog: Changelog) -> Verdict:
    if not (path / "CURRENT").exists():
        return Verdict(lane, "no store: it was removed, or never written", [])
    try:
        store = LaneStore.open(path, changelog.resources)
    except StoreDamaged as damaged:
        return Verdict(lane, "", [str(damaged)])
    try:
        return _compared(lane, store, changelog)
    except StoreDamaged as damaged:
        return Verdict(lane, "", [str(damaged)])
    finally:
        store.close()


def _compared(lane: int, store: LaneStore, changelog: Changelog) -> Verdict:
    checkpoint, extent = store.checkpoint, changelog.extent(lane)
    if checkpoint is None:
        return Verdict(lane, "nothing is stored yet", [])
    if checkpoint.layout.changelog_id != changelog.id:
        foreign = f"it belongs to another changelog than {changelog.topic}: a worker will wipe it"
        return Verdict(lane, "", [foreign])
    differences = _audited(lane, store, checkpoint.rows)
    held = f"{counted(checkpoint.rows, 'row')} in {counted(len(store.buckets()), 'bucket')}"
    what = f"{held} as the directory says"
    if store.position > extent.end:
        line = f"its position {store.position} is past the changelog's end {extent.end}"
        return Verdict(lane, what, [*differences, line])
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=store.path.parent) as scratch:
        replayed = LaneStore.open(Path(scratch) / "store", changelog.resources)
        try:
            changelog.replay(lane, store.position, replayed)
            if replayed.checkpoint is None and extent.start > 0:
                behind = "it is older than all the changelog still holds, so not compared with it"
                return Verdict(lane, f"{what}; {behind}", differences)
            comparison = _comparison(lane, store, replayed, extent.start)
        finally:
            replayed.close()
    what += f" and the changelog up to offset {store.position}"
    if comparison.left_out:
        what += (
            f", but for {counted(len(comparison.left_out), 'bucket')} which that no longer holds"
        )
    more = comparison.count - len(comparison.told)
    differences += [*comparison.told, *([f"and {more} more differences"] if more else [])]
    return Verdict(lane, what, differences)


def _audited(lane: int, store: LaneStore, rows: int) -> list[str]:
    """What the rows and the directory disagree in."""
    audit = Audit(store)
    with progress(f"lane {lane}: reading its rows", rows) as advance:
        while not audit.step():
            advance(audit.rows)
    return audit.differences()[:TOLD_MAX]


def _comparison(lane: int, store: LaneStore, replayed: LaneStore, log_start: int) -> Comparison:
    comparison = Comparison(store, replayed, log_start)
    rows = sum(entry.rows for entry in store.buckets().values())
    with progress(f"lane {lane}: comparing", rows) as advance:
        for done in comparison.run():
            advance(done)
    return comparison
