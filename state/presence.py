"""Which buckets may hold rows of a join key, or a row of an id, answered without asking the store.

A seek costs the store several microseconds, also for a key that is not there; one is due for every
live bucket and side, and a job most of whose keys are new would spend its time on them. And most
records are of an id that is new: with that known nothing has to be read of their own side. So each
bucket has a small Bloom filter here, of its keys and of its ids; it goes when the bucket goes,
nothing is ever taken out.

Invariant: a bucket and side that hold a row of the key, or of the key and id, are always reported.
The converse is only likely.
"""

from __future__ import annotations

from itertools import combinations, cycle, islice
from typing import TYPE_CHECKING, Final

from native import loops
from schemas.records import INT64_MAX, INT64_MIN, Fault, Kind, Side
from state.keys import INTERVAL_SIZE, parse_row_key, run_first, window_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Arrival

CELLS_MIN: Final = 2**8
CELLS_MAX: Final = 2**20
"""Bytes a bucket may take."""
BYTES_MAX: Final = 2**22
"""Bytes all buckets of a lane may take, but for CELLS_MIN each. At a limit nothing fails: false
reports become likelier."""
CELLS_PER_KEY: Final = 4
"""Of each key, and of each id. One report in seventy is false; one in ten where CELLS_MAX hold a
million of them."""
GROWTH: Final = 4

_HEAD_BYTES: Final = len(window_prefix(0, Side.LEFT, b""))
"""Bucket, side and key length: row keys that share them have their join key in the same place."""
_PATTERN_SHIFT: Final = 32
"""A key's pattern is chosen by other bits of its hash than its cell."""
_PATTERN_MASK: Final = 63


def _patterns(start: int) -> bytes:
    pairs = [1 << one | 1 << two for one, two in combinations(range(8), 2)]
    return bytes(islice(cycle(pairs[start:] + pairs[:start]), _PATTERN_MASK + 1))


# A key, or a key and id, sets two bits of one cell, so that a look touches one byte; the sides of a
# key share the cell and differ in the pair, so that one look answers for both.
_LEFT, _RIGHT = _patterns(0), _patterns(13)


