"""Steps 2 to 4 of a takeover, for all lanes of a worker at once, in bounded steps between turns.

A lane moves here from ASSIGNED to "ready to claim"; the claim itself is a transaction, and so the
worker's. Everything that waits for the broker runs on helper threads; everything that changes a
lane or a store runs on the caller's thread.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rebalance.fence import Authority, Survey, establish, extent_of, fence_tail
from rebalance.lanes import STALL_MS, Lane, Mismatch, Opened, Unrepairable, check_install
from rebalance.phases import Phase, Signal
from rebalance.restore import Audit, Replay
from state.checkpoint import Layout, decode_turn
from state.disk import StoreDamaged
from state.due import indexed_sides
from state.store import LaneStore
from state.warm import warm_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from state.resources import Resources

READ_RECORDS_MAX: Final = 500
"""Changelog records read ahead; each is a whole turn."""
REPLAY_STEP_MS: Final = 50
"""Time one step may spend on replay while other lanes run; a single record is not cut."""
REPLAY_SHARE: Final = 0.25
"""The same as a part of the time since the step before, where that is more: turns may be long."""
AUDIT_ROWS_MAX: Final = 200_000
"""Of kept stores, all lanes together, so many rows are audited: half a second, or one where they
are put into windows."""


class Replayed(NamedTuple):
    """What one read of the changelog brought."""

    items: list[tuple[int, int, bytes | None]]
    """(lane, offset, value) in log order per lane; no value: the partition ends at this offset,
    and everything committed below it was delivered."""
    below_start: list[int]
    """Lanes whose position is below the log's start: the store cannot be continued."""


class ChangelogReader(Protocol):
    """A read_committed, assign-only reader of the changelog."""

    def assign(self, lane: int, offset: int) -> None:
        """Start reading a lane at an offset."""

    def unassign(self, lane: int) -> None:
        """Stop reading a lane; nothing happens if it was not read."""

    def look_again(self) -> None:
        """After an answer that cannot be: learn anew whom to ask. Waits a second at most."""

    def read(self, limit: int) -> Replayed:
        """Up to `limit` records that are there now; never waits long."""


class Observer(Protocol):
    """Told of every step, for logs and metrics."""

    def __call__(self, lane: Lane, event: str, **details: object) -> None:
        """`event` happened to the lane."""


