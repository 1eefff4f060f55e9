"""Windows: the rows of a join key in memory, both sides, in front of the store.

Invariants:
* A window holds all rows of its key that the store holds (or will, when the turn commits). It is
  changed by a turn only; after an abort it is forgotten, and the store has the committed truth.
* A window may also hold rows that the store has dropped or may drop: being past its horizon is a
  formula of the caller, so a row that lingers changes no result. They are trimmed many at a time.
* A key that is not in memory has stored rows in `cold` buckets only, unless it was forgotten. When
  nothing is cold or forgotten, memory is the whole state (`resident`); as long as nothing is cold a
  new key costs no look into the store.
* The exception to the first: of a key that seldom occurs only a *part* may be in memory, as much as
  one INSERT has to be decided with. It is there until the turn of that record is committed, and is
  completed before another record of the key is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from native import loops
from schemas.records import INT64_MAX
from state.keys import StoredRow
from state.side import ROW_COST, Rows, cost_of, put, trim

if TYPE_CHECKING:
    from schemas.records import Arrival
    from state.checkpoint import Bucket
    from state.keys import Row

Load = Callable[[Sequence[int], Collection[bytes]], Iterable[StoredRow]]
"""(buckets, keys) -> every stored row of those keys, of both sides, in those buckets. Buckets are
given and rows come in ascending order; so of two rows of one id the newer comes later."""

Probe = Callable[[Sequence[int], "list[Arrival]", int], tuple[list[StoredRow], list[bytes]]]
"""(buckets, records, span) -> what the records may match of what is stored there, and the keys of
those of which that cannot be said, see `LaneStore.probe`."""

WINDOW_COST: Final = 560
"""What a window costs in CPython on 64 bits, in bytes: its two sides, table entry."""
EXPIRED_SHARE_MAX: Final = 0.5
"""Part of all rows' cost that rows past their horizon may take before they are trimmed."""
TRIMMED_MAX: Final = 20_000
"""Windows looked at and rows freed after one turn, together: about 20 ms. More than a turn can add;
the rest waits for the next turn, harmlessly."""
RECENT_MIN: Final = 2**8
"""Keys to remember whose parts were read."""
RECENT_SHIFT: Final = 32
"""Keys are told apart by other bits of their hashes than those that say where they are."""

Window = tuple[Rows, Rows]
"""Both sides of one join key."""


def place(table: dict[bytes, Window], rows: list[StoredRow]) -> dict[int, int]:
    """Puts rows into their windows, in this order; returns what they cost, by bucket."""
    if loops is not None:
        return loops.place(rows, table, ROW_COST, _empty, put)
    costs: dict[int, int] = {}
    for bucket, side, key, row in rows:
        window = table.get(key)
        if window is None:
            window = table[key] = _empty()
        put(window[side], row)
        costs[bucket] = costs.get(bucket, 0) + ROW_COST + len(row[5])
    return costs


def _empty() -> Window:
    return Rows(), Rows()


