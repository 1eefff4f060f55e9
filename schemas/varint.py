"""Avro's numbers: zigzag, seven bits a byte, the lowest first.

Most numbers here are times, six bytes or more each, and consecutive times share all but their two
lowest bytes. So what follows those two is remembered, in both directions; the tables are emptied
when they are full. Invariant: with or without a remembered part the result is the same.
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
_LOW_BITS: Final = 14
_LOW_MASK: Final = 2**_LOW_BITS - 1
_FIRST_TWO: Final = _MORE | _MORE << 8 | 1
"""Bits of the first two bytes that say whether more follows, and the sign."""
_TIME: Final = Struct("<HI")
_REMEMBERED_MAX: Final = 4096

_LOWS: Final = [bytes([low & _SEVEN | _MORE, low >> 7 | _MORE]) for low in range(2**_LOW_BITS)]
"""The two lowest bytes of a number of more than two."""
_tails: Final[dict[int, bytes]] = {}

LOWS: Final = [
    (low & _SEVEN | low >> 8 << 7 & _LOW_MASK) >> 1
    if low & _FIRST_TWO == _MORE | _MORE << 8
    else None
    for low in range(2**16)
]
"""The two lowest bytes of a time, as a little-endian number -> what they stand for. None if they
are not the two lowest of more than two, or of a negative number."""
HIGHS: Final[dict[int, int]] = {}
"""The next four bytes likewise -> what they stand for; those that came by lately."""


class Malformed(ValueError):
    """The bytes are no value of their type; the text says what is wrong with them."""


def encode_long(number: int) -> bytes:
    """An int64 as Avro writes it."""
    zigzag = (number << 1) ^ (number >> 63)
    high = zigzag >> _LOW_BITS
    if high == 0:
        return _encode(zigzag)
    tail = _tails.get(high)
    if tail is None:
        if len(_tails) >= _REMEMBERED_MAX:
            _tails.clear()
        tail = _tails[high] = _encode(high)
    return _LOWS[zigzag & _LOW_MASK] + tail


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
        if len(HIGHS) >= _REMEMBERED_MAX:
            HIGHS.clear()
        HIGHS[_TIME.unpack_from(body, at)[1]] = number >> _LOW_BITS - 1 << _LOW_BITS - 1
    return number, after


def take_long(body: bytes, at: int, found: list[Any]) -> int:
    """Appends an int64, returns the position after it; fastest for a time in ms.

    Raises as `read_long` does.
    """
    if at + TIME_BYTES <= len(body):
        low, high = _TIME.unpack_from(body, at)
        first, rest = LOWS[low], HIGHS.get(high)
        if first is not None and rest is not None:
            found.append(first + rest)
            return at + TIME_BYTES
    number, after = read_time(body, at)
    found.append(number)
    return after
