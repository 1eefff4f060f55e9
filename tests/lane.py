"""A lane without Kafka and RocksDB: the join over a dictionary that stands for the store.

It can be made to clean up late or never, to lose its memory between turns, and to abort turns:
none of which may change what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.join import Effects, JoinSettings, LaneState, abandon, advance, join, settle
from app.unmatched import Outer
from schemas.records import (
    Arrival,
    Event,
    Fault,
    JoinType,
    Kind,
    Parts,
    Record,
    Rejected,
    Side,
    event_of,
)
from state.checkpoint import Bucket, Watermarks
from state.due import entries_of
from state.keys import REMEMBERED, parse_row_key, parse_row_value, parse_rows, rows_digest
from state.retention import span_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from state.keys import StoredRow

PLENTY = 10**9


def match_value(start: int, end: int, left: bytes, right: bytes) -> bytes:
    """Stands for the codec: a value from which everything can be read back."""
    return b"%d %d %b %b" % (start, end, left, right)


def unmatched_value(side: int, start: int, end: int, value: bytes) -> bytes:
    """The same for an unmatched row."""
    return b"%d %d %b" % (start, end, (value + b" -", b"- " + value)[side])


def settings_of(
    lateness: int,
    max_interval: int,
    *,
    max_future: int | None = None,
    match_bytes_max: int = PLENTY,
    row_bytes_max: int = PLENTY,
    span: int | None = None,
    join_type: JoinType = JoinType.INNER,
    due_max: int = PLENTY,
) -> JoinSettings:
    sides = join_type.preserved
    return JoinSettings(
        lateness=lateness,
        max_interval=max_interval,
        span=span_of(lateness, max_interval) if span is None else span,
        max_future=max_future,
        match_bytes_max=match_bytes_max,
        row_bytes_max=row_bytes_max,
        match_value=match_value,
        outer=Outer(sides, unmatched_value, due_max) if sides else None,
    )


_offsets = iter(range(10**12))


def event(
    row_id: str,
    start: int,
    end: int,
    *,
    ts: int | None = None,
    key: bytes | None = b"k",
    kind: Kind = Kind.INSERT,
    value: bytes | None = None,
) -> Event:
    """An event at its start unless said otherwise, with an offset of its own."""
    body = b"%b:%d:%d" % (row_id.encode(), start, end) if value is None else value
    ts = start if ts is None else ts
    return Event(next(_offsets), key, row_id, ts, start, end, int(kind), body, None)


def retraction(
    row_id: str, start: int, end: int, *, ts: int | None = None, key: bytes | None = b"k"
) -> Event:
    return event(row_id, start, end, ts=ts, key=key, kind=Kind.RETRACT)


def watermark(ts: int) -> Event:
    return event("", 0, 0, ts=ts, key=None, kind=Kind.WATERMARK)


Pushed = tuple[int, bytes | None, Parts | Fault, object]


def pushed(record: Record) -> Pushed:
    """A record as it is put into an inbox."""
    if isinstance(record, Rejected):
        return record.offset, None, Fault(record.reason, record.detail), record.source
    offset, key, row_id, ts, start, end, kind, value, source = record
    return offset, key, (end, start, row_id, ts, kind, value), source


def arrival(side: Side, record: Record) -> Arrival:
    """A record as it comes out of an inbox."""
    offset, key, parts, source = pushed(record)
    return 0, int(side), offset, key, parts, source


def record_of(offset: int, key: bytes | None, parts: Parts | Fault, source: object) -> Record:
    if isinstance(parts, Fault):
        return Rejected(offset, *parts, source)
    return event_of(offset, key, parts, source)


def named(arrival: Arrival) -> tuple[Side, Record]:
    """The other way."""
    _, side, offset, key, parts, source = arrival
    return Side(side), record_of(offset, key, parts, source)


@dataclass
class Lane:
    settings: JoinSettings
    store: dict[bytes, bytes] = field(default_factory=dict)
    directory: dict[int, Bucket] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=Watermarks)
    state: LaneState = field(init=False)
    turns: list[Effects] = field(default_factory=list)
    loads: int = 0
    probes: int = 0
    decided: bytes = b""

    def __post_init__(self) -> None:
        self.reopen()

    def reopen(self) -> None:
        """A new process: nothing in memory, the committed truth in the store."""
        self.state = LaneState(
            self.watermarks, self.directory, self.load, self.settings.span, self.due, self.decided
        )
        if self.settings.outer is None:
            self.state.windows.probe = self.probe

    def load(self, buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
        self.loads += len(keys)
        rows = parse_rows(sorted(self.store.items()))
        return [row for row in rows if row[0] in buckets and row[2] in keys]

    def probe(
        self, buckets: Sequence[int], records: list[Arrival], span: int
    ) -> tuple[list[StoredRow], list[bytes]]:
        """As a store does it whose notes report nothing falsely."""
        self.probes += len(records)
        stored = [row for row in parse_rows(sorted(self.store.items())) if row[0] in buckets]
        found: list[StoredRow] = []
        doubtful: list[bytes] = []
        for _, side, _, key, parts, _ in records:
            assert key is not None
            of_key = [row for row in stored if row[2] == key]
            if (
                isinstance(parts, Fault)
                or parts[4] != Kind.INSERT
                or any(row[1] == side and row[3][2] == parts[2] for row in of_key)
            ):
                doubtful.append(key)
            else:
                found += [row for row in of_key if row[1] != side and row[3][0] >= parts[1]]
        return sorted(found), doubtful

    def due(self, first: bytes, after: bytes, count: int) -> list[bytes]:
        assert self.settings.outer is not None
        entries = entries_of(self.store, self.settings.outer.sides)
        return [entry for entry in entries if first <= entry < after][:count]

    def turn(
        self,
        records: Sequence[tuple[Side, Record]],
        *,
        now: int | None = None,
        counting: tuple[bool, bool] = (True, True),
        clean: bool = True,
    ) -> Effects:
        """Joins and commits. With `clean` False what may be dropped is kept this time."""
        effects = self.propose(records, now=now, counting=counting)
        if not clean:
            kept = {b: entry for b, entry in effects.buckets.items() if b not in effects.dropped}
            effects = replace(effects, buckets=kept, dropped=[])
        self.commit(effects)
        return effects

    def propose(
        self,
        records: Sequence[tuple[Side, Record]],
        *,
        now: int | None = None,
        counting: tuple[bool, bool] = (True, True),
    ) -> Effects:
        arrivals = [arrival(*record) for record in records]
        return join(self.state, arrivals, self.settings, now, counting, len(self.turns))

    def abort(self, effects: Effects) -> None:
        abandon(self.state, effects)

    def commit(self, effects: Effects) -> None:
        advance(self.state, effects)
        self.committed(effects)

    def committed(self, effects: Effects) -> None:
        """The transaction of a turn has ended, on top of which another may have been joined."""
        self.turns.append(effects)
        self.store.update(effects.rows)
        for bucket, entry in effects.buckets.items():
            self.directory[bucket] = entry
        for bucket in effects.dropped:
            del self.directory[bucket]
        if effects.dropped:
            gone = set(effects.dropped)
            self.store = {
                name: value
                for name, value in self.store.items()
                if parse_row_key(name).bucket not in gone
            }
        self.watermarks = effects.watermarks
        self.decided = effects.decided
        settle(self.state, effects)
        self.state.windows.trim()

    def left(self, *events: Event) -> Effects:
        return self.turn([(Side.LEFT, event) for event in events])

    def right(self, *events: Event) -> Effects:
        return self.turn([(Side.RIGHT, event) for event in events])

    def advance(self, ts: int) -> Effects:
        """Moves the lane's watermark to `ts` by a WATERMARK event on each side."""
        return self.turn([(Side.LEFT, watermark(ts)), (Side.RIGHT, watermark(ts))])

    @property
    def emitted(self) -> list[tuple[str, bool]]:
        """(match id, whether it is a match) of all turns, in order."""
        return [
            (name.decode(), value is not None)
            for effects in self.turns
            for name, value, _ in effects.matches
        ]

    def recomputed_directory(self) -> dict[int, Bucket]:
        """The directory as the stored rows say it, each with its own first offset."""
        buckets: dict[int, Bucket] = {}
        for name, value in self.store.items():
            key, (_, flags, _) = parse_row_key(name), parse_row_value(value)
            entry = buckets.get(key.bucket, Bucket(0, 0, 0, 0, 0, 0))
            buckets[key.bucket] = Bucket(
                entry.rows + 1,
                entry.size + len(name) + len(value),
                (entry.digest + rows_digest([name], flags)) % 2**64,
                max(entry.longest, key.end - key.start),
                entry.remembered + (flags == REMEMBERED),
                self.directory[key.bucket].first_offset,
            )
        return buckets