@dataclass(slots=True)
class Takeovers:
    """Drives lanes from assignment to the point where they may be claimed."""

    lanes: dict[int, Lane]
    reader: ChangelogReader
    authority: Authority
    threads: Executor
    resources: Resources
    layout: Layout
    topics: tuple[str, str]
    windows_bytes_max: int
    """What the windows of all lanes may take in memory."""
    own: Callable[[], frozenset[str]]
    """Transactional ids of this worker that are never to be fenced."""
    observe: Observer
    accept_bounds: bool = False
    busy: bool = False
    """Whether the last step has left work that waits for nothing but the next one."""
    _reading: set[int] = field(default_factory=set)
    _backlog: deque[tuple[int, int, bytes | None]] = field(default_factory=deque)
    """Read and not yet folded; only of lanes in `_reading`."""
    _replayed_at: float = field(default_factory=time.monotonic)

    def step(self) -> list[Lane]:
        """One bounded step for every lane on its way; returns those that are ready to claim.

        Raises Mismatch where a person must decide, StoreDamaged where a second replay would not
        help, and whatever a helper thread met.
        """
        waiting = [lane for lane in self.lanes.values() if lane.phase is not Phase.RUNNING]
        self.busy = False
        if not waiting:
            return []
        for lane in waiting:
            if lane.phase is Phase.ASSIGNED:
                self._open(lane)
        self._replay()
        self.busy = bool(self._backlog)
        for lane in waiting:
            if lane.phase is Phase.RESTORING:
                self._fence(lane)
            elif lane.phase is Phase.FENCING:
                self._await_bound(lane)
        return [
            lane for lane in waiting if lane.phase is Phase.INSTALLING and self._installed(lane)
        ]

    def forget(self, lane: Lane) -> None:
        """Stop working on a lane that was revoked, lost, or starts over.

        What was read ahead of it goes, too: a later replay may begin below.
        """
        if lane.number in self._reading:
            self._reading.discard(lane.number)
            self.reader.unassign(lane.number)
            kept = [item for item in self._backlog if item[0] != lane.number]
            self._backlog = deque(kept)

    def restart(self, lane: Lane, signal: Signal) -> None:
        """Begin again from the local checkpoint, without a new assignment."""
        self.forget(lane)
        lane.signal(signal)

    def _open(self, lane: Lane) -> None:
        """Start to read the changelog from the store's position, once both are known.

        The store is opened by a helper thread: it takes tens of milliseconds, more on a busy disk.
        Lanes that run need not wait for the removal of a damaged one, or for its directory to be
        read; while RocksDB opens it they do, as its binding holds the interpreter. A renewal
        meanwhile leaves it to the thread, as the store is the same one; a lane that goes meanwhile
        closes it, see `Lane.closer`.
        """
        if lane.extent is None:
            doubted = lane.doubted_at is not None
            lane.asked_at = time.monotonic()
            lane.extent = self.threads.submit(
                extent_of, self.authority, lane.number, doubted=doubted
            )
            self._end_tail(lane)
        if lane.store is None:
            self._await_store(lane)
        if lane.store is None or not lane.extent.done():
            return
        extent, store = lane.extent.result(), lane.store
        ours = not self._foreign(store)
        if ours and store.position > extent.end and self._doubted(lane, "position past the end"):
            lane.extent = None
            return
        if not ours or not extent.start <= store.position <= extent.end:
            self._wipe(lane, f"position {store.position} with the log at {extent}")
        lane.replay = Replay(store)
        start = max(store.position, extent.start)
        self.reader.assign(lane.number, start)
        if not self._reading:
            self._replayed_at = time.monotonic()
        self._reading.add(lane.number)
        lane.signal(Signal.OPENED)
        found = "no local copy" if store.checkpoint is None else "local copy"
        self.observe(lane, "restore", reason=found, start=start, end=extent.end)

    def _await_store(self, lane: Lane) -> None:
        """Have the store opened, once what an earlier ownership left of it is closed."""
        if lane.opening is None and (lane.closing is None or lane.closing.done()):
            lane.opening = self.threads.submit(_opened, lane.directory, self.resources)
        if lane.opening is None or not lane.opening.done():
            return
        lane.store, damage = lane.opening.result()
        lane.opening = None
        if damage:
            self.observe(lane, "wipe", reason=damage)

    def _end_tail(self, lane: Lane) -> None:
        """Let a helper thread end what former owners left open, while the lane is restored.

        It must be through with that before the lane is claimed:

        1. The thread is held up by a slow broker. The producer is renewed, the lane restored again,
           claimed, and has a turn under way.
        2. Now the thread sees that turn in the tail. Its writer has a name that was not ours when
           the thread began: it is ended.
        """
        if lane.ending is None or lane.ending.done():
            lane.ending = self.threads.submit(fence_tail, self.authority, lane.number, self.own())

    def _foreign(self, store: LaneStore) -> bool:
        checkpoint = store.checkpoint
        return checkpoint is not None and checkpoint.layout.changelog_id != self.layout.changelog_id

    def _wipe(self, lane: Lane, why: str) -> None:
        """Drop a store that cannot be continued; the changelog has everything that counts."""
        if lane.opened.checkpoint is not None:
            self.observe(lane, "wipe", reason=why)
        lane.opened.wipe()
        lane.audited = False

    def _replay(self) -> None:
        """Fold what the changelog has for us now into the stores, for a bounded time."""
        if not self._reading:
            return
        began = time.monotonic()
        until = began + max(REPLAY_STEP_MS / 1000, (began - self._replayed_at) * REPLAY_SHARE)
        while (self._backlog or self._read()) and time.monotonic() < until:
            number, offset, value = self._backlog.popleft()
            lane = self.lanes[number]
            try:
                self._fold(lane, offset, value)
            except StoreDamaged as damaged:
                self._damaged(lane, str(damaged))
        self._replayed_at = time.monotonic()

    def _read(self) -> bool:
        """Take what the reader has fetched; returns whether it was anything."""
        replayed = self.reader.read(READ_RECORDS_MAX)
        self._backlog.extend(replayed.items)
        for number in replayed.below_start:
            if number in self._reading:
                self._outside(self.lanes[number])
        return bool(self._backlog)

    def _outside(self, lane: Lane) -> None:
        """The log does not have the position where it was to be read.

        It was cut meanwhile, or the reader's broker is behind: where the log begins and ends is
        asked once more, and says whether the store can be continued.
        """
        if self._doubted(lane, "position out of the log"):
            self.restart(lane, Signal.DAMAGED)
        else:
            self._damaged(lane, "the changelog begins past its position")

    def _doubted(self, lane: Lane, why: str) -> bool:
        """Whether what contradicts the changelog has to be asked for again; see `DOUBTED_MS`."""
        if not lane.doubts():
            return False
        self.observe(lane, "doubted", reason=why)
        self.reader.look_again()
        return True

    def _fold(self, lane: Lane, offset: int, value: bytes | None) -> None:
        assert lane.replay is not None, f"lane {lane.number} is read without a replay"
        lane.moved_at = time.monotonic()
        lane.doubted_at = None
        if value is not None:
            lane.replay.feed(offset, decode_turn(value))
            lane.record_seen = offset
            return
        lane.replay.flush()
        lane.end_seen = offset

    def _damaged(self, lane: Lane, why: str) -> None:
        """Wipe and replay once; a second time would not help."""
        if lane.rebuilt:
            raise Unrepairable(f"lane {lane.number}: {why}, also after a full replay")
        self.forget(lane)
        self._wipe(lane, why)
        lane.rebuilt = True
        lane.signal(Signal.DAMAGED)

    def _fence(self, lane: Lane) -> None:
        """Replayed to the last stable offset: let a helper thread end what others left open."""
        if lane.end_seen <= lane.surveyed or (lane.ending is not None and not lane.ending.done()):
            return
        checkpoint = lane.checkpoint
        suspect = None if checkpoint is None or checkpoint.released else checkpoint.writer
        doubted = lane.doubted_at is not None
        survey = Survey(lane.number, lane.end_seen, suspect, self.own(), doubted)
        lane.asked_at = time.monotonic()
        lane.fencing = self.threads.submit(establish, self.authority, survey)
        lane.surveyed = lane.end_seen
        lane.signal(Signal.CAUGHT_UP)
        found = "its last owner has not released it" if suspect else "a look at the tail"
        self.observe(lane, "fence", reason=found, suspect=suspect)

    def _await_bound(self, lane: Lane) -> None:
        if lane.fencing is None or not lane.fencing.done():
            return
        fenced = lane.fencing.result()
        lane.fencing = None
        if fenced is None:
            lane.signal(Signal.STALLED)
            return
        lane.bound = fenced.bound
        self.observe(lane, "fenced", names=len(fenced.names))
        lane.signal(Signal.BOUNDED)
        self.observe(lane, "install", end=fenced.bound.changelog.end)

    def _installed(self, lane: Lane) -> bool:
        """Whether everything below the bound was replayed and agrees with the cluster."""
        bound, replay = lane.bound, lane.replay
        assert bound is not None, f"lane {lane.number} is installing without a bound"
        assert replay is not None, f"lane {lane.number} is installing without a replay"
        if lane.end_seen < bound.changelog.end:
            if time.monotonic() - lane.moved_at > STALL_MS / 1000:
                # Somebody's transaction is open in the tail: survey it again, from where we are.
                self._survey_again(lane)
            return False
        if lane.record_seen >= bound.changelog.end:
            # Somebody has written since the bound was read: we slept, and the lane is another's.
            # What was read before that says nothing of the checkpoint that we have now, and must
            # not stop the job. The next poll tells of the loss.
            self._survey_again(lane)
            return False
        if not self._audited(lane, replay):
            return False
        try:
            check_install(lane, bound, self.layout, self.topics)
        except Mismatch as mismatch:
            if mismatch.behind and self._doubted(lane, str(mismatch)):
                self._survey_again(lane)
                return False
            if not (self.accept_bounds and mismatch.bounds):
                raise
            self.observe(lane, "bounds_accepted", reason=str(mismatch))
        lane.doubted_at = None
        self.forget(lane)
        return True

    def _survey_again(self, lane: Lane) -> None:
        """Back to where the changelog's tail is looked at."""
        lane.surveyed = -1
        lane.audit = lane.warm = None
        lane.signal(Signal.STALLED)

    def _audited(self, lane: Lane, replay: Replay) -> bool:
        """Whether the stored rows are what the directory says; one bounded step of looking.

        A store that was mostly built in this takeover is looked at whole, and so is a small one,
        once after it was opened. One that was built from nothing, of rows that add up to what the
        directory says, needs no look, unless its rows are wanted in memory. A large one that was
        kept is not looked at: its rows and its directory were written together, and to read them
        all would make a restart as slow as the state is large.
        """
        if lane.audit is None:
            try:
                replay.finish(lane.end_seen)
            except StoreDamaged as damaged:
                self._damaged(lane, str(damaged))
                return False
            rows = _stored_rows(lane)
            built = lane.rebuilt or 2 * replay.figures.rows > rows
            small = rows <= AUDIT_ROWS_MAX // len(self.lanes)
            warm = self._fits(lane)
            if lane.audited or not (built or small):
                return True
            # What was made anew as it disagreed is looked at itself: the disk may be at fault.
            added_up = replay.proven and not lane.rebuilt
            if not warm and added_up and not indexed_sides(self.layout):
                lane.audited = True
                return True
            lane.audit = Audit(lane.opened, warm=warm)
        try:
            if not lane.audit.step():
                self.busy = True
                return False
            differences = lane.audit.differences()
        except StoreDamaged as damaged:
            differences = [str(damaged)]
        if differences:
            self._damaged(lane, "; ".join(differences))
        lane.audited = not differences
        lane.warm = lane.audit.warm if lane.audited else None
        return lane.audited

    def _fits(self, lane: Lane) -> bool:
        """Whether all rows of a lane fit in its share of the memory for windows."""
        checkpoint = lane.checkpoint
        if checkpoint is None:
            return True
        share = self.windows_bytes_max // len(self.lanes)
        return warm_bytes(checkpoint.rows, checkpoint.size) <= share


def _opened(directory: Path, resources: Resources) -> Opened:
    """A lane's store from disk; one that cannot be read is made anew, once. Raises StoreError."""
    try:
        return Opened(LaneStore.open(directory, resources), "")
    except StoreDamaged as damaged:
        damage = str(damaged)
    LaneStore.destroy(directory)
    return Opened(LaneStore.open(directory, resources), damage)


def _stored_rows(lane: Lane) -> int:
    return 0 if lane.checkpoint is None else lane.checkpoint.rows
