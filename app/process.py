"""One lane's part of a turn: what was polled goes in, a plan for the transaction comes out.

Pure: no Kafka, no clock, no store writes. A plan changes nothing but the lane's memory; it becomes
what the lane is with `settle_turn`, once its transaction is committed. If that fails, memory is
taken back to what is committed, and the lane is restored.

One more turn may be planned on top of one whose transaction is under way. Then for a while:

* `Running.checkpoint` and `Running.buckets` are the committed turn's, and what the world is told:
  positions, releases and truncation go by them.
* `Running.planned` and `Running.state` are the newest plan's. Windows hold the rows of both plans,
  and none that either of them changed may be evicted: the store has not got them yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from app.effects import entered
from app.join import Effects, JoinSettings, LaneState, abandon, advance, join, settle
from app.merge import Inbox
from schemas.codec import Unresolved
from schemas.records import JoinType, Side
from state.checkpoint import Watermarks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from app.effects import Match
    from schemas.records import Arrival
    from state.checkpoint import Bucket, Checkpoint, Layout
    from state.keys import StoredRow
    from state.warm import Warm

EVICTED_SHARE: Final = 0.125
"""Part of the limit on windows that one eviction frees beyond what it must."""


@dataclass(slots=True)
class Running:
    """A claimed lane: its state, what was read ahead, and how far."""

    lane: int
    checkpoint: Checkpoint
    settings: JoinSettings
    state: LaneState
    changelog_position: int
    """Next offset after the lane's newest changelog record."""
    changelog_first: int
    """Offset of the first record of the newest committed turn or claim."""
    inbox: Inbox = field(init=False)
    planned: Checkpoint = field(init=False)
    """That of the newest turn that was planned."""
    buckets: dict[int, Bucket] = field(init=False)
    """The committed directory."""
    expected: list[int] = field(default_factory=lambda: [0, 0])
    """Per side, the offset below which everything has been put into the inbox."""
    drained: list[bool] = field(default_factory=lambda: [False, False])
    """Per side, whether its newest signal was the partition's end."""
    held: list[bool] = field(default_factory=lambda: [False, False])
    """Per side, whether fetching is paused because too much waits."""
    unread: list[bool] = field(default_factory=lambda: [False, False])
    """Per side, whether records were given back unread, until their schemas are known."""
    waits: bool = False
    """Whether the next turn has to wait for a match schema."""

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.settings, self.checkpoint.watermarks)
        self.planned = self.checkpoint
        self.buckets = dict(self.state.buckets)
        self.expected = list(self.positions)

    @property
    def positions(self) -> tuple[int, int]:
        """Committed positions of left and right."""
        return self.checkpoint.left_position, self.checkpoint.right_position

    def again(self) -> Running:
        """The lane as it is committed, with nothing read ahead; its turns must be abandoned."""
        return Running(
            lane=self.lane,
            checkpoint=self.checkpoint,
            settings=self.settings,
            state=self.state,
            changelog_position=self.changelog_position,
            changelog_first=self.changelog_first,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What one lane wants to have committed."""

    lane: int
    kind: str
    checkpoint: Checkpoint
    effects: Effects | None = None
    taken: tuple[int, int] = (0, 0)
    """Input records of each side."""
    after: int | None = None
    """The changelog's end that this follows from; None where a turn of our own was the last."""

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        """Row writes, by row key."""
        return self.effects.rows if self.effects is not None else {}

    @property
    def buckets(self) -> Mapping[int, Bucket]:
        """Changed directory entries."""
        return self.effects.buckets if self.effects is not None else {}


@dataclass(frozen=True, slots=True)
class Moment:
    """What a turn is told about the world outside the lane."""

    now: int | None
    """Wall clock in the job's unit, None where it does not matter."""
    writer: str
    owner: str
    address: str
    limit: int
    """Most records to take."""
    max_skew: int


class Stored(Protocol):
    """What a lane's store holds, as it stands in memory to begin with."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest committed one."""

    def buckets(self) -> dict[int, Bucket]:
        """The directory."""

    def windows(self, buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
        """The stored rows of these keys, in the store's order."""

    def probe(
        self, buckets: Sequence[int], records: list[Arrival], span: int
    ) -> tuple[list[StoredRow], list[bytes]]:
        """What these records may match, and of which keys that cannot be said."""

    def due(self, first: bytes, after: bytes, count_max: int) -> list[bytes]:
        """The first entries of the index by end in [first, after)."""


def resumed(
    kept: Running | None, store: Stored, layout: Layout, warm: Warm | None = None
) -> LaneState:
    """What a lane that is about to be claimed has in memory.

    `kept` is the lane as it ran before it was restored. If no turn was committed after those that
    it knows of, it is still right, and much of it need not be read again. `layout` is that of a
    lane without history. `warm` are windows of all stored rows.
    """
    checkpoint = store.checkpoint
    if kept is not None and kept.checkpoint == checkpoint:
        return kept.state
    span = layout.span if checkpoint is None else checkpoint.layout.span
    watermarks, decided = Watermarks(), b""
    if checkpoint is not None:
        watermarks, decided = checkpoint.watermarks, checkpoint.decided
    state = LaneState(watermarks, store.buckets(), store.windows, span, store.due, decided)
    if layout.join_type == JoinType.INNER.value:
        state.windows.probe = store.probe
    if warm is not None:
        state.windows.adopt(warm.table, warm.costs)
    return state


def plan_turn(running: Running, moment: Moment, counting: tuple[bool, bool]) -> Plan | None:
    """Take what may be taken from the inbox and join it; None if there is nothing to commit.

    Raises Unresolved, with everything as it was, where a match has to wait for its schema.
    """
    drained = (running.drained[Side.LEFT], running.drained[Side.RIGHT])
    records = running.inbox.take(moment.limit, drained, moment.max_skew)
    try:
        effects = join(
            running.state,
            records,
            running.settings,
            moment.now,
            counting,
            running.changelog_position,
        )
    except Unresolved:
        running.inbox.put_back(records)
        raise
    if not records and not effects.changed:
        return None
    if effects.taken < len(records):
        running.inbox.put_back(records[effects.taken :])
        del records[effects.taken :]
    before = running.planned
    left, right = _positions(before, records)
    rows, size = _totals(running.state.buckets, effects.buckets, before)
    checkpoint = replace(
        before,
        sequence=before.sequence + 1,
        writer=moment.writer,
        owner=moment.owner,
        address=moment.address,
        left_position=left,
        right_position=right,
        watermarks=effects.watermarks,
        rows=rows,
        size=size,
        decided=effects.decided,
    )
    of_left = [record[1] for record in records].count(Side.LEFT)
    taken = of_left, len(records) - of_left
    running.planned = checkpoint
    advance(running.state, effects)
    return Plan(running.lane, "turn", checkpoint, effects, taken)


def settle_turn(running: Running, plan: Plan, first: int, position: int) -> None:
    """The plan's transaction is committed: what it says is now the lane's state."""
    running.checkpoint = plan.checkpoint
    running.changelog_first = first
    running.changelog_position = position
    if plan.effects is not None:
        entered(running.buckets, plan.effects)
        settle(running.state, plan.effects)


def abandon_turn(running: Running, plan: Plan) -> None:
    """The plan will not be committed, nor any after it: memory is what was committed, again."""
    running.planned = committed = running.checkpoint
    state = running.state
    state.watermarks, state.decided = committed.watermarks, committed.decided
    state.buckets.clear()
    state.buckets.update(running.buckets)
    if plan.effects is not None:
        abandon(state, plan.effects)


def _positions(before: Checkpoint, records: Sequence[Arrival]) -> tuple[int, int]:
    """Positions after these records; gaps in offsets (markers, compaction) are normal."""
    positions = [before.left_position, before.right_position]
    missing = {Side.LEFT, Side.RIGHT}
    for _, side, offset, *_ in reversed(records):
        if side in missing:
            missing.discard(side)
            positions[side] = offset + 1
            if not missing:
                break
    return positions[Side.LEFT], positions[Side.RIGHT]


def _totals(
    stored: Mapping[int, Bucket], changed: Mapping[int, Bucket], before: Checkpoint
) -> tuple[int, int]:
    rows, size = before.rows, before.size
    for number, bucket in changed.items():
        old = stored.get(number)
        rows += bucket.rows - (old.rows if old is not None else 0)
        size += bucket.size - (old.size if old is not None else 0)
    return rows, size


def truncation_point(running: Running) -> int:
    """The offset below which nothing of the changelog is needed.

    No live bucket has a row there, and the last committed turn or claim stays. Only committed
    knowledge moves it.
    """
    firsts = [bucket.first_offset for bucket in running.buckets.values()]
    return min([*firsts, running.changelog_first])


def trim_windows(lanes: Iterable[Running]) -> None:
    """Let go of rows that have expired, a little of it each turn, whenever there is time."""
    for running in lanes:
        running.state.windows.trim()


def windows_bytes(lanes: Iterable[Running]) -> int:
    """What the windows of these lanes take in memory."""
    return sum([running.state.windows.size for running in lanes])


def bound_windows(lanes: Collection[Running], bytes_max: int) -> None:
    """Evict windows over all lanes, the largest lane first, until they fit with room to spare.

    Not while a turn is planned that is not committed.
    """
    excess = windows_bytes(lanes) - bytes_max
    if excess > 0:
        # An eviction looks at every window of its lane: once in a while, not every turn.
        excess += int(bytes_max * EVICTED_SHARE)
    while excess > 0:
        largest = max(lanes, key=lambda running: running.state.windows.size)
        freed = largest.state.windows.evict(min(excess, largest.state.windows.size))
        if freed <= 0:
            break
        excess -= freed


def timestamped(
    matches: Sequence[Match], ticks_per_ms: int, now_ms: int
) -> list[tuple[bytes, bytes | None, int]]:
    """Matches with Kafka timestamps, in ms, instead of times in the job's unit.

    A broker refuses timestamps an hour ahead, and the client takes 0 for "now": so [1, now].
    """
    stamped = []
    for key, value, ts in matches:
        ms = ts // ticks_per_ms
        stamped.append((key, value, now_ms if ms > now_ms else ms if ms > 0 else 1))
    return stamped
