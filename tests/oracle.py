"""The join as slowly and plainly as it can be said: every row is kept, every pair is looked at.

Written from the rules alone and sharing no code with the join but the records' types. It never
cleans up, so whatever the join drops must make no difference to what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.records import Event, Kind, Reason, Record, Rejected, Side

if TYPE_CHECKING:
    from collections.abc import Iterable

INT64 = 2**63


@dataclass
class OracleRow:
    side: Side
    key: bytes
    id: str
    ts: int
    start: int
    end: int
    value: bytes
    state: str = "live"
    """live, retracted, remembered (no insert yet), or met (its insert came and was ignored)."""
    alone: bool = False
    """Written as unmatched."""

    def overlaps(self, other: OracleRow) -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class Emitted:
    """A match, or with `start` None a tombstone; or an unmatched row with its own interval."""

    match_id: str
    ts: int
    start: int | None
    end: int | None


@dataclass
class Tally:
    inserted: int = 0
    retracted: int = 0
    duplicates: int = 0
    duplicate_changed: int = 0
    remembered: int = 0
    watermarks: int = 0


@dataclass
class Oracle:
    """One lane. Feed it records in the order in which the lane takes them."""

    lateness: int
    max_interval: int
    max_future: int | None = None
    preserved: tuple[Side, ...] = ()
    """Sides whose rows are written also when nothing matches them."""
    rows: list[OracleRow] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    rejects: list[tuple[Side, int, Reason]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    wm: float = -math.inf
    sides: list[float] = field(default_factory=lambda: [-math.inf, -math.inf])

    @property
    def horizon(self) -> int:
        return self.lateness + self.max_interval

    def feed(
        self,
        side: Side,
        record: Record,
        now: int | None = None,
        counting: tuple[bool, bool] = (True, True),
    ) -> None:
        self._take(side, record, now, counting)
        self._write_unmatched()

    def _take(
        self, side: Side, record: Record, now: int | None, counting: tuple[bool, bool]
    ) -> None:
        if isinstance(record, Rejected):
            self.rejects.append((side, record.offset, record.reason))
            return
        reason = self._invalid(record, now)
        if reason is None and record.kind == Kind.INSERT:
            reason = self._insert(side, record)
        elif reason is None and record.kind == Kind.RETRACT:
            reason = self._retract(side, record)
        elif reason is None:
            self.tally.watermarks += 1
        if reason is not None:
            self.rejects.append((side, record.offset, reason))
        if record.kind == Kind.RETRACT or self._invalid(record, now) is not None:
            return
        if record.ts > self.sides[side]:
            self.sides[side] = record.ts
            self.follow(counting)

    def follow(self, counting: tuple[bool, bool] = (True, True)) -> None:
        """The lane's watermark after a side moved, and at the end of every turn."""
        speaking = [ts for ts, counts in zip(self.sides, counting, strict=True) if counts]
        if speaking:
            self.wm = max(self.wm, min(speaking))
        self._write_unmatched()

    def _write_unmatched(self) -> None:
        """Rows that nothing can match any more and that have no match left, once each."""
        for row in self.rows if self.preserved else ():
            if not row.alone and self._unmatched(row):
                row.alone = True
                name = unmatched_name(row.side, row.id)
                self.emitted.append(Emitted(name, row.ts, row.start, row.end))

    def _unmatched(self, row: OracleRow) -> bool:
        return (
            row.side in self.preserved
            and row.state == "live"
            and self.wm > row.end + self.horizon
            and not any(self._partners(row))
        )

    def _invalid(self, event: Event, now: int | None) -> Reason | None:  # noqa: PLR0911
        room = self.lateness + 4 * self.max_interval
        times = [event.ts] if event.kind == Kind.WATERMARK else [event.ts, event.start, event.end]
        if event.key is None and event.kind != Kind.WATERMARK:
            return Reason.NULL_KEY
        if min(times) < -INT64 + room or max(times) > INT64 - 1 - room:
            return Reason.OUT_OF_RANGE
        if event.kind != Kind.WATERMARK and event.end < event.start:
            return Reason.INVALID_INTERVAL
        if event.kind == Kind.INSERT and (event.ts < event.start or event.ts > event.end):
            return Reason.INVALID_INTERVAL
        if event.kind != Kind.WATERMARK and event.end - event.start > self.max_interval:
            return Reason.INTERVAL_TOO_LONG
        if now is not None and self.max_future is not None and event.ts - now > self.max_future:
            return Reason.FUTURE_TS
        return None

    def _known(self, side: Side, event: Event) -> OracleRow | None:
        known = [
            row
            for row in self.rows
            if (row.side, row.key, row.id) == (side, event.key, event.id)
            and self.wm <= row.end + self.horizon
        ]
        assert len(known) <= 1
        return known[0] if known else None

    def _insert(self, side: Side, event: Event) -> Reason | None:
        known = self._known(side, event)
        if known is not None:
            if known.state == "live":
                if (known.start, known.end) != (event.start, event.end):
                    return Reason.CONFLICTING_DUPLICATE
                self.tally.duplicate_changed += known.value != event.value
            elif known.state == "remembered":
                known.state = "met"
            self.tally.duplicates += 1
            return None
        if event.ts < self.wm - self.lateness:
            return Reason.LATE
        row = self._row(side, event)
        for other in self._partners(row):
            start, end = max(row.start, other.start), min(row.end, other.end)
            self._emit(row, other, start, end)
        self.rows.append(row)
        self.tally.inserted += 1
        return None

    def _retract(self, side: Side, event: Event) -> Reason | None:
        known = self._known(side, event)
        if known is not None:
            if known.state != "live":
                self.tally.duplicates += 1
                return None
            for other in self._partners(known):
                self._emit(known, other, None, None)
            known.state = "retracted"
            self.tally.retracted += 1
            return None
        if self.wm > event.end + self.horizon:
            return Reason.RETRACT_AFTER_HORIZON
        row = self._row(side, event)
        row.state = "remembered"
        self.rows.append(row)
        self.tally.remembered += 1
        return None

    def _row(self, side: Side, event: Event) -> OracleRow:
        assert event.key is not None
        return OracleRow(side, event.key, event.id, event.ts, event.start, event.end, event.value)

    def _partners(self, row: OracleRow) -> Iterable[OracleRow]:
        return [
            other
            for other in self.rows
            if other.side != row.side
            and other.key == row.key
            and other.state == "live"
            and other.overlaps(row)
        ]

    def _emit(self, one: OracleRow, two: OracleRow, start: int | None, end: int | None) -> None:
        left, right = (one, two) if one.side == Side.LEFT else (two, one)
        name = match_name(left.id, right.id)
        self.emitted.append(Emitted(name, max(one.ts, two.ts), start, end))

    def live_matches(self) -> set[str]:
        """A batch join over all accepted, not retracted rows, and what it leaves over for good."""
        matches = batch_join(row for row in self.rows if row.state == "live")
        alone = {unmatched_name(row.side, row.id) for row in self.rows if self._unmatched(row)}
        return matches | alone


def batch_join(rows: Iterable[OracleRow]) -> set[str]:
    """The match ids of all pairs that share a key and a moment."""
    everything = list(rows)
    return {
        match_name(left.id, right.id)
        for left in everything
        for right in everything
        if (left.side, right.side) == (Side.LEFT, Side.RIGHT)
        and left.key == right.key
        and left.overlaps(right)
    }


def match_name(left_id: str, right_id: str) -> str:
    """The id of a match."""
    return f"{unmatched_name(Side.LEFT, left_id)}|{unmatched_name(Side.RIGHT, right_id)}"


def unmatched_name(side: Side, row_id: str) -> str:
    """The output key of an unmatched row."""
    escapes = {"%": "%25", "|": "%7C"}
    return {Side.LEFT: "L:", Side.RIGHT: "R:"}[side] + "".join(escapes.get(c, c) for c in row_id)


def alive(emitted: Iterable[tuple[str, bool]]) -> set[str]:
    """The ids left when (match id, whether it is a match) are played in order into a table."""
    table: set[str] = set()
    for name, is_match in emitted:
        if is_match:
            table.add(name)
        else:
            table.discard(name)
    return table
