"""One partition: records, transaction markers, and what each kind of reader sees of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from tests.simulation.network import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.coordinator import Place

Headers = list[tuple[str, bytes | None]]


class Fate(Enum):
    """What became of a record."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    MARKER = "marker"


@dataclass(slots=True)
class Entry:
    """What takes one offset."""

    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)
    timestamp: int = 0
    producer: int = -1
    """Producer id, -1 outside of transactions."""
    fate: Fate = Fate.COMMITTED


class Extent(NamedTuple):
    """Where a partition begins and ends, for each kind of reader."""

    start: int
    high: int
    stable: int

    def end(self, *, committed: bool) -> int:
        """Where a reader's partition ends."""
        return self.stable if committed else self.high


@dataclass(frozen=True, slots=True)
class Past:
    """What a broker knew when it was cut off from the others. It goes on answering."""

    extents: Mapping[Place, Extent]
    offsets: Mapping[Place, int] | None
    """The group's stored ones; None where another broker has them."""


class Log:
    """The log of one partition, on disk for ever but for what was deleted at its start."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = 0
        self.entries: list[Entry] = []
        self.open: dict[int, int] = {}
        """Producer id -> offset of the first record of its undecided transaction."""
        self.epochs: dict[int, int] = {}
        """Producer id -> highest epoch seen here."""

    @property
    def high(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset; below the start where an open transaction was cut off."""
        return min(self.open.values(), default=len(self.entries))

    def append(self, entry: Entry) -> int:
        """Add a record; returns its offset."""
        offset = len(self.entries)
        if entry.producer >= 0:
            entry.fate = Fate.OPEN
            self.open.setdefault(entry.producer, offset)
        self.entries.append(entry)
        return offset

    def decide(self, producer: int, epoch: int, *, commit: bool) -> None:
        """Write the marker that ends a transaction here."""
        fate = Fate.COMMITTED if commit else Fate.ABORTED
        first = self.open.pop(producer, len(self.entries))
        for entry in self.entries[first:]:
            if entry.producer == producer and entry.fate is Fate.OPEN:
                entry.fate = fate
        self.epochs[producer] = max(epoch, self.epochs.get(producer, 0))
        self.entries.append(Entry(None, None, producer=producer, fate=Fate.MARKER))

    def extent(self, past: Past | None = None) -> Extent:
        """Where it begins and ends, as the broker says that has this past."""
        if past is not None:
            return past.extents[self.topic, self.partition]
        return Extent(self.start, self.high, self.stable)

    def read(
        self, offset: int, count: int, *, committed: bool, past: Past | None = None
    ) -> tuple[list[tuple[int, Entry]], int]:
        """Up to `count` records from an offset on, and the offset to go on from."""
        extent = self.extent(past)
        if not extent.start <= offset <= extent.high:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
        end = extent.end(committed=committed)
        found: list[tuple[int, Entry]] = []
        while offset < end and len(found) < count:
            entry = self.entries[offset]
            if entry.fate is not Fate.MARKER and not (committed and entry.fate is Fate.ABORTED):
                found.append((offset, entry))
            offset += 1
        while offset < end and self.entries[offset].fate is Fate.MARKER:
            offset += 1
        return found, offset

    def delete_before(self, offset: int) -> int:
        """Let go of the beginning; returns where the log begins then."""
        if offset > self.high:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
        self.start = max(self.start, offset)
        return self.start