class Windows:
    """The windows of a lane, loaded on first touch. Not thread-safe; owned by its lane.

    `table` is read directly by the turn's inner loop; everything else goes through methods.
    `buckets` is the lane's committed directory, shared and only read. `size` estimates the bytes
    that the windows take in memory. With a `probe` not every key is read as a whole.
    """

    __slots__ = ("_bound", "_costs", "_counts", "_expired_cost", "_load", "_missing", "_opened",
                 "_parts", "_recent", "_untrimmed", "buckets", "cold", "probe", "size", "span",
                 "table")  # fmt: skip

    def __init__(self, load: Load, buckets: Mapping[int, Bucket], span: int) -> None:
        self._load = load
        self.probe: Probe | None = None
        self.buckets = buckets
        self.span = span
        self.table: dict[bytes, Window] = {}
        self.size = 0
        self.cold = sorted(buckets)
        self._missing: set[bytes] = set()
        """Keys of windows that were forgotten, whatever `cold` says."""
        self._parts: set[bytes] = set()
        """Keys of windows that are a part only."""
        self._recent = bytearray(RECENT_MIN)
        """Keys whose parts were read, by their hashes; newer ones take the place of older ones."""
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
        self._open((key,))
        return self.table[key]

    def fetch(self, keys: Iterable[bytes]) -> None:
        """Opens what is not in memory of these, if the store may have rows of it.

        All of a turn at once: in the order of the store neighbours are read once.
        """
        if not self.resident:
            self._open([key for key in dict.fromkeys(keys) if key not in self.table])

    def prepare(self, records: Iterable[Arrival]) -> None:
        """Has in memory what the records of a turn have to be decided with.

        To read all rows of a key pays where the key occurs again while they are in memory. Of a key
        that has not occurred for long only what the record needs is read, where the store can.
        """
        if self.resident:
            # Nothing is missing from a part, then. To let it go would lose what is joined ahead:
            # 1. A turn reads a part, and in its end no key is missing any more.
            # 2. The next one is joined ahead, and adds a row of the key to that part.
            # 3. The first is committed: the part goes with that row, which no store has yet, in a
            #    bucket that nobody will look into.
            self._parts.clear()
            return
        if self.probe is None:
            self.fetch(record[3] for record in records if record[3] is not None)
            return
        once, whole = self._seldom(records)
        if once:
            whole += self._open_parts(self.probe, once)
        if whole:
            self._open(whole)

    def _seldom(self, records: Iterable[Arrival]) -> tuple[dict[bytes, Arrival], list[bytes]]:
        """What is not in memory: of keys that seldom occur the record, and all other keys."""
        table, parts, missing = self.table, self._parts, self._missing
        found: dict[bytes, Arrival | None] = {}
        for record in records:
            key = record[3]
            if key is not None and (key not in table or key in parts):
                found[key] = None if key in found else record
        recent, last = self._recent, len(self._recent) - 1
        once, whole = {}, []
        for key, one in found.items():
            digest = hash(key)
            at, mark = digest & last, digest >> RECENT_SHIFT & 0xFF
            if one is None or recent[at] == mark or key in parts or key in missing:
                whole.append(key)
            else:
                recent[at] = mark
                once[key] = one
        return once, whole

    def _open_parts(self, probe: Probe, once: dict[bytes, Arrival]) -> list[bytes]:
        """Reads as much as these records need; returns the keys of which all is needed."""
        rows, doubtful = probe(self.cold, list(once.values()), self.span)
        for key in doubtful:
            once.pop(key, None)
        table = self.table
        for key in once:
            table[key] = _empty()
        self._parts.update(once)
        self._opened += once
        self.size += len(once) * WINDOW_COST
        self._counts[0] += len(once)
        self._counts[1] += len(once)
        self._place(rows)
        return doubtful

    def release(self, touched: Collection[bytes], buckets: Iterable[int]) -> None:
        """A turn is committed that touched these keys: their parts go, the store has all of them.

        `buckets` are those that have new rows. Those that a turn joined since touched are whole.
        """
        gone = self._parts.intersection(touched)
        if gone:
            self.cold = sorted({*self.cold, *buckets})
            self._drop(gone)

    def _place(self, rows: list[StoredRow]) -> None:
        for bucket, cost in place(self.table, rows).items():
            self.enter(bucket, cost)

    def _open(self, keys: Collection[bytes]) -> None:
        parts = {key: self.table[key] for key in self._parts.intersection(keys) & self.table.keys()}
        self._drop(parts)
        self._parts.difference_update(keys)
        self._open_whole(keys)
        for key, sides in parts.items():
            self._add(key, sides)

    def _add(self, key: bytes, part: Window) -> None:
        """Puts what a part has and the store has not into a window: rows of a turn under way."""
        for rows, mine in zip(part, self.table[key], strict=True):
            for row in rows.values():
                known = mine.get(row[2])
                if (known is None or known[:3] != row[:3]) and row not in mine:
                    put(mine, row)
                    self.enter(row[0] // self.span, cost_of(row))

    def _open_whole(self, keys: Collection[bytes]) -> None:
        table = self.table
        for key in keys:
            table[key] = _empty()
        self._opened += keys
        self.size += len(keys) * WINDOW_COST
        self._counts[0] += len(keys)
        if not self.resident:
            self._counts[1] += len(keys)
            self._place(self._stored(keys))
            self._missing.difference_update(keys)

    def drain_counts(self) -> tuple[int, int]:
        """Windows opened, and those of them that the store was asked for, since the last call."""
        opened, loaded = self._counts
        self._counts = [0, 0]
        return opened, loaded

    def peek(self, key: bytes) -> Window:
        """The window of a key to look at, between turns; one that is not in memory is not kept."""
        window = self.table.get(key)
        if window is None or key in self._parts:
            looked_at = {key: _empty()}
            place(looked_at, self._stored((key,)))
            window = looked_at[key]
        return window

    def _stored(self, keys: Collection[bytes]) -> list[StoredRow]:
        """Every stored row of these keys that memory may lack."""
        stored: list[StoredRow] = []
        missing = self._missing.intersection(keys)
        for buckets, some in (
            (self.cold, [key for key in keys if key not in missing]),
            (sorted(self.buckets), missing),
        ):
            if buckets and some:
                stored += self._load(buckets, some)
        return stored

    def enter(self, bucket: int, cost: int) -> None:
        """Notes that windows hold new rows in this bucket, of that cost together."""
        self._costs[bucket] = self._costs.get(bucket, 0) + cost
        self.size += cost

    def forget(self, keys: Collection[bytes]) -> None:
        """Drops windows that an aborted turn changed: the store has the committed truth."""
        self._drop(keys)
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
        self._drop(list(self._parts))  # No turn has touched what there still is of them.
        self._begin_trimming()
        self.trim(INT64_MAX)
        trimmed = self.size
        if trimmed > goal:
            self.size -= sweep(self.table, trimmed - goal, self._costs, self.span)
        if self.size != trimmed:
            self.cold = sorted(self.buckets)
        # A key that occurs less often than about a quarter of all windows will not stay in memory.
        if len(self._recent) < (cells := 1 << max(len(self.table).bit_length() - 2, 0)):
            self._recent = bytearray(cells)
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

    def _begin_trimming(self) -> None:
        """What has expired so far will be trimmed."""
        if self._expired_cost:
            self._expired_cost = 0
            self._untrimmed = list(self.table)

    def trim(self, budget: int = TRIMMED_MAX) -> None:
        """Drops expired rows from memory, until there were about `budget` windows and rows."""
        self.size -= expire(self.table, self._untrimmed, self._bound, budget)

    def _close_opened(self) -> None:
        # Late or rejected events must not leave an empty window behind for every key they name.
        self._drop([key for key in self._opened if not any(self.table.get(key, _SOME))])
        self._opened.clear()

    def _drop(self, keys: Collection[bytes]) -> None:
        """Drops windows, whatever there is of them."""
        self.size -= remove(self.table, list(keys), self._costs, self.span)
        self._parts.difference_update(keys)


_SOME: Final = (True,)
_NONE: Final = _empty()


def expire(table: dict[bytes, Window], keys: list[bytes], bound: int, budget: int) -> int:
    """Drops the rows of these keys that end before `bound`; returns the bytes freed.

    Takes keys from the end of the list until there were about `budget` windows and rows.
    """
    if loops is not None and bound <= INT64_MAX:
        return loops.expire(table, keys, bound, budget, (ROW_COST, WINDOW_COST), trim)
    freed = 0
    while keys and budget > 0:
        key = keys.pop()
        budget -= 1
        left, right = table.get(key, _NONE)
        before = len(left) + len(right)
        freed += trim(left, bound) + trim(right, bound)
        rest = len(left) + len(right)
        budget -= before - rest
        if not rest and key in table:
            del table[key]
            freed += WINDOW_COST
    return freed


def remove(table: dict[bytes, Window], keys: list[bytes], costs: dict[int, int], span: int) -> int:
    """Drops the windows of these keys that there are; returns the bytes freed."""
    if loops is not None:
        return loops.remove_windows(keys, table, costs, span, ROW_COST, WINDOW_COST)
    return sum([_take(table, key, costs, span) for key in keys if key in table])


def sweep(table: dict[bytes, Window], bytes_to_free: int, costs: dict[int, int], span: int) -> int:
    """Drops windows, those not used for longest first; returns the bytes freed.

    A window used since the last time it was looked at is put at the end, and counts as not used.
    """
    if loops is not None:
        return loops.sweep(bytes_to_free, table, costs, span, ROW_COST, WINDOW_COST)
    freed = 0
    for _ in range(2):
        for key, (left, right) in list(table.items()):
            if freed >= bytes_to_free:
                break
            if left.used or right.used:
                left.used = right.used = False
                table[key] = table.pop(key)
            else:
                freed += _take(table, key, costs, span)
    return freed


def _take(table: dict[bytes, Window], key: bytes, costs: dict[int, int], span: int) -> int:
    """Drops a window; returns the bytes freed."""
    freed = WINDOW_COST
    for row in rows_of(table.pop(key)):
        cost = cost_of(row)
        freed += cost
        bucket = row[0] // span
        if bucket in costs:
            costs[bucket] -= cost
    return freed


def rows_of(window: Window) -> Iterable[Row]:
    """Every row of a window, in no order."""
    left, right = window
    return (*left.values(), *right.values())
