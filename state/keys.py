"""Keys and values of stored rows.

    key   = 01 | bucket (8) | side (1) | key length (4) | key | end (8) | start (8) | id (UTF-8)
    value = flags (1) | ts (8) | the input's Kafka value, framing included

All numbers are big-endian; int64 is written as offset binary (plus 2**63), so that bytes sort as
numbers do. Invariant: byte order of row keys == order of the tuples (bucket, side, key length,
key, end, start, id): a bucket is one contiguous range, and so is a key of one side in it.

A retracted or remembered row keeps no input bytes: nothing will ever match it again.
"""

from __future__ import annotations

from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from xxhash import xxh3_64_intdigest

from native import loops
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROW: Final = b"\x01"
"""First byte of every row key; the store keeps its own entries elsewhere."""

LIVE: Final = 0
RETRACTED: Final = 1
REMEMBERED: Final = 2
"""A retraction that waits for its insert, under the interval it carried."""
MET: Final = REMEMBERED | RETRACTED
"""A remembered retraction whose insert came, and was ignored."""

DIGEST_MODULUS: Final = 2**64

Row = tuple[int, int, str, int, int, bytes]
"""(end, start, id, ts, flags, value): a row but for its side and key. Sorts by end, then start,
then id. A plain tuple is made and compared several times faster than a named one, and rows are
what the hot path is made of."""

StoredRow = tuple[int, int, bytes, Row]
"""(bucket, side, key, row): a row with all that its key in the store says."""

_OFFSET: Final = 2**63
_BUCKET: Final = Struct(">cQ")
_OWNER: Final = Struct(">BI")
PREFIX_SIZE: Final = _BUCKET.size
"""Bytes at the front of a row key that name its bucket."""
_LENGTH: Final = Struct(">I")
_TIME: Final = Struct(">Q")
RUN_TAIL: Final = _TIME.size
"""Bytes that `run_first` has behind the prefix."""
_INTERVAL: Final = Struct(">QQ")
_VALUE: Final = Struct(">BQ")
VALUE_HEAD_SIZE: Final = _VALUE.size
"""Bytes in front of the input's in a row value."""
KEY_AT: Final = _BUCKET.size + _OWNER.size
LENGTH_AT: Final = KEY_AT - _LENGTH.size
INTERVAL_SIZE: Final = _INTERVAL.size
"""Where in a row key the join key begins, and its length; the bytes of end and start after it."""
_FLAGS: Final = [bytes([flags]) for flags in (LIVE, RETRACTED, REMEMBERED, MET)]


class RowKey(NamedTuple):
    """The parts of a row key, in the order in which they sort but for the key's length."""

    bucket: int
    side: Side
    key: bytes
    end: int
    start: int
    id: str


def bucket_prefix(bucket: int) -> bytes:
    """What every row key of this bucket begins with."""
    return _BUCKET.pack(ROW, bucket + _OFFSET)


def window_prefix(bucket: int, side: int, key: bytes) -> bytes:
    """What the row keys of one join key, on one side and in one bucket, begin with."""
    return bucket_prefix(bucket) + _OWNER.pack(side, len(key)) + key


def run_first(bucket: int, side: int, key: bytes, end: int) -> bytes:
    """Not behind any row key of this join key, side and bucket whose row ends at `end` or later.

    All but the last RUN_TAIL bytes of it are their `window_prefix`.
    """
    return window_prefix(bucket, side, key) + _TIME.pack(end + _OFFSET)


def row_key(bucket: int, side: int, key: bytes, end: int, start: int, row_id: str) -> bytes:
    """The store's key of one row."""
    interval = _INTERVAL.pack(end + _OFFSET, start + _OFFSET)
    return window_prefix(bucket, side, key) + interval + row_id.encode()


def parse_row_key(row_key: bytes) -> RowKey:
    """The parts of a row key. Raises ValueError or struct.error for anything else."""
    marker, bucket = _BUCKET.unpack_from(row_key)
    if marker != ROW:
        raise ValueError(f"not a row key: {row_key[:16]!r}...")
    side, length = _OWNER.unpack_from(row_key, PREFIX_SIZE)
    tail_at = KEY_AT + length
    end, start = _INTERVAL.unpack_from(row_key, tail_at)
    return RowKey(
        bucket - _OFFSET,
        Side(side),
        row_key[KEY_AT:tail_at],
        end - _OFFSET,
        start - _OFFSET,
        row_key[tail_at + _INTERVAL.size :].decode(),
    )


