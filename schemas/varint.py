"""Avro's numbers: zigzag, seven bits a byte, the lowest first.

Most numbers here are times, six bytes or more each, and consecutive times share all but their two
lowest bytes. So what follows those two is remembered, in both directions; the tables are emptied
when they are full. Invariant: with or without a remembered part the result is the same.
"""

from __future__ import annotations

from typing import Any, Final

_SEVEN: Final = 127
_MORE: Final = 128
"""Set in every byte of a number but its last."""
_SHIFT_MAX: Final = 63
_UINT64_MAX: Final = 2**64 - 1
_INT_BYTES_MAX: Final = 5
_INT32_MIN: Final = -(2**31)

_TIME_BYTES: Final = 6
"""A time in ms, of this century and the next."""
_LOW_BITS: Final = 14
_LOW_MASK: Final = 2**_LOW_BITS - 1
_LOW_MORE: Final = _MORE | _MORE << 7
_REMEMBERED_MAX: Final = 4096

_LOWS: Final = [bytes([low & _SEVEN | _MORE, low >> 7 | _MORE]) for low in range(2**_LOW_BITS)]
"""The two lowest bytes of a number of more than two."""
_tails: Final[dict[int, bytes]] = {}
_highs: Final[dict[bytes, int]] = {}


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


def take_long(body: bytes, at: int, found: list[Any]) -> int:
    """Appends an int64, returns the position after it; fastest for a time in ms.

    Raises as `read_long` does.
    """
    low = body[at]
    high = _highs.get(body[at + 2 : at + _TIME_BYTES])
    if high is not None and low > _SEVEN < body[at + 1]:
        zigzag = low + (body[at + 1] << 7) + high
        found.append((zigzag >> 1) ^ -(zigzag & 1))
        return at + _TIME_BYTES
    number, after = read_long(body, at)
    found.append(number)
    if after - at == _TIME_BYTES:
        if len(_highs) >= _REMEMBERED_MAX:
            _highs.clear()
        zigzag = (number << 1) ^ (number >> 63)
        # Less what marks that more follows in the two bytes that will be added to it.
        _highs[body[at + 2 : after]] = (zigzag >> _LOW_BITS << _LOW_BITS) - _LOW_MORE
    return after
