"""Windows: the rows of a join key in memory, both sides, in front of the store.

A side is a dictionary of rows by id. Of a few rows a probe for [start, end] looks at each: that is
quicker than any order among them, and touches the least memory, which is what a probe costs. A
side of more rows keeps them on *shelves*, too, one per power-of-two class of interval length, each
sorted by end: rows of a shelf that overlap [start, end] end in [start, end + the shelf's longest].
So cost follows the matches, not the max interval and not the state.

Invariants:
* A window holds all rows of its key that the store holds (or will, when the turn commits). It is
  changed by a turn only; after an abort it is forgotten, and the store has the committed truth.
* A window may also hold rows that the store has dropped or may drop: being past its horizon is a
  formula of the caller, so a row that lingers changes no result. They are trimmed many at a time.
* A key that is not in memory has stored rows in `cold` buckets only, unless it was forgotten. When
  nothing is cold or forgotten, memory is the whole state (`resident`); as long as nothing is cold a
  new key costs no look into the store.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from schemas.records import Side
from state.keys import Row

if TYPE_CHECKING:
    from state.checkpoint import Bucket

StoredRow = tuple[Side, int, int, str, int, int, bytes]
"""What the store gives back: the side in front of a row."""

Load = Callable[[Sequence[int], bytes], Iterable[StoredRow]]
"""(buckets, key) -> every stored row of that key, of both sides, in those buckets, any order."""

# What a row and a window cost in CPython on 64 bits beyond the bytes of the row's value: row tuple,
# numbers, id, header of the value and dictionary entry; window and its two sides, table entry.
# Measured, see tests/unit/test_window.py; raw bytes are a quarter of the truth.
ROW_COST: Final = 330
WINDOW_COST: Final = 560

NEVER: Final = -(2**80)
"""Before every time."""
INFINITY: Final = 2**80
FEW: Final = 16
"""A side of up to so many rows needs no shelves."""
EXPIRED_SHARE_MAX: Final = 0.5
"""Part of all rows' cost that rows past their horizon may take before they are trimmed."""
TRIMMED_MAX: Final = 20_000
"""Windows looked at and rows freed after one turn, together: about 20 ms. More than a turn can add;
the rest waits for the next turn, harmlessly."""


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


Window = tuple[Rows, Rows]
"""Both sides of one join key."""


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