def bucket_range(bucket: int) -> tuple[bytes, bytes]:
    """The bucket's rows are exactly those keys k with first <= k < second."""
    first, after = bucket_prefix(bucket), bucket + _OFFSET + 1
    if after == 2 * _OFFSET:  # The last bucket there can be: its end is the end of all rows.
        return first, bytes([ROW[0] + 1])
    return first, _BUCKET.pack(ROW, after)


def row_value(flags: int, ts: int, value: bytes) -> bytes:
    """The store's value of one row: its flags, its event time, the input's bytes."""
    return _VALUE.pack(flags, ts + _OFFSET) + value


def row_size(key: bytes, row_id: str, value: bytes) -> int:
    """Bytes of a row's key and value together."""
    return KEY_AT + len(key) + _INTERVAL.size + len(row_id.encode()) + _VALUE.size + len(value)


def encode_rows(bucket: int, side: int, rows: Iterable[tuple[bytes, Row]]) -> dict[bytes, bytes]:
    """`row_value` by `row_key` of many (key, row) of one bucket and side, made faster; sorted."""
    prefix = bucket_prefix(bucket) + bytes([side])
    pack_length, pack_interval, pack_value = _LENGTH.pack, _INTERVAL.pack, _VALUE.pack
    offset = _OFFSET
    encoded: dict[bytes, bytes] = {}
    for key, (end, start, row_id, ts, flags, value) in rows:
        interval = pack_interval(end + offset, start + offset)
        name = b"".join((prefix, pack_length(len(key)), key, interval, row_id.encode()))
        encoded[name] = pack_value(flags, ts + offset) + value
    names = sorted(encoded)
    return dict(zip(names, map(encoded.__getitem__, names), strict=True))


def parse_rows(entries: Iterable[tuple[bytes, bytes]]) -> list[StoredRow]:
    """What stored entries say, made faster; quickest in the store's order.

    Raises ValueError, struct.error for what are no rows.
    """
    entries = list(entries)
    rows = None if loops is None else loops.parse(entries)
    return list(_parsed(entries)) if rows is None else rows


def _parsed(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[StoredRow]:
    length_of, interval_of, head_of = (
        _LENGTH.unpack_from,
        _INTERVAL.unpack_from,
        _VALUE.unpack_from,
    )
    length_at = PREFIX_SIZE + 1
    offset, prefix, bucket, side = _OFFSET, b"", 0, 0
    for row_key, row_value in rows:
        if row_key[:length_at] != prefix:
            bucket, side, *_ = parse_row_key(row_key)
            prefix = row_key[:length_at]
        (length,) = length_of(row_key, length_at)
        interval_at = KEY_AT + length
        end, start = interval_of(row_key, interval_at)
        flags, ts = head_of(row_value)
        row_id = row_key[interval_at + _INTERVAL.size :].decode()
        row = (end - offset, start - offset, row_id, ts - offset, flags, row_value[_VALUE.size :])
        yield bucket, side, row_key[KEY_AT:interval_at], row


def parse_row_value(row_value: bytes) -> tuple[int, int, bytes]:
    """(ts, flags, the input's bytes), as in `Row`. Raises struct.error when too short."""
    flags, ts = _VALUE.unpack_from(row_value)
    return ts - _OFFSET, flags, row_value[_VALUE.size :]


def tally(entries: list[tuple[bytes, bytes]]) -> Iterator[tuple[int, int, int, int]]:
    """(bucket, rows, bytes, digest) of stored entries, which are in their order.

    A digest is that of `rows_digest`, over all flags. Raises LookupError, ValueError, struct.error
    for what are no rows.
    """
    buckets = None if loops is None else loops.tally(entries)
    for bucket, size, hashed in _tallied(entries) if buckets is None else buckets:
        yield bucket, len(hashed), size, sum(map(xxh3_64_intdigest, hashed))


def _tallied(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[int, int, list[bytes]]]:
    for _, group in groupby(entries, key=lambda entry: entry[0][:PREFIX_SIZE]):
        rows = list(group)
        size = sum(len(name) + len(value) for name, value in rows)
        hashed = [name + _FLAGS[value[0]] for name, value in rows]
        yield parse_row_key(rows[0][0]).bucket, size, hashed


def rows_digest(row_keys: Iterable[bytes], flags: int) -> int:
    """Sum of 64-bit hashes of these rows' keys and their flags; not yet reduced.

    A bucket's digest is this sum over all its rows modulo DIGEST_MODULUS. Ids are not used twice,
    so key and flags stand for the row: hashing the input's bytes too would cost more than it
    could find.
    """
    suffix = _FLAGS[flags]
    return sum(map(xxh3_64_intdigest, [row_key + suffix for row_key in row_keys]))
