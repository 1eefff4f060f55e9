"""Which rows of one side of a window share a moment with an interval.

Rows that overlap [start, end] end at `start` or later; of a shelf, whose longest is known, in
[start, end + longest]. Intervals are inclusive.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

from state.keys import LIVE, Row

if TYPE_CHECKING:
    from state.side import Rows


def overlapping(side: Rows, start: int, end: int) -> list[Row]:
    """The live rows that share a moment with [start, end], both inclusive."""
    found: list[Row] = []
    if side.shelves is None:
        for row in reversed(side.values()):
            if row[0] < start:
                break
            if row[1] <= end and row[4] == LIVE:
                found.append(row)
        return found
    for shelf in side.shelves:
        rows = shelf.rows
        if rows[-1][0] < start:
            continue
        at = bisect_left(rows, (start,))
        reach = end + shelf.longest
        if rows[at][0] <= reach:
            after = bisect_left(rows, (reach + 1,), at)
            found += [row for row in rows[at:after] if row[1] <= end and row[4] == LIVE]
    return found


def meets(side: Rows, start: int, end: int, longest: int) -> bool:
    """Whether a live row shares a moment with [start, end]; none is longer than `longest`.

    Asked of old rows mostly, so it begins with the oldest where `overlapping` begins with the
    newest.
    """
    if side.shelves is None:
        reach = end + longest
        for row in side.values():
            if row[0] > reach:
                break
            if row[0] >= start and row[1] <= end and row[4] == LIVE:
                return True
        return False
    for shelf in side.shelves:
        rows = shelf.rows
        at = bisect_left(rows, (start,))
        after = bisect_left(rows, (end + shelf.longest + 1,), at)
        if any(row[1] <= end and row[4] == LIVE for row in islice(rows, at, after)):
            return True
    return False
