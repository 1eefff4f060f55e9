"""Windows: the rows of a join key in memory, both sides, in front of the store.

A probe for [start, end] must find the rows that overlap it without reading all that end later.
So each side keeps its live rows on *shelves*, one per power-of-two class of interval length, each
sorted by end: rows of a shelf that overlap [start, end] end in [start, end + the shelf's longest].
Cost follows the matches, not the max interval and not the state. Retracted and remembered rows
stand apart: they answer for their id but never match.

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
from typing import TYPE_CHECKING, Final

from schemas.records import Side
from state.keys import LIVE, Row

if TYPE_CHECKING:
    from state.checkpoint import Bucket

StoredRow = tuple[Side, int, int, str, int, int, bytes]
"""What the store gives back: the side in front of a row."""

Load = Callable[[Sequence[int], bytes], Iterable[StoredRow]]
"""(buckets, key) -> every stored row of that key, of both sides, in those buckets, any order."""

# What a row and a window cost in CPython on 64 bits beyond the bytes of the row's value: row tuple,
# numbers, id, header of the value, list slot and dictionary entry; window, its two sides, one shelf
# each, table entry. Measured, see tests/unit/test_window.py; raw bytes are a fifth of the truth.
ROW_COST: Final = 500
WINDOW_COST: Final = 750


class Shelf:
    """Live rows of one side whose interval lengths have the same number of bits, by end."""

    __slots__ = ("bits", "longest", "rows")

    def __init__(self, row: Row) -> None:
        self.longest = row[0] - row[1]
        self.bits = self.longest.bit_length()
        self.rows = [row]


class Rows:
    """One side of a window.

    `ids` names the newest row of each id, whatever its state. `gone` holds the retracted and the
    remembered rows, sorted by end like a shelf.
    """

    __slots__ = ("gone", "ids", "shelves")

    def __init__(self) -> None:
        self.ids: dict[str, Row] = {}
        self.shelves: list[Shelf] = []
        self.gone: list[Row] = []


class Window:
    """Both sides of one join key; `used` since eviction last looked at it."""

    __slots__ = ("key", "sides", "used")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.sides = (Rows(), Rows())
        self.used = True


def put(side: Rows, row: Row) -> None:
    """Adds a live row, in front of an expired row of the same id if there is one."""
    side.ids[row[2]] = row
    length = row[0] - row[1]
    bits = length.bit_length()
    for shelf in side.shelves:
        if shelf.bits == bits:
            if length > shelf.longest:  # noqa: PLR1730 - a call costs more than all the rest
                shelf.longest = length
            rows = shelf.rows
            if rows[-1] < row:  # Most rows come about in order of time.
                rows.append(row)
            else:
                insort(rows, row)
            return
    side.shelves.append(Shelf(row))


def put_gone(side: Rows, row: Row) -> None:
    """Adds a row that never matches: one remembered before its insert was seen."""
    side.ids[row[2]] = row
    insort(side.gone, row)


def retire(side: Rows, row: Row, flags: int) -> Row:
    """Takes a live row off its shelf for good; returns what it is from now on."""
    bits = (row[0] - row[1]).bit_length()
    shelf = next(shelf for shelf in side.shelves if shelf.bits == bits)
    at = bisect_left(shelf.rows, row)
    assert shelf.rows[at] is row, "a live row stands on the shelf of its length"
    del shelf.rows[at]
    if not shelf.rows:
        side.shelves.remove(shelf)
    gone: Row = (*row[:4], flags, b"")
    put_gone(side, gone)
    return gone


def reflag(side: Rows, row: Row, flags: int) -> Row:
    """Gives a row that never matches other flags; returns what it is from now on."""
    changed: Row = (*row[:4], flags, row[5])
    at = bisect_left(side.gone, row)
    assert side.gone[at] is row, "a row that is not live stands apart from the shelves"
    side.gone[at] = changed
    side.ids[row[2]] = changed
    return changed


def overlapping(side: Rows, start: int, end: int) -> list[Row]:
    """The live rows that share a moment with [start, end], both inclusive."""
    found: list[Row] = []
    for shelf in side.shelves:
        rows = shelf.rows
        if rows[-1][0] < start:
            continue
        at = bisect_left(rows, (start,))
        reach = end + shelf.longest
        if rows[at][0] <= reach:
            after = bisect_left(rows, (reach + 1,), at)
            found += [row for row in rows[at:after] if row[1] <= end]
    return found


class Windows:
    """The windows of a lane, loaded on first touch. Not thread-safe; owned by its lane.

    `table` is read directly by the turn's inner loop; everything else goes through methods.
    `buckets` is the lane's committed directory, shared and only read. `size` estimates the bytes
    that the windows take in memory.
    """

    __slots__ = ("_bound", "_by_bucket", "_costs", "_expired", "_expired_cost", "_load", "_missing",
                 "_opened", "_stale", "buckets", "cold", "size", "span", "table")  # fmt: skip

    def __init__(self, load: Load, buckets: Mapping[int, Bucket], span: int) -> None:
        self._load = load
        self.buckets = buckets
        self.span = span
        self.table: dict[bytes, Window] = {}
        self.size = 0
        self.cold = sorted(buckets)
        self._missing: set[bytes] = set()
        """Keys of windows that were forgotten, whatever `cold` says."""
        self._by_bucket: dict[int, set[bytes]] = {}
        self._costs: dict[int, int] = {}
        """Per bucket, what its rows cost when they entered."""
        self._expired: list[set[bytes]] = []
        self._expired_cost = 0
        self._bound = 0
        """Expired rows end before it."""
        self._opened: list[Window] = []
        self._stale: list[tuple[int, set[bytes]]] = []

    @property
    def resident(self) -> bool:
        """Whether memory holds every stored row, so that an unknown key has none."""
        return not (self.cold or self._missing)

    def open(self, key: bytes) -> Window:
        """The window of a key that is not in memory."""
        window = Window(key)
        self.table[key] = window
        self._opened.append(window)
        self.size += WINDOW_COST
        if self.cold or self._missing:
            # By end, so that of two rows of one id the newer is the one its id names.
            for stored in sorted(self._stored(key), key=_end_of):
                self._install(window, stored)
            self._missing.discard(key)
        return window

    def peek(self, key: bytes) -> Window:
        """The window of a key to look at, between turns; one that is not in memory is not kept."""
        window = self.table.get(key)
        if window is None:
            window = Window(key)
            for side, end, start, row_id, ts, flags, value in self._stored(key):
                if flags == LIVE:
                    put(window.sides[side], (end, start, row_id, ts, flags, value))
        return window

    def _stored(self, key: bytes) -> Iterable[StoredRow]:
        """Every stored row of a key that memory may lack."""
        buckets = sorted(self.buckets) if key in self._missing else self.cold
        return self._load(buckets, key) if buckets else ()

    def _install(self, window: Window, stored: StoredRow) -> None:
        side, end, start, row_id, ts, flags, value = stored
        row = end, start, row_id, ts, flags, value
        if flags == LIVE:
            put(window.sides[side], row)
        else:
            put_gone(window.sides[side], row)
        self.enter(end // self.span, [window.key], cost_of(row))

    def enter(self, bucket: int, keys: Iterable[bytes], cost: int) -> None:
        """Notes that windows of these keys hold new rows in this bucket, of that cost together.

        Pass the keys of the windows themselves, not equal ones: they are kept.
        """
        members = self._by_bucket.get(bucket)
        if members is None:
            members = self._by_bucket[bucket] = set()
            self._costs[bucket] = 0
        members.update(keys)
        self._costs[bucket] += cost
        self.size += cost

    def forget(self, keys: Collection[bytes]) -> None:
        """Drops windows that an aborted turn changed: the store has the committed truth."""
        for key in keys:
            window = self.table.get(key)
            if window is not None:
                self._remove(window)
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
        self._trim(len(self.table))
        trimmed = self.size
        for _ in range(2):
            for window in list(self.table.values()):
                if self.size <= goal:
                    break
                if window.used:
                    window.used = False
                    self.table[window.key] = self.table.pop(window.key)
                else:
                    self._remove(window)
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
            for bucket in dropped:
                self._expired.append(self._by_bucket.pop(bucket, set()))
                self._expired_cost += self._costs.pop(bucket, 0)
            # To visit a window costs more than to free a row in it: the more at once the better.
            if self._expired_cost > self.size * EXPIRED_SHARE_MAX:
                self._begin_trimming()
        self._trim(TRIMMED_MAX)

    def _begin_trimming(self) -> None:
        """What has expired so far will be trimmed."""
        if self._expired:
            self._stale.append((self._bound, set[bytes]().union(*self._expired)))
            self._expired.clear()
            self._expired_cost = 0

    def _trim(self, budget: int) -> None:
        """Drops expired rows from memory, of at most `budget` windows."""
        while self._stale and budget > 0:
            bound, members = self._stale[-1]
            while members and budget > 0:
                window = self.table.get(members.pop())
                budget -= 1
                if window is not None:
                    left, right = window.sides
                    self.size -= _trim_side(left, bound) + _trim_side(right, bound)
                    self._remove_empty(window)
            if not members:
                self._stale.pop()

    def _close_opened(self) -> None:
        # Late or rejected events must not leave an empty window behind for every key they name.
        for window in self._opened:
            if self.table.get(window.key) is window:
                self._remove_empty(window)
        self._opened.clear()

    def _remove_empty(self, window: Window) -> None:
        left, right = window.sides
        if not (left.ids or right.ids):  # Every row is named, or has a newer one of its id.
            del self.table[window.key]
            self.size -= WINDOW_COST

    def _remove(self, window: Window) -> None:
        del self.table[window.key]
        self.size -= WINDOW_COST
        for row in rows_of(window):
            self.size -= cost_of(row)
            members = self._by_bucket.get(row[0] // self.span)
            if members is not None:
                members.discard(window.key)


EXPIRED_SHARE_MAX: Final = 0.25
"""Part of the windows' size that rows past their horizon may take before they are trimmed."""
TRIMMED_MAX: Final = 20_000
"""Windows trimmed after one turn: about 20 ms. The rest waits for the next turn, harmlessly."""


def rows_of(window: Window) -> Iterable[Row]:
    """Every row of a window, in no order."""
    for side in window.sides:
        for shelf in side.shelves:
            yield from shelf.rows
        yield from side.gone


def cost_of(row: Row) -> int:
    """What a row takes in memory, in bytes."""
    return ROW_COST + len(row[5])


def _trim_side(side: Rows, bound: int) -> int:
    """Drops the rows that end before `bound`; returns the bytes freed."""
    freed = 0
    for shelf in side.shelves:
        if shelf.rows[0][0] < bound:
            freed += _cut(shelf.rows, side.ids, bound)
    if freed:
        side.shelves = [shelf for shelf in side.shelves if shelf.rows]
    if side.gone and side.gone[0][0] < bound:
        freed += _cut(side.gone, side.ids, bound)
    return freed


def _cut(rows: list[Row], ids: dict[str, Row], bound: int) -> int:
    cut = bisect_left(rows, (bound,))
    freed = cut * ROW_COST
    for row in rows[:cut]:
        freed += len(row[5])
        row_id = row[2]
        if ids.get(row_id) is row:  # Else the id has a newer row.
            del ids[row_id]
    del rows[:cut]
    return freed


def _end_of(row: StoredRow) -> int:
    return row[1]
