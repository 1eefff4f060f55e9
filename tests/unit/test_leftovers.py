"""Unread records of two numbers of partitions: which is which, and where one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from app.kafka.scan import Read
from app.leftovers import Border, Placing, fitting, keyed
from app.validity import limits_of
from schemas.codec import Unresolved
from schemas.partition import PARTITIONERS
from schemas.records import Fault, Kind, Reason, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACING: Final = Placing(lambda key: key[0], 2, 3)
"""Of partition 0: 0 is of both layouts; 2 and 4 only of the old one; 3 only of the new one."""
BOTH, OLD, NEW, NEITHER = b"\0", b"\2", b"\3", b"\1"


def border(*keys: bytes, start: int = 10) -> Border:
    found = Border(0, PLACING, start)
    for offset, key in enumerate(keys, start):
        found.see(offset, key)
    return found


@pytest.mark.parametrize(
    ("keys", "cut", "old", "mixed"),
    [
        ((), 10, 0, False),
        ((BOTH, BOTH), 10, 0, False),
        ((OLD, OLD), 12, 2, False),
        ((BOTH, OLD, BOTH, NEW, BOTH, NEW), 12, 1, False),
        ((NEW, BOTH), 10, 0, False),
        ((NEW, OLD), 12, 1, True),
        ((OLD, NEW, BOTH, OLD, NEW), 14, 2, True),
        ((NEITHER, OLD, NEITHER), 12, 1, False),
    ],
)
def test_the_cut(keys: tuple[bytes, ...], cut: int, old: int, *, mixed: bool) -> None:
    found = border(*keys)
    assert (found.cut, found.old, found.mixed) == (cut, old, mixed)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_partitioner_is_found(name: str) -> None:
    keys = [b"key-%d" % number for number in range(200)]
    places = [(key, PARTITIONERS[name](key) % 6) for key in keys]
    assert fitting(places, 6) == [name]
    strays = [(key, (at + 1) % 6) for key, at in places[:3]]
    assert fitting(strays + places[3:], 6) == [name], "some may be placed by their number"
    assert fitting([(key, number % 6) for number, key in enumerate(keys)], 6) == []


def test_one_partition_or_no_keys_tell_nothing() -> None:
    assert fitting([(b"a", 0), (b"b", 0)], 1) == list(PARTITIONERS)
    assert fitting([(b"", 3)], 4) == list(PARTITIONERS)


class Codec:
    def __init__(self, parts: Sequence[object] | Exception) -> None:
        self.parts = parts

    def decode_batch(self, _side: Side, _values: Sequence[bytes | None]) -> Sequence[object]:
        if isinstance(self.parts, Exception):
            raise self.parts
        return self.parts


def seen(codec: Codec, reads: list[Read]) -> list[int]:
    limits = limits_of(10, 50, None)
    return [offset for offset, _ in keyed(cast("Any", codec), limits, Side.LEFT, reads)]


def test_only_rows_say_where_their_keys_belong() -> None:
    """What will be rejected, and what speaks for a partition, may lie anywhere."""
    parts = [
        (5, 1, "a", 3, int(Kind.INSERT), b""),
        (5, 1, "a", 99, int(Kind.RETRACT), b""),
        (0, 0, "", 3, int(Kind.WATERMARK), b""),
        Fault(Reason.UNDECODABLE, "junk"),
        (1, 5, "a", 3, int(Kind.INSERT), b""),
        (5, 1, "a", 3, int(Kind.INSERT), b""),
    ]
    reads = [Read(0, offset, b"k", b"v") for offset in range(5)] + [Read(0, 5, None, b"v")]
    assert seen(Codec(parts), reads) == [0, 1]


def test_records_of_a_schema_that_is_not_known_yet_count_by_their_keys() -> None:
    reads = [Read(0, 0, b"k", b"v"), Read(0, 1, None, b"v")]
    assert seen(Codec(Unresolved.__new__(Unresolved)), reads) == [0]
