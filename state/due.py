"""The index of an outer join's store: the preserved sides' rows in the order of their ends.

    entry = 02 | end (8) | side (1) | key length (4) | key | end (8) | start (8) | id (UTF-8)

That is the row's key as it would be if every moment were a bucket of its own. A row is *due* once
nothing can match it any more; rows become due in the order of the index, so those that became due
since the last look are one range of it, however large the state is.

Invariant: there is an entry for every stored row of a preserved side, and no other: it is made
from the row's key wherever a row is written, and goes with the row's bucket. Whether the row was
retracted meanwhile, the row itself tells.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from schemas.records import INT64_MAX, INT64_MIN, JoinType, Side
from state.keys import (
    INTERVAL_SIZE,
    KEY_AT,
    LENGTH_AT,
    PREFIX_SIZE,
    ROW,
    row_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from state.checkpoint import Layout

DUE: Final = b"\x02"
"""First byte of every entry."""

INDEX_END: Final = b"\x03"
"""Above every entry."""

_END: Final = Struct(">Q")
_OFFSET: Final = -INT64_MIN
_LENGTH: Final = Struct(">I")
_INTERVAL: Final = Struct(">QQ")


def indexed_sides(layout: Layout | None) -> tuple[Side, ...]:
    """The sides whose rows a store of this layout has in its index; none for an inner join."""
    return () if layout is None else JoinType(layout.join_type).preserved


def entries_of(row_keys: Iterable[bytes], sides: Sequence[Side]) -> list[bytes]:
    """The entries of those of the rows that are of these sides, sorted."""
    entries: list[bytes] = []
    for name in row_keys if sides else ():
        if name[PREFIX_SIZE] in sides:
            (length,) = _LENGTH.unpack_from(name, LENGTH_AT)
            end_at = KEY_AT + length
            end = name[end_at : end_at + INTERVAL_SIZE // 2]
            entries.append(b"".join((DUE, end, name[PREFIX_SIZE:])))
    entries.sort()
    return entries


def entry_of(side: int, key: bytes, end: int, start: int, row_id: str) -> bytes:
    """The entry of one row."""
    return DUE + row_key(end, side, key, end, start, row_id)[len(ROW) :]


def parse_entries(entries: Iterable[bytes]) -> Iterator[tuple[int, bytes, int, int, str]]:
    """(side, key, end, start, id) of each entry, which must be one."""
    unpack_length, unpack_interval = _LENGTH.unpack_from, _INTERVAL.unpack_from
    for entry in entries:
        (length,) = unpack_length(entry, LENGTH_AT)
        end_at = KEY_AT + length
        end, start = unpack_interval(entry, end_at)
        row_id = entry[end_at + INTERVAL_SIZE :].decode()
        yield entry[PREFIX_SIZE], entry[KEY_AT:end_at], end - _OFFSET, start - _OFFSET, row_id


def first_entry(end: int) -> bytes:
    """Exactly the rows that end before `end` have entries below this."""
    return DUE + _END.pack(max(INT64_MIN, min(end, INT64_MAX)) + _OFFSET)


def end_of(entry: bytes) -> int:
    """The end of an entry's row."""
    (end,) = _END.unpack_from(entry, len(DUE))
    return int(end) - _OFFSET


def entry_range(bucket: int, span: int) -> tuple[bytes, bytes]:
    """The entries of a bucket's rows are exactly those e with first <= e < second."""
    return first_entry(bucket * span), first_entry((bucket + 1) * span)
