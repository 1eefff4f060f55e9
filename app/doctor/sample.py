"""A look at the newest records of an input: what they hold, and whether they would be taken."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from app.doctor.finding import Finding, fail, ok, warn
from app.doctor.partitioner import Placement, placement
from app.doctor.times import Times
from app.validity import Limits, fault_of
from schemas.records import Event, Fault, Kind, Reason, Side, event_of

if TYPE_CHECKING:
    from app.config import Config
    from app.kafka.cluster import Extent
    from app.kafka.scan import Read, Scanner
    from schemas.codec import Codec

RECORDS_MAX: Final = 10_000
"""Of each side."""
PARTITIONS_MAX: Final = 32
BYTES_MAX: Final = 32 << 20
ALL_BAD: Final = 0.9
"""Part of the records that must be refused for the whole side to be wrong."""


class Sample(NamedTuple):
    """Records of a side with what became of each: an event, or why it is none."""

    side: Side
    name: str
    partitions: int
    reads: list[Read]
    events: list[Event | Fault]

    @property
    def placement(self) -> Placement:
        """Where its keys lie; a WATERMARK speaks for a partition, wherever its key belongs."""
        keys = [
            (read.key, read.partition)
            for read, event in zip(self.reads, self.events, strict=True)
            if isinstance(event, Fault) or event.kind != Kind.WATERMARK
        ]
        return placement(self.name, self.partitions, keys)

    @property
    def largest(self) -> int:
        """Bytes of the largest key with its value; 0 without records."""
        sizes = [len(read.key or b"") + len(read.value or b"") for read in self.reads]
        return max(sizes, default=0)

    def times(self, scale: int) -> Times:
        """The times that move watermarks."""
        moments = [
            event.ts
            for event in self.events
            if isinstance(event, Event) and event.kind != Kind.RETRACT
        ]
        return Times(self.side.name.lower(), moments, scale)


def sample(
    config: Config, side: Side, extents: list[Extent], scanner: Scanner, codec: Codec
) -> Sample:
    """Read the newest records of some partitions, a bounded number of records and bytes."""
    topic = config.side(side).topic
    step = -(-len(extents) // PARTITIONS_MAX)
    looked_at = range(0, len(extents), step)
    reads: list[Read] = []
    size = 0
    for partition in looked_at:
        start, stable, _ = extents[partition]
        start = max(start, stable - RECORDS_MAX // len(looked_at))
        for batch in scanner.scan(topic, partition, start, stable):
            for read in batch:
                size += len(read.value or b"")
                reads.append(read)
            if size > BYTES_MAX:
                break
    parts = codec.decode_batch(side, [read.value for read in reads])
    events = [
        found if isinstance(found, Fault) else event_of(read.offset, read.key, found, None)
        for read, found in zip(reads, parts, strict=True)
    ]
    return Sample(side, side.name.lower(), len(extents), reads, events)


def sample_findings(sampled: Sample, limits: Limits) -> list[Finding]:
    """How many of the records are refused whatever the watermark, and why."""
    name, total = sampled.name, len(sampled.events)
    if total == 0:
        return [warn(f"records: {name} is empty, so there is nothing to look at yet")]
    faults = [fault for event in sampled.events if (fault := _fault(event, limits)) is not None]
    counts = Counter(fault.reason for fault in faults)
    details = {fault.reason: fault.detail for fault in reversed(faults)}
    found = []
    for reason, count in counts.most_common():
        if reason == Reason.FUTURE_TS:
            continue  # See `app.doctor.times`.
        level = fail if count > total * ALL_BAD else warn
        found.append(
            level(
                f"records: {count} of {total} sampled ones of {name} are refused as {reason}, "
                f"such as: {details[reason]}",
                "see Rejected records in the README",
            )
        )
    return found or [ok(f"records: {total} sampled ones of {name} are readable and valid")]


def _fault(event: Event | Fault, limits: Limits) -> Fault | None:
    if isinstance(event, Fault):
        return event
    found = fault_of(event, limits)
    return None if found is None else Fault(*found)
