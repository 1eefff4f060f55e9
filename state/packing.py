"""The rows of a turn as one flat array of bytes, which is how they travel in the changelog.

    count (4) | for each row: length of its key (4), of its value (4) | for each: key, value

Numbers are little-endian. Rows stand in the order of their keys: that is what makes both the
changelog and its replay cheap.
"""

from __future__ import annotations

from itertools import chain
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from typing import TYPE_CHECKING, Final

from native import loops
from state.avro import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_COUNT: Final = Struct("<I")
_LENGTHS_BYTES: Final = 8
"""Of one row: the lengths of its key and of its value, uint32 each."""


def pack_rows(rows: Mapping[bytes, bytes]) -> bytes:
    """All rows as one array, sorted by key; empty for none."""
    packed = loops.pack(rows) if loops is not None and type(rows) is dict else None
    return packed or (_pack(sorted(rows), rows) if rows else b"")


def pack_runs(rows: Mapping[bytes, bytes], bytes_max: int) -> list[bytes]:
    """The same in arrays of up to `bytes_max`, or of one row; none for no rows."""
    return [_pack(keys, rows) for keys in _runs(rows, bytes_max)]


def count_rows(packed: bytes) -> int:
    """How many rows are packed here. Raises Unreadable where `unpack_rows` would."""
    return len(_lengths(packed)) // 2


def unpack_rows(packed: bytes) -> list[tuple[bytes, bytes]]:
    """The (row key, row value) pairs, sorted by key. Raises Unreadable."""
    rows = None if loops is None else loops.unpack(packed)
    return list(_unpacked(packed)) if rows is None else rows


def _unpacked(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    lengths = _lengths(packed)
    at = _COUNT.size + _LENGTHS_BYTES // 2 * len(lengths)
    pairs = iter(lengths)
    for key_length, value_length in zip(pairs, pairs, strict=True):
        value_at = at + key_length
        end = value_at + value_length
        yield packed[at:value_at], packed[value_at:end]
        at = end


def _runs(rows: Mapping[bytes, bytes], bytes_max: int) -> Iterator[list[bytes]]:
    """The sorted row keys in runs whose packed rows take up to `bytes_max`, or of one row."""
    run: list[bytes] = []
    size = _COUNT.size
    for key in sorted(rows):
        added = _LENGTHS_BYTES + len(key) + len(rows[key])
        if run and size + added > bytes_max:
            yield run
            run, size = [], _COUNT.size
        run.append(key)
        size += added
    if run:
        yield run


def _lengths(packed: bytes) -> tuple[int, ...]:
    """Of each row in turn, the lengths of its key and of its value."""
    if not packed:
        return ()
    try:
        (count,) = _COUNT.unpack_from(packed)
        lengths = unpack_from(f"<{2 * count}I", packed, _COUNT.size)
    except StructError as error:
        raise Unreadable(f"damaged rows: {error}") from error
    size = _COUNT.size + _LENGTHS_BYTES * count + sum(lengths)
    if size != len(packed):
        raise Unreadable(f"damaged rows: {len(packed)} bytes instead of {size}")
    return lengths


def _pack(keys: Sequence[bytes], rows: Mapping[bytes, bytes]) -> bytes:
    parts = list(chain.from_iterable(zip(keys, map(rows.__getitem__, keys), strict=True)))
    return _COUNT.pack(len(keys)) + pack(f"<{len(parts)}I", *map(len, parts)) + b"".join(parts)