class Presence:
    """The filters of one lane. `unknown` buckets are always reported: not all rows were seen."""

    __slots__ = ("_bytes", "_cells_first", "_filled", "_filters", "learnt", "unknown")

    def __init__(self, unknown: Iterable[int] = ()) -> None:
        self.unknown = set(unknown)
        self.learnt = b""
        """All stored rows up to this one are known."""
        self._filters: dict[int, bytearray] = {}
        self._filled: dict[int, int] = {}
        """Per bucket, how many keys it was given: about, and rather too many than too few."""
        self._bytes = 0
        self._cells_first = CELLS_MIN
        """What a new bucket begins with: what the fullest before it came to."""

    def __len__(self) -> int:
        """Bytes in use."""
        return self._bytes

    def look(self, buckets: Iterable[int], key: bytes) -> list[tuple[int, Side]]:
        """Those of the buckets, with the side, that may hold rows of this join key."""
        digest = hash(key)
        pattern = digest >> _PATTERN_SHIFT & _PATTERN_MASK
        left, right = _LEFT[pattern], _RIGHT[pattern]
        filters, unknown = self._filters, self.unknown
        found = []
        for bucket in buckets:
            cells = filters.get(bucket)
            cell = 0 if cells is None else cells[digest & (len(cells) - 1)]
            if unknown and bucket in unknown:
                cell = 0xFF
            if cell:
                if cell & left == left:
                    found.append((bucket, Side.LEFT))
                if cell & right == right:
                    found.append((bucket, Side.RIGHT))
        return found

    def find(self, buckets: Iterable[int], keys: Iterable[bytes]) -> list[bytes]:
        """What the row keys begin with that these buckets may hold, of these join keys."""
        if loops is None:
            return [
                window_prefix(bucket, side, key)
                for key in keys
                for bucket, side in self.look(buckets, key)
            ]
        return loops.prefixes(list(keys), self._of(buckets), _LEFT, _RIGHT)

    def screen(
        self, buckets: Iterable[int], records: list[Arrival], span: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Where rows may stand that these records could match, and whose ids may be known.

        The first are those of `run_first`, for the other side of each record, in those of the
        buckets, of that span, that may hold its key. The second are keys of records that are no
        INSERT of an id that these buckets certainly lack; nothing is said of where their rows are.
        """
        filters = self._of(buckets)
        if loops is not None:
            return loops.screen(records, filters, (_LEFT, _RIGHT), span)
        firsts: list[bytes] = []
        doubtful = [record[3] for record in records if not _screened(record, filters, span, firsts)]
        return firsts, doubtful  # type: ignore[return-value] # They have keys.

    def _of(self, buckets: Iterable[int]) -> list[_Filter]:
        return [
            (bucket, None if bucket in self.unknown else self._filters[bucket])
            for bucket in buckets
            if bucket in self.unknown or bucket in self._filters
        ]

    def add(self, row_keys: Iterable[bytes]) -> None:
        """Take note of rows. Cheapest when they are sorted."""
        names, at = list(row_keys), 0
        mark = _mark if loops is None else loops.mark
        while at < len(names):
            bucket, side, *_ = parse_row_key(names[at])
            cells, room = self._cells_of(bucket), 2 * len(names)
            if self._may_grow(cells):
                # What is full before it grows stays full.
                room = max(1, len(cells) // CELLS_PER_KEY - self._filled.get(bucket, 0) + 1)
            at, filled = mark(names, at, cells, _RIGHT if side else _LEFT, room)
            self._fill(bucket, filled)

    def learn(self, row_keys: list[bytes]) -> None:
        """Take note of the next rows that are stored behind `learnt`; none say that was all."""
        if not row_keys:
            self.unknown.clear()
            return
        self.add(row_keys)
        self.learnt = row_keys[-1]
        reached = parse_row_key(self.learnt).bucket
        self.unknown -= {bucket for bucket in self.unknown if bucket < reached}

    def expect(self, rows: int) -> None:
        """Buckets have so many: cells that need not grow report falsely less often."""
        while self._cells_first < min(CELLS_MAX, 2 * rows * CELLS_PER_KEY):
            self._cells_first *= GROWTH

    def drop(self, bucket: int) -> None:
        """The bucket has no rows any more."""
        self.unknown.discard(bucket)
        self._bytes -= len(self._filters.pop(bucket, b""))
        self._filled.pop(bucket, None)

    def _cells_of(self, bucket: int) -> bytearray:
        cells = self._filters.get(bucket)
        if cells is None:
            fits = self._bytes + self._cells_first <= BYTES_MAX
            cells = bytearray(self._cells_first if fits else CELLS_MIN)
            self._filters[bucket] = cells
            self._bytes += len(cells)
        return cells

    def _fill(self, bucket: int, keys: int) -> None:
        if not keys:
            return
        filled = self._filled[bucket] = self._filled.get(bucket, 0) + keys
        cells = self._filters[bucket]
        while len(cells) < filled * CELLS_PER_KEY and self._may_grow(cells):
            self._bytes += len(cells) * (GROWTH - 1)
            # A cell's number is the low bits of a hash: the same cells several times over answer
            # as they did once, and no key is needed to fill them.
            cells *= GROWTH
            self._cells_first = max(self._cells_first, len(cells))

    def _may_grow(self, cells: bytearray) -> bool:
        added = len(cells) * (GROWTH - 1)
        return len(cells) < CELLS_MAX and self._bytes + added <= BYTES_MAX


_Filter = tuple[int, bytearray | None]
"""(bucket, its cells, or None for all ones)."""


def _screened(record: Arrival, filters: list[_Filter], span: int, firsts: list[bytes]) -> bool:
    """Whether a record is an INSERT of an id that none of the buckets holds.

    If so, adds where rows of the other side may stand.
    """
    _, side, _, key, parts, _ = record
    if key is None or isinstance(parts, Fault) or parts[4] != Kind.INSERT:
        return False
    start, row_id = parts[1], parts[2]
    if not INT64_MIN <= start <= INT64_MAX:
        return False
    own, of_key = hash(key + row_id.encode()), hash(key)
    if any(_holds(cells, own, side) for _, cells in filters):
        return False
    firsts += [
        run_first(bucket, 1 - side, key, start)
        for bucket, cells in filters
        if bucket >= start // span and _holds(cells, of_key, 1 - side)
    ]
    return True


def _holds(cells: bytearray | None, digest: int, side: int) -> bool:
    """Whether what has this digest may be there."""
    if cells is None:
        return True
    pattern = (_RIGHT if side else _LEFT)[digest >> _PATTERN_SHIFT & _PATTERN_MASK]
    return cells[digest & (len(cells) - 1)] & pattern == pattern


def _mark(
    names: list[bytes], at: int, cells: bytearray, patterns: bytes, room: int
) -> tuple[int, int]:
    """Notes the keys and ids of rows from `at` on that are of one bucket, side and length of key.

    Returns the place behind them, and how many of the keys and ids were new. Ends once these are
    `room` or more.
    """
    head, last, filled = names[at][:_HEAD_BYTES], len(cells) - 1, 0
    end = _HEAD_BYTES + len(parse_row_key(names[at]).key)
    while at < len(names) and filled < room and names[at][:_HEAD_BYTES] == head:
        key, row_id = names[at][_HEAD_BYTES:end], names[at][end + INTERVAL_SIZE :]
        for digest in (hash(key), hash(key + row_id)):
            pattern = patterns[digest >> _PATTERN_SHIFT & _PATTERN_MASK]
            cell = digest & last
            before = cells[cell]
            if before & pattern != pattern:
                cells[cell] = before | pattern
                filled += 1
        at += 1
    return at, filled
