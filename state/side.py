"""One side of a window: the rows of a join key in memory, whatever their state.

It is a dictionary of rows by id. Of a few rows a probe for [start, end] looks at each: that is
quicker than any order among them, and touches the least memory, which is what a probe costs. A
side of more rows keeps them on *shelves*, too, one per power-of-two class of interval length, each
sorted by end: rows of a shelf that overlap [start, end] end in [start, end + the shelf's longest].
So cost follows the matches, not the max interval and not the state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter
from typing import Final

from state.keys import Row

# What a row costs in CPython on 64 bits beyond the bytes of its value: row tuple, numbers, id,
# header of the value and dictionary entry. Measured, see tests/unit/test_window.py; raw bytes are a
# quarter of the truth.
ROW_COST: Final = 330

NEVER: Final = -(2**80)
"""Before every time."""
INFINITY: Final = 2**80
FEW: Final = 16
"""A side of up to so many rows needs no shelves."""


class Shelf:
    """Rows of one side whose interval lengths have the same number of bits, by end."""

    __slots__ = ("bits", "longest", "rows")

    def __init__(self, row: Row) -> None:
        self.longest = row[0] - row[1]
        self.bits = self.longest.bit_length()
        self.rows = [row]


class Rows(dict[str | Row, Row]):
    """One side of a window: its rows, whatever their state.

    Under an id stands its newest row; an older one, which has expired, stands under itself. As
    long as there are no more than FEW they are in order of their ends, of which `last` is the
    greatest, and `shelves` is None. `used` since eviction last looked.
    """

    __slots__ = ("last", "shelves", "used")

    def __init__(self) -> None:
        self.last = NEVER
        self.shelves: list[Shelf] | None = None
        self.used = True


def put(side: Rows, row: Row) -> None:
    """Adds a row; if there is one of the same id already, that one has expired."""
    row_id = row[2]
    if row_id in side:
        expired = side.pop(row_id)
        side[expired] = expired
        side.last = INFINITY
    side[row_id] = row
    arrange(side, row)


def arrange(side: Rows, row: Row) -> None:
    """Puts a row that was just added into its place: among few, or on its shelf among many."""
    if side.shelves is not None:
        _stand(side.shelves, row)
    elif len(side) > FEW:
        side.shelves = []
        for each in side.values():
            _stand(side.shelves, each)
    elif row[0] >= side.last:
        side.last = row[0]
    else:
        in_order = sorted(side.items(), key=_second)
        side.clear()
        side.update(in_order)
        side.last = in_order[-1][1][0]


def _stand(shelves: list[Shelf], row: Row) -> None:
    length = row[0] - row[1]
    bits = length.bit_length()
    for shelf in shelves:
        if shelf.bits == bits:
            if length > shelf.longest:  # noqa: PLR1730 - a call costs more than all the rest
                shelf.longest = length
            rows = shelf.rows
            if rows[-1] < row:  # Most rows come about in order of time.
                rows.append(row)
            else:
                insort(rows, row)
            return
    shelves.append(Shelf(row))


def replace(side: Rows, row: Row, flags: int, value: bytes) -> Row:
    """Gives the newest row of an id other flags and another value; returns what it is then."""
    changed: Row = (*row[:4], flags, value)
    side[row[2]] = changed
    if side.shelves is not None:
        bits = (row[0] - row[1]).bit_length()
        rows = next(shelf.rows for shelf in side.shelves if shelf.bits == bits)
        at = bisect_left(rows, row)
        assert rows[at] is row, "a row stands on the shelf of its length"
        rows[at] = changed  # Its place stays: end, start and id decide.
    return changed


def retire(side: Rows, row: Row, flags: int) -> Row:
    """Makes a live row one that never matches again; returns what it is from now on."""
    return replace(side, row, flags, b"")


def cost_of(row: Row) -> int:
    """What a row takes in memory, in bytes."""
    return ROW_COST + len(row[5])


def trim(side: Rows, bound: int) -> int:
    """Drops the rows that end before `bound`; returns the bytes freed."""
    names: list[str | Row] = []
    if side.shelves is None:
        for name, row in side.items():
            if row[0] >= bound:
                break
            names.append(name)
    else:
        for shelf in side.shelves:
            cut = bisect_left(shelf.rows, (bound,))
            names += [row[2] if side.get(row[2]) is row else row for row in shelf.rows[:cut]]
            del shelf.rows[:cut]
        side.shelves = [shelf for shelf in side.shelves if shelf.rows]
    freed = len(names) * ROW_COST
    for name in names:
        freed += len(side.pop(name)[5])
    if side.shelves is not None and len(side) <= FEW:
        side.shelves = None
        rows = sorted(side.items(), key=_second)
        side.clear()
        side.update(rows)
        side.last = rows[-1][1][0] if rows else NEVER
    return freed


_second: Final = itemgetter(1)
