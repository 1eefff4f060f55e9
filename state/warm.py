"""The windows of a whole lane at once, from all of its stored rows, before its first turn.

A lane that was just restored has none of its rows in memory, and to read them back key by key costs
the store some seeks for each: 100 us and more, where a row that is read in its order costs two or
three. A lane that was handed over would fall behind for seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.keys import parse_rows
from state.side import ROW_COST
from state.window import WINDOW_COST, place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.window import Window


def warm_bytes(rows: int, size: int) -> int:
    """What so many rows, of so many bytes in the store, take in memory at most."""
    return rows * (ROW_COST + WINDOW_COST) + size


class Warm:
    """Windows that hold all rows that were added."""

    __slots__ = ("costs", "table")

    def __init__(self) -> None:
        self.table: dict[bytes, Window] = {}
        self.costs: dict[int, int] = {}
        """Per bucket, what its rows cost."""

    def add(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """The next rows, in the store's order. Raises ValueError, struct.error for damage."""
        for bucket, cost in place(self.table, parse_rows(rows)).items():
            self.costs[bucket] = self.costs.get(bucket, 0) + cost
