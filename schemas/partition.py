"""Which lane a key belongs to, by the partitioners that clients of Kafka have by default.

Sources: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey` for
Java's; `rd_crc32` and `rd_fnv1a` in librdkafka, the latter as Sarama has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_FNV_PRIME: Final = 0x01000193
_FNV_OFFSET: Final = 0x811C9DC5


def lane_of(key: bytes, lanes: int) -> int:
    """The partition, from 0, that Java's default partitioner gives a key among `lanes`."""
    return (murmur2(key) & 0x7FFFFFFF) % lanes


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    length = len(data)
    value = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    tail = data[whole:]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def fnv1a(data: bytes) -> int:
    """The absolute value of the signed 32-bit FNV-1a hash."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return _MASK + 1 - value if value & _SIGN else value


PARTITIONERS: Final[Mapping[str, Callable[[bytes], int]]] = {
    "murmur2": lambda key: murmur2(key) & 0x7FFFFFFF,
    "crc32": crc32,
    "fnv1a": fnv1a,
}
"""Hashes by name: Java's default, librdkafka's, Sarama's. The partition is the remainder."""
