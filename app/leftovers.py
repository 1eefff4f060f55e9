"""What stands unread in the inputs, and under which number of partitions it was written.

Once an input was given partitions, the records of a key go on in another one. Those of before are
taken under the old layout, those of after under the new one. Where a key lies tells which it is,
unless both layouts put it there; then it makes no difference.

Invariant: nothing written under the new layout is below a partition's cut, and nothing of the old
one at or above it. Where producers learnt of the partitions at different times there is no such
cut, and a person must decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from app.validity import fault_of
from schemas.codec import Unresolved
from schemas.partition import PARTITIONERS
from schemas.records import Fault, Kind, event_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from app.kafka.scan import Read
    from app.validity import Limits
    from schemas.codec import Codec
    from schemas.records import Parts, Side

STRAYS_MAX: Final = 0.02
"""Part of the sampled keys that may lie elsewhere: records written to a partition by its number."""


class Placing(NamedTuple):
    """How keys are placed: the partitioner's hash, and both numbers of partitions."""

    hash: Callable[[bytes], int]
    before: int
    after: int

    def old(self, key: bytes) -> int:
        """The lane of a key under the old layout."""
        return self.hash(key) % self.before

    def new(self, key: bytes) -> int:
        """The lane of a key under the new layout."""
        return self.hash(key) % self.after


@dataclass(slots=True)
class Border:
    """One partition of an input, record by record in log order."""

    partition: int
    placing: Placing
    cut: int
    """Up to where it is to be taken under the old layout. Not further than must be: lanes would
    else come to different times, and bring forward those that they share keys with later."""
    old: int = 0
    """Records that only the old layout puts here."""
    first_new: int | None = None
    """Offset of the first record that only the new layout puts here."""

    def see(self, offset: int, key: bytes) -> None:
        """The next record."""
        old = self.placing.old(key) == self.partition
        new = self.placing.new(key) == self.partition
        if old and not new:
            self.old += 1
            self.cut = offset + 1
        elif new and not old and self.first_new is None:
            self.first_new = offset

    @property
    def mixed(self) -> bool:
        """Whether there are records of the old layout among those of the new one."""
        return self.first_new is not None and self.cut > self.first_new


def keyed(
    codec: Codec, limits: Limits, side: Side, records: Sequence[Read]
) -> Iterator[tuple[int, bytes]]:
    """(offset, key) of the records whose keys say where they belong.

    A WATERMARK speaks for its partition, whatever its key; what is not valid joins nowhere.
    """
    try:
        parts = codec.decode_batch(side, [record.value for record in records])
    except Unresolved:
        # Its schema is not known yet: where the record lies is all that is asked for.
        parts = None
    for at, record in enumerate(records):
        if record.key is None:
            continue
        if parts is None or _is_row(record, parts[at], limits):
            yield record.offset, record.key


def _is_row(record: Read, part: Parts | Fault, limits: Limits) -> bool:
    if isinstance(part, Fault):
        return False
    event = event_of(record.offset, record.key, part, None)
    return event.kind != Kind.WATERMARK and fault_of(event, limits) is None


def fitting(places: Collection[tuple[bytes, int]], partitions: int) -> list[str]:
    """The partitioners that put (nearly) all of these keys where they lie, by name."""
    known = [(key, at) for key, at in places if key]
    enough = len(known) * (1 - STRAYS_MAX)
    return [
        name
        for name, hash_of in PARTITIONERS.items()
        if sum([hash_of(key) % partitions == at for key, at in known]) >= enough
    ]
