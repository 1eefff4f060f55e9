"""Avro's numbers: zigzag, seven bits a byte, the lowest first.

Most numbers here are times, six bytes or more each, and consecutive times share all but their two
lowest bytes. So what follows those two is remembered, in both directions; the tables are emptied
when they are full. They are small on purpose: a look into a large one costs more than to compute,
for it takes the place of rows in the processor's cache. Invariant: with or without a remembered
part the result is the same.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

_SEVEN: Final = 127
_MORE: Final = 128
"""Set in every byte of a number but its last."""
_SHIFT_MAX: Final = 63
_UINT64_MAX: Final = 2**64 - 1
_INT_BYTES_MAX: Final = 5
_INT32_MIN: Final = -(2**31)

TIME_BYTES: Final = 6
"""A time in ms, of this century and the next."""
TIME_FORMAT: Final = "BBI"
"""Of a time: its two lowest bytes, and the rest."""
_FIRST_BITS: Final = 6
_FIRST_MASK: Final = 2**_FIRST_BITS - 1
"""What the lowest byte holds of a time, which has no sign."""
_LOW_BITS: Final = 13
_LOW_MASK: Final = 2**_LOW_BITS - 1
"""What the two lowest hold."""
_TIME: Final = Struct("<" + TIME_FORMAT)
_pack_times: Final = Struct("<" + 2 * TIME_FORMAT).pack
_REMEMBERED_MAX: Final = 4096

FIRSTS: Final = [
    (byte & _SEVEN) >> 1 if byte & _MORE and not byte & 1 else None for byte in range(256)
]
"""The lowest byte of a time -> what it stands for. None if it is the last byte, or that of a
negative number."""
SECONDS: Final = [(byte & _SEVEN) << 6 if byte & _MORE else None for byte in range(256)]
"""The second byte likewise."""
RESTS: Final[dict[int, int]] = {}
"""The next four bytes, as a little-endian number -> what they stand for; those that came by
lately."""
_firsts: Final = [bits << 1 | _MORE for bits in range(2**_FIRST_BITS)]
"""The other way: what the lowest byte stands for -> that byte."""
_seconds: Final = [bits | _MORE for bits in range(_MORE)]
_tails: Final[dict[int, int]] = {}
"""What is above the two lowest bytes -> the next four, if it is four."""


class Malformed(ValueError):
    """The bytes are no value of their type; the text says what is wrong with them."""


def encode_long(number: int) -> bytes:
    """An int64 as Avro writes it."""
    return _encode((number << 1) ^ (number >> 63))


def encode_times(start: int, end: int) -> bytes:
    """Two int64, one after the other; fastest for times in ms."""
    # Off a small number bits are taken three times faster than off a time.
    low, high = start & _LOW_MASK, end & _LOW_MASK
    try:
        return _pack_times(
            _firsts[low & _FIRST_MASK],
            _seconds[low >> _FIRST_BITS],
            _tails[start >> _LOW_BITS],
            _firsts[high & _FIRST_MASK],
            _seconds[high >> _FIRST_BITS],
            _tails[end >> _LOW_BITS],
        )
    except KeyError:
        encoded = encode_long(start), encode_long(end)
        for number, each in zip((start, end), encoded, strict=True):
            if number >= 0 and len(each) == TIME_BYTES:
                _remember(_tails, number >> _LOW_BITS, _TIME.unpack(each)[2])
        return b"".join(encoded)


def _remember(table: dict[int, int], key: int, value: int) -> None:
    if len(table) >= _REMEMBERED_MAX:
        table.clear()
    table[key] = value


def _encode(zigzag: int) -> bytes:
    encoded = bytearray()
    while zigzag > _SEVEN:
        encoded.append(zigzag & _SEVEN | _MORE)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def read_long(body: bytes, at: int) -> tuple[int, int]:
    """An int64 and the position after it.

    Raises Malformed where other readers may refuse it, too: more than ten bytes, or 64 bits.
    Raises IndexError where the bytes end first.
    """
    number = shift = 0
    while (byte := body[at]) > _SEVEN:
        number |= (byte & _SEVEN) << shift
        shift += 7
        at += 1
        if shift > _SHIFT_MAX:
            raise Malformed("a number takes more than ten bytes")
    number |= byte << shift
    if number > _UINT64_MAX:
        raise Malformed("a number takes more than 64 bits")
    return (number >> 1) ^ -(number & 1), at + 1


def read_int(body: bytes, at: int) -> tuple[int, int]:
    """An int32 and the position after it. Raises as `read_long` does."""
    number, after = read_long(body, at)
    if after - at > _INT_BYTES_MAX or not _INT32_MIN <= number < -_INT32_MIN:
        raise Malformed("a number takes more than 32 bits")
    return number, after


def read_time(body: bytes, at: int) -> tuple[int, int]:
    """Like `read_long`; also remembers the high bytes of a time for those that come after it."""
    number, after = read_long(body, at)
    if after - at == TIME_BYTES and number >= 0:
        rest = number >> _LOW_BITS << _LOW_BITS
        _remember(RESTS, _TIME.unpack_from(body, at)[2], rest)
    return number, after


def take_long(body: bytes, at: int, found: list[Any]) -> int:
    """Appends an int64, returns the position after it; fastest for a time in ms.

    Raises as `read_long` does.
    """
    if at + TIME_BYTES <= len(body):
        one, two, more = _TIME.unpack_from(body, at)
        first, second, rest = FIRSTS[one], SECONDS[two], RESTS.get(more)
        if first is not None and second is not None and rest is not None:
            found.append(first + second + rest)
            return at + TIME_BYTES
    number, after = read_time(body, at)
    found.append(number)
    return after
