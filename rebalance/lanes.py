"""A lane on its way through the handoff: its phase, its store, and what was learnt about it.

Invariant: `checkpoint` is what a committed changelog record said, never what this process hopes.
"""

from __future__ import annotations

import time
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rebalance.phases import Phase, Signal, after
from schemas.records import JoinType, Side
from state.disk import StoreDamaged, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from rebalance.restore import Audit, Replay
    from state.checkpoint import Checkpoint, Layout
    from state.store import LaneStore
    from state.warm import Warm

STALL_MS: Final = 2_000
"""An install that has not moved for this long looks at the changelog's tail again."""
DOUBTED_MS: Final = 5_000
"""What contradicts the changelog is believed if the broker still says it after this time.

A broker that was cut off from the others goes on answering, with ends of partitions as they were:

1. The leader of a changelog partition is cut off. Another one takes over, and has new turns.
2. The lane moves. Its new owner asks the old leader, which does not know better yet.
3. The group's offsets are ahead of that changelog: as if it had been cut, which is nobody's to mend
   but a person's. A moment later the old leader has heard of the new one, or a client has."""
RESETTING: Final = 2**62
"""The group's offsets while a reset is under way: beyond every position, so that no lane starts."""
RESHARDING: Final = RESETTING + 1
"""The same while a reshard is under way."""
START_OVER: Final = "start over with `spanjoin reset`"
"""The mend where the state cannot be gone on from."""


class Extent(NamedTuple):
    """First and next offset of a partition, by the broker's high watermark."""

    start: int
    end: int


class Bound(NamedTuple):
    """What the broker said once no former owner could write any more.

    `stored` are the group's offsets per side (None: never committed), read before `changelog`.
    """

    stored: tuple[int | None, int | None]
    inputs: tuple[Extent, Extent]
    changelog: Extent


@dataclass(frozen=True, slots=True)
class Fenced:
    """What fencing found: names that were ended now, and the bound to install to."""

    names: frozenset[str]
    bound: Bound


class Opened(NamedTuple):
    """A store that a helper thread has opened."""

    store: LaneStore
    damage: str
    """Why the one that was there had to be made anew; empty if it had not."""


class Mismatch(Exception):
    """The cluster contradicts the checkpoint and a person must decide: stop, move nothing.

    `bounds`: only a larger lateness or interval, which a person may accept. `behind`: so it looks
    also to whom a broker tells of the past.
    """

    def __init__(self, line: str, *, bounds: bool = False, behind: bool = False) -> None:
        super().__init__(line)
        self.bounds = bounds
        self.behind = behind


class Unrepairable(StoreDamaged):
    """A replay of the whole changelog did not mend a store: one of the two is at fault."""


def _now() -> float:
    """By the clock that this module has when it is asked: a simulation has one of its own."""
    return time.monotonic()


