"""Which lane a key belongs to: the default partitioner of Kafka's Java clients (murmur2).

Source: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


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
