"""What a lane's committed changelog says, worked out from the log as plainly as possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.checkpoint import Bucket, Checkpoint, TurnRecord, decode_turn
from state.keys import LIVE, PREFIX_SIZE, RowKey, bucket_prefix, parse_row_key
from state.packing import unpack_rows
from tests.simulation.log import Entry, Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.coordinator import Coordinator
    from tests.simulation.log import Log


class Wrong(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One whole turn, claim or release."""

    kind: str
    position: int
    """Offset after its last record."""
    first: int
    checkpoint: Checkpoint
    rows: dict[bytes, bytes]
    buckets: dict[int, Bucket]


@dataclass(slots=True)
class State:
    """A lane after some turns."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    buckets: dict[int, Bucket] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None

    def live(self, key: bytes, horizon: int) -> Iterator[RowKey]:
        """The rows of a key that are neither retracted nor only remembered, nor past retention."""
        mark = None if self.checkpoint is None else self.checkpoint.watermarks.lane
        for row_key, value in self.rows.items():
            parsed = parse_row_key(row_key)
            retained = mark is None or mark <= parsed.end + horizon
            if parsed.key == key and value[0] == LIVE and retained:
                yield parsed

    def apply(self, turn: Turn) -> None:
        """Go on by one turn."""
        self.rows.update(turn.rows)
        for number, bucket in turn.buckets.items():
            if bucket.rows:
                self.buckets[number] = bucket
                continue
            self.buckets.pop(number, None)
            prefix = bucket_prefix(number)
            for key in [key for key in self.rows if key[:PREFIX_SIZE] == prefix]:
                del self.rows[key]
        self.checkpoint = turn.checkpoint


class Changelog:
    """Reads one changelog partition over and over, decoding each record once."""

    def __init__(self, log: Log, coordinator: Coordinator) -> None:
        self.log = log
        self._coordinator = coordinator
        self._decoded: dict[int, TurnRecord] = {}

    def committed(self, start: int, end: int) -> list[tuple[int, Entry, TurnRecord]]:
        """Records that count, those included that only lack their marker."""
        found = []
        for offset in range(start, min(end, self.log.high)):
            entry = self.log.entries[offset]
            if entry.fate is Fate.COMMITTED or (
                entry.fate is Fate.OPEN and self._coordinator.will_commit(entry.producer)
            ):
                record = self._decoded.get(offset)
                if record is None:
                    assert entry.value is not None, "a changelog record has a value"
                    record = self._decoded[offset] = decode_turn(entry.value)
                found.append((offset, entry, record))
        return found

    def turns(self, start: int, end: int) -> list[Turn]:
        """The turns in [start, end): whole ones, of the owner of their time."""
        turns: list[Turn] = []
        parts: list[tuple[int, TurnRecord]] = []
        epoch = 0
        for offset, entry, record in self.committed(start, end):
            if record.epoch < epoch:
                continue
            expected = parts[-1][1].part + 1 if parts else 0
            if record.part != expected or (parts and record[:3] != parts[-1][1][:3]):
                parts = []
                if record.part:
                    continue
            parts.append((offset, record))
            if record.checkpoint is not None:
                turns.append(_turn(entry, parts, record.checkpoint))
                epoch = record.epoch
                parts = []
        return turns


def state_of(turns: list[Turn]) -> State:
    """The lane after these turns."""
    state = State()
    for turn in turns:
        state.apply(turn)
    return state


def _turn(entry: Entry, parts: list[tuple[int, TurnRecord]], checkpoint: Checkpoint) -> Turn:
    rows: dict[bytes, bytes] = {}
    buckets: dict[int, Bucket] = {}
    for _, part in parts:
        rows.update(unpack_rows(part.rows))
        buckets.update(part.buckets)
    kind = (dict(entry.headers).get("kind") or b"").decode()
    return Turn(kind, parts[-1][0] + 1, parts[0][0], checkpoint, rows, buckets)