@dataclass(slots=True)
class Lane:
    """One lane this worker holds."""

    number: int
    directory: Path
    phase: Phase = Phase.ASSIGNED
    store: LaneStore | None = None
    replay: Replay | None = None
    closing: Future[None] | None = None
    """The store of an earlier ownership of this lane, still being closed."""
    extent: Future[Extent] | None = None
    """Where its changelog begins and ends, asked for at the assignment."""
    opening: Future[Opened] | None = None
    """Its store, while a helper thread opens it."""
    ending: Future[None] | None = None
    """What stood undecided in its changelog at the assignment, while a helper thread ends it."""
    fencing: Future[Fenced | None] | None = None
    bound: Bound | None = None
    audit: Audit | None = None
    warm: Warm | None = None
    """The windows that an audit has filled, for the lane to begin with."""
    surveyed: int = -1
    """Position of the last survey that came too early: replay past it before the next."""
    record_seen: int = -1
    """Offset of the newest committed changelog record that was delivered."""
    end_seen: int = -1
    """Offset of the newest partition EOF of the changelog: everything below it was delivered."""
    audited: bool = False
    """Whether the open store was compared with its directory; what is applied since keeps both."""
    rebuilt: bool = False
    """Whether the store was wiped and replayed once already since the assignment."""
    asked_at: float = field(default_factory=_now)
    """When the broker was asked for what is gone by now."""
    doubted_at: float | None = None
    """Since when what it says contradicts the changelog; None while it does not."""
    moved_at: float = field(default_factory=_now)
    assigned_at: float = field(default_factory=_now)
    began_at: float = field(default_factory=_now)
    """When this takeover began: the assignment, or the renewal since."""
    told_at: float = field(default_factory=_now)
    """When its newest step was told."""

    def signal(self, signal: Signal) -> None:
        """Move to the phase the table gives; raises IllegalSignal for a pair that cannot be."""
        self.phase = after(self.phase, signal)
        self.moved_at = time.monotonic()
        if self.phase is Phase.RUNNING:
            self.audit = self.warm = None  # The lane's memory by now, and it changes.
        if signal is Signal.RENEWED:
            self.began_at = self.moved_at
        if self.phase is Phase.ASSIGNED:
            self.replay = None
            self.extent = None
            self.fencing = None
            self.bound = None
            self.audit = self.warm = None
            self.surveyed = -1
            self.record_seen = -1
            self.end_seen = -1

    def doubts(self) -> bool:
        """Whether what contradicts the changelog now has to be asked for again: it may pass."""
        if self.doubted_at is None:
            self.doubted_at = time.monotonic()
        return self.asked_at < self.doubted_at + DOUBTED_MS / 1000

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest committed checkpoint, None for a lane without any history."""
        return None if self.store is None else self.store.checkpoint

    @property
    def epoch(self) -> int:
        """That of the newest committed checkpoint, 0 for a lane without any history."""
        return 0 if self.checkpoint is None else self.checkpoint.epoch

    @property
    def to_restore(self) -> int | None:
        """Offsets of the changelog still to be replayed; None while its end is not known."""
        if self.phase is Phase.RUNNING:
            return 0
        if self.replay is None or self.extent is None:
            return None
        known = self.extent.result()  # It is there before a replay begins.
        end = known.end if self.bound is None else self.bound.changelog.end
        seen = max(known.start, self.opened.position, self.record_seen + 1, self.end_seen)
        return max(end - seen, 0)

    def closer(self) -> Callable[[], None] | None:
        """What closes its store, for a thread that may wait; None if there is nothing to close.

        A store that is only being opened counts, too. How it goes wrong where it does not:

        1. The lane is assigned, a helper thread begins to open its store.
        2. The lane is revoked or lost. `store` is None, so nothing is closed.
        3. The lane comes back, and is opened a second time: the directory is locked, and the
           process ends. Or its copy is due, and is removed while the thread opens it.
        """
        if self.store is not None:
            return self.store.close
        return None if self.opening is None else partial(_close, self.opening)

    @property
    def opened(self) -> LaneStore:
        """The store of a lane that is past ASSIGNED."""
        assert self.store is not None, f"lane {self.number} has no open store in {self.phase}"
        return self.store


def _close(opening: Future[Opened]) -> None:
    """Wait for a store to be open, and close it. Nobody needs one that cannot be opened."""
    wait((opening,))
    with suppress(StoreError):
        opening.result().store.close()


def check_install(lane: Lane, bound: Bound, layout: Layout, topics: tuple[str, str]) -> None:
    """Compare the broker's word with the checkpoint; raises Mismatch with the mend in one line.

    `topics` are the inputs' names, `layout` what the configuration and the cluster say today.
    Stored offsets behind the checkpoint, or none, are normal: the changelog is the authority.
    """
    checkpoint = lane.checkpoint
    if RESETTING in bound.stored:
        raise Mismatch("a reset of this job was begun and did not end: run `spanjoin reset` again")
    if RESHARDING in bound.stored or (checkpoint is not None and checkpoint.resharding):
        raise Mismatch(
            "a reshard of this job was begun and did not end: run `spanjoin reshard` again"
        )
    for side in Side:
        stored = bound.stored[side]
        position = _position(checkpoint, side)
        if stored is not None and (position is None or stored > position):
            known = "no changelog" if position is None else f"changelog position {position}"
            raise Mismatch(
                f"lane {lane.number}: the group committed offset {stored} of {topics[side]} but "
                f"there is {known}: the changelog was deleted or cut; restore it, or {START_OVER}",
                behind=True,
            )
        if position is not None and position < bound.inputs[side].start:
            raise Mismatch(
                f"topic {topics[side]} partition {lane.number} begins at offset "
                f"{bound.inputs[side].start}, past the position {position}: records were deleted "
                f"before they were read; raise its retention, then {START_OVER}"
            )
        if position is not None and position > bound.inputs[side].end:
            raise Mismatch(
                f"topic {topics[side]} partition {lane.number} ends at offset "
                f"{bound.inputs[side].end}, before the position {position}: the topic was "
                f"recreated or lost data; {START_OVER}",
                behind=True,
            )
    if checkpoint is not None:
        check_layout(lane.number, checkpoint.layout, layout, topics)


def check_layout(lane: int, then: Layout, now: Layout, topics: tuple[str, str]) -> None:
    """Compare what the state was made with and what is configured; raises Mismatch."""
    for topic, old, new in zip(
        topics, (then.left_id, then.right_id), (now.left_id, now.right_id), strict=True
    ):
        if old != new:
            raise Mismatch(
                f"topic {topic} is not the one that the state of lane {lane} was written with: "
                f"name that one again; or, if it was deleted and created again, {START_OVER}"
            )
    if then.unit != now.unit:
        raise Mismatch(
            f"unit is {now.unit!r} but the state of lane {lane} was written with {then.unit!r}; "
            f"set it back, or {START_OVER}"
        )
    if then.join_type != now.join_type:
        raise Mismatch(
            f"join.type is {now.join_type!r} but the state of lane {lane} was written with "
            f"{then.join_type!r}; set it back, or {START_OVER}"
        )
    # Unmatched rows were written because nothing could match them any more, under the old bounds.
    outer = JoinType(now.join_type) is not JoinType.INNER
    for name, was, wanted in (
        ("join.allowed_lateness", then.lateness, now.lateness),
        ("join.max_interval", then.max_interval, now.max_interval),
    ):
        if wanted > was:
            once = "take the gap once with `spanjoin run --accept-bounds`"
            mend = START_OVER if outer else once
            raise Mismatch(
                f"{name} grew from {was} to {wanted} but rows that would be needed are dropped "
                f"already{', or written as unmatched' if outer else ''}; set it back, or {mend}",
                bounds=not outer,
            )


def _position(checkpoint: Checkpoint | None, side: Side) -> int | None:
    if checkpoint is None:
        return None
    return checkpoint.left_position if side is Side.LEFT else checkpoint.right_position