class Windows:
    """The windows of a lane, loaded on first touch. Not thread-safe; owned by its lane.

    `table` is read directly by the turn's inner loop; everything else goes through methods.
    `buckets` is the lane's committed directory, shared and only read. `size` estimates the bytes
    that the windows take in memory.
    """

    __slots__ = ("_bound", "_costs", "_counts", "_expired_cost", "_load", "_missing", "_opened",
                 "_untrimmed", "buckets", "cold", "size", "span", "table")  # fmt: skip

    def __init__(self, load: Load, buckets: Mapping[int, Bucket], span: int) -> None:
        self._load = load
        self.buckets = buckets
        self.span = span
        self.table: dict[bytes, Window] = {}
        self.size = 0
        self.cold = sorted(buckets)
        self._missing: set[bytes] = set()
        """Keys of windows that were forgotten, whatever `cold` says."""
        self._costs: dict[int, int] = {}
        """Per bucket, what its rows cost."""
        self._counts = [0, 0]
        """Windows opened, and those of them read from the store, since they were last asked for."""
        self._expired_cost = 0
        """What the rows cost whose buckets have been dropped since trimming last began."""
        self._bound = 0
        """Expired rows end before it."""
        self._opened: list[bytes] = []
        self._untrimmed: list[bytes] = []
        """Keys whose windows are yet to be trimmed."""

    def adopt(self, table: dict[bytes, Window], costs: dict[int, int]) -> None:
        """Begin with windows that together hold every stored row; `costs` of them by bucket."""
        assert not self.table, "the first windows of a lane"
        self.table, self._costs, self.cold = table, costs, []
        self.size = sum(costs.values()) + len(table) * WINDOW_COST

    @property
    def resident(self) -> bool:
        """Whether memory holds every stored row, so that an unknown key has none."""
        return not (self.cold or self._missing)

    def open(self, key: bytes) -> Window:
        """The window of a key that is not in memory."""
        window = self.table[key] = Rows(), Rows()
        self._opened.append(key)
        self.size += WINDOW_COST
        self._counts[0] += 1
        if self.cold or self._missing:
            self._counts[1] += 1
            for side, row in self._stored(key):
                put(window[side], row)
                self.enter(row[0] // self.span, cost_of(row))
            self._missing.discard(key)
        return window

    def drain_counts(self) -> tuple[int, int]:
        """Windows opened, and those of them that the store was asked for, since the last call."""
        opened, loaded = self._counts
        self._counts = [0, 0]
        return opened, loaded

    def peek(self, key: bytes) -> Window:
        """The window of a key to look at, between turns; one that is not in memory is not kept."""
        window = self.table.get(key)
        if window is None:
            window = Rows(), Rows()
            for side, row in self._stored(key):
                put(window[side], row)
        return window

    def _stored(self, key: bytes) -> list[tuple[Side, Row]]:
        """Every stored row of a key that memory may lack.

        By end, so that of two rows of one id the newer is the one its id names.
        """
        buckets = sorted(self.buckets) if key in self._missing else self.cold
        stored = self._load(buckets, key) if buckets else ()
        return [(one[0], one[1:]) for one in sorted(stored, key=_second)]

    def enter(self, bucket: int, cost: int) -> None:
        """Notes that windows hold new rows in this bucket, of that cost together."""
        self._costs[bucket] = self._costs.get(bucket, 0) + cost
        self.size += cost

    def forget(self, keys: Collection[bytes]) -> None:
        """Drops windows that an aborted turn changed: the store has the committed truth."""
        for key in keys:
            if key in self.table:
                self._remove(key)
        self._close_opened()
        self._missing.update(keys)

    def evict(self, bytes_to_free: int) -> int:
        """Drops windows, those not used for longest first; returns the bytes freed.

        Between turns only. A window used since the last time it was looked at gets a second
        chance: no order has to be kept up to date by every event. A call looks at every window,
        so free a good part of the limit at once.
        """
        goal = self.size - bytes_to_free
        before = self.size
        self._begin_trimming()
        self._trim(INFINITY)
        trimmed = self.size
        for _ in range(2):
            for key, window in list(self.table.items()):
                if self.size <= goal:
                    break
                left, right = window
                if left.used or right.used:
                    left.used = right.used = False
                    self.table[key] = self.table.pop(key)
                else:
                    self._remove(key)
        if self.size != trimmed:
            self.cold = sorted(self.buckets)
        return before - self.size

    def settle(self, dropped: Sequence[int], bound: int) -> None:
        """After a commit: `dropped` buckets are gone from the store, all rows below `bound`."""
        self._close_opened()
        if dropped:
            gone = set(dropped)
            self.cold = [bucket for bucket in self.cold if bucket not in gone]
            self._bound = bound
            self._expired_cost += sum([self._costs.pop(bucket, 0) for bucket in dropped])
        # To visit a window costs more than to free a row in it: the more at once the better.
        cost = self.size - len(self.table) * WINDOW_COST
        if self._expired_cost > cost * EXPIRED_SHARE_MAX and not self._untrimmed:
            self._begin_trimming()
        self._trim(TRIMMED_MAX)

    def _begin_trimming(self) -> None:
        """What has expired so far will be trimmed."""
        if self._expired_cost:
            self._expired_cost = 0
            self._untrimmed = list(self.table)

    def _trim(self, budget: int) -> None:
        """Drops expired rows from memory, until there were about `budget` windows and rows."""
        untrimmed, bound, table = self._untrimmed, self._bound, self.table
        while untrimmed and budget > 0:
            key = untrimmed.pop()
            window = table.get(key)
            budget -= 1
            if window is not None:
                left, right = window
                before = len(left) + len(right)
                self.size -= _trim_side(left, bound) + _trim_side(right, bound)
                rest = len(left) + len(right)
                budget -= before - rest
                if not rest:
                    self._remove(key)

    def _close_opened(self) -> None:
        # Late or rejected events must not leave an empty window behind for every key they name.
        for key in self._opened:
            if not any(self.table.get(key, _SOME)):
                self._remove(key)
        self._opened.clear()

    def _remove(self, key: bytes) -> None:
        left, right = self.table.pop(key)
        self.size -= WINDOW_COST
        for row in (*left.values(), *right.values()):
            cost = cost_of(row)
            self.size -= cost
            bucket = row[0] // self.span
            if bucket in self._costs:
                self._costs[bucket] -= cost


_SOME: Final = (True,)


def rows_of(window: Window) -> Iterable[Row]:
    """Every row of a window, in no order."""
    left, right = window
    return (*left.values(), *right.values())


def cost_of(row: Row) -> int:
    """What a row takes in memory, in bytes."""
    return ROW_COST + len(row[5])


def _trim_side(side: Rows, bound: int) -> int:
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
