"""Avro matches by concatenation: a header, two longs, and the two inputs' bodies as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.interface import Pieces
from schemas.varint import encode_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Concatenation:
    """The `match_value` of a codec whose matches are concatenated: it is called like a function.

    `headers`: the headers of both inputs, one after the other -> the match's; the codec may add to
    it. `marks`: what stands before the body of each side. `unknown` says what to raise where there
    is no header for two inputs.
    """

    __slots__ = ("pieces", "unknown")

    def __init__(
        self,
        headers: dict[bytes, bytes],
        header_size: int,
        marks: Sequence[bytes],
        unknown: Callable[[bytes, bytes], Exception],
    ) -> None:
        self.pieces = Pieces(headers, header_size, *marks)
        self.unknown = unknown

    def __call__(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """The match of these two inputs (Kafka values as they came), overlapping so."""
        headers, size, left_mark, right_mark = self.pieces
        header = headers.get(left[:size] + right[:size])
        if header is None:
            raise self.unknown(left, right)
        times = encode_times(start, end)
        return b"".join((header, times, left_mark, left[size:], right_mark, right[size:]))
