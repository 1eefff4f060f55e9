"""Which buckets may hold rows of a join key, answered without asking the store.

A seek costs the store several microseconds, also for a key that is not there; one is due for every
live bucket and side, and a job most of whose keys are new would spend its time on them. So each
bucket has a small Bloom filter here; it goes when the bucket goes, nothing is ever taken out.

Invariant: a bucket and side that hold a row of the key are always reported. The converse is only
likely.
"""

from __future__ import annotations

from itertools import combinations, cycle, islice
from typing import TYPE_CHECKING, Final

from schemas.records import Side
from state.keys import parse_row_key, window_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

CELLS_MIN: Final = 2**8
CELLS_MAX: Final = 2**18
"""Bytes a bucket may take."""
BYTES_MAX: Final = 2**22
"""Bytes all buckets of a lane may take, but for CELLS_MIN each. At a limit nothing fails: false
reports become likelier."""
CELLS_PER_KEY: Final = 4
"""One report in seventy is false."""
GROWTH: Final = 4

_HEAD_BYTES: Final = len(window_prefix(0, Side.LEFT, b""))
"""Bucket, side and key length: row keys that share them have their join key in the same place."""
_PATTERN_SHIFT: Final = 32
"""A key's pattern is chosen by other bits of its hash than its cell."""
_PATTERN_MASK: Final = 63


def _patterns(start: int) -> tuple[int, ...]:
    pairs = [1 << one | 1 << two for one, two in combinations(range(8), 2)]
    return tuple(islice(cycle(pairs[start:] + pairs[:start]), _PATTERN_MASK + 1))


# A key sets two bits of one cell, so that a look touches one byte; the sides of a key share the
# cell and differ in the pair, so that one look answers for both.
_LEFT, _RIGHT = _patterns(0), _patterns(13)


class Presence:
    """The filters of one lane. `unknown` buckets are always reported: not all rows were seen."""

    __slots__ = ("_bytes", "_cells_first", "_filled", "_filters", "unknown")

    def __init__(self, unknown: Iterable[int] = ()) -> None:
        self.unknown = set(unknown)
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

    def add(self, row_keys: Iterable[bytes]) -> None:
        """Take note of rows. Cheapest when they are sorted."""
        head, end, bucket, filled = b"", 0, 0, 0
        cells, patterns = bytearray(1), _LEFT
        last = 0
        for row_key in row_keys:
            if row_key[:_HEAD_BYTES] != head:
                self._fill(bucket, filled)
                head, filled = row_key[:_HEAD_BYTES], 0
                bucket, side, key, *_ = parse_row_key(row_key)
                end = _HEAD_BYTES + len(key)
                patterns = _RIGHT if side else _LEFT
                cells = self._cells_of(bucket)
                last = len(cells) - 1
            digest = hash(row_key[_HEAD_BYTES:end])
            pattern = patterns[digest >> _PATTERN_SHIFT & _PATTERN_MASK]
            cell = digest & last
            before = cells[cell]
            if before & pattern != pattern:
                cells[cell] = before | pattern
                filled += 1
        self._fill(bucket, filled)

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
        while len(cells) < min(CELLS_MAX, filled * CELLS_PER_KEY):
            added = len(cells) * (GROWTH - 1)
            if self._bytes + added > BYTES_MAX:
                return
            # A cell's number is the low bits of a hash: the same cells several times over answer
            # as they did once, and no key is needed to fill them.
            cells *= GROWTH
            self._bytes += added
            self._cells_first = max(self._cells_first, len(cells))
