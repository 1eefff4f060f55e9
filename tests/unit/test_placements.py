"""A worker says by itself, and once, that equal keys of both sides do not meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest
from structlog.testing import capture_logs

from app.errors import UsageError
from app.placements import JUDGED_AT, KEY_BYTES_MAX, KEYS_ENOUGH, KEYS_PER_BATCH, Placements
from schemas.partition import lane_of
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Callable

LANES: Final = 4


def java(key: bytes) -> int:
    return lane_of(key, LANES)


def librdkafka(key: bytes) -> int:
    return crc32(key) % LANES


def lines(left: Callable[[bytes], int], right: Callable[[bytes], int], keys: int) -> list[str]:
    placements = Placements(LANES, "any")
    with capture_logs() as told:
        for number in range(keys):
            key = b"key-%d" % number
            placements.look(Side.LEFT, left(key), [key])
            placements.look(Side.RIGHT, right(key), [key])
    return [line["event"] for line in told]


def test_different_partitioners_are_told_once_there_are_enough_keys() -> None:
    assert lines(java, librdkafka, KEYS_ENOUGH - 1) == []
    (line,) = lines(java, librdkafka, 5 * KEYS_ENOUGH)
    assert "left was written with murmur2 (Java's default), right with CRC32" in line


def test_they_are_refused_unless_that_is_known() -> None:
    """As soon as it is certain, whether the sides have keys in common or not."""
    placements = Placements(LANES)
    for number in range(JUDGED_AT[0] - 1):
        placements.look(Side.LEFT, java(key := b"left-%d" % number), [key])
    for number in range(JUDGED_AT[0]):
        placements.look(Side.RIGHT, librdkafka(key := b"right-%d" % number), [key])
    with pytest.raises(UsageError, match=r"left was written with murmur2 .*, right with CRC32"):
        placements.look(Side.LEFT, java(b"the last"), [b"the last"])


def test_what_is_not_certain_is_not_refused() -> None:
    def anyhow(key: bytes) -> int:
        return sum(key) % LANES

    def mixed(key: bytes) -> int:
        return (java if sum(key) % 2 else librdkafka)(key)

    for other in (anyhow, mixed, java):
        placements = Placements(LANES)
        for number in range(2 * KEYS_ENOUGH):
            key = b"key-%d" % number
            placements.look(Side.LEFT, java(key), [key])
            placements.look(Side.RIGHT, other(key), [key])
    # In one partition all keys meet.
    single = Placements(1)
    for number in range(2 * KEYS_ENOUGH):
        for side in Side:
            single.look(side, 0, [b"%d" % number])


def test_nothing_is_told_of_sides_that_meet() -> None:
    assert lines(java, java, 2 * KEYS_ENOUGH) == []
    assert lines(librdkafka, librdkafka, 2 * KEYS_ENOUGH) == []
    # Whoever places keys otherwise, but both sides alike.
    assert lines(lambda key: sum(key) % LANES, lambda key: sum(key) % LANES, 2 * KEYS_ENOUGH) == []


def test_keys_that_say_nothing_are_passed_over() -> None:
    placements = Placements(LANES)
    placements.look(Side.LEFT, 0, [None, b"", b"x" * (KEY_BYTES_MAX + 1)])
    assert placements._seen == (set(), set())
    placements.look(Side.LEFT, 0, [b"%d" % number for number in range(1_000)])
    assert len(placements._seen[Side.LEFT]) == KEYS_PER_BATCH
