"""Compares a lane's store with a second one that was made from the changelog alone.

Invariant: what the changelog no longer holds is not called different. It is truncated below the
first offset of any live bucket; so of a copy that is behind, a bucket that others have dropped
since is gone there, wholly or in part. Its `first_offset` tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from state.keys import PREFIX_SIZE, bucket_prefix, parse_row_key, parse_row_value
from state.store import SCAN_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.store import LaneStore

TOLD_MAX: Final = 20
"""Differences that are told one by one; all are counted."""
_NAME_MAX: Final = 60


@dataclass(slots=True)
class Comparison:
    """Every row, directory entry and the checkpoint of `store` against `replayed`.

    Neither may be written meanwhile.
    """

    store: LaneStore
    replayed: LaneStore
    log_start: int
    """First offset of the changelog that `replayed` was made from."""
    rows: int = 0
    """Rows that were compared."""
    count: int = 0
    """Differences found."""
    told: list[str] = field(default_factory=list)
    """The first ones, a line each."""
    left_out: set[int] = field(default_factory=set)
    """Buckets that the changelog no longer holds whole."""

    def run(self) -> Iterator[int]:
        """Compare everything; yields the count of rows so far, now and then. Raises StoreError."""
        self.left_out = {
            bucket
            for bucket, entry in self.store.buckets().items()
            if entry.first_offset < self.log_start
        }
        self._entries()
        ours, theirs = _kept(self.store, self.left_out), _kept(self.replayed, self.left_out)
        mine, other = next(ours, None), next(theirs, None)
        while mine is not None or other is not None:
            self.rows += 1
            if mine == other:
                mine, other = next(ours, None), next(theirs, None)
            elif other is None or (mine is not None and mine[0] < other[0]):
                assert mine is not None, "one of the two is a row"
                self._differ(f"{_name(mine[0])} is stored but not in the changelog")
                mine = next(ours, None)
            elif mine is None or other[0] < mine[0]:
                self._differ(f"{_name(other[0])} is in the changelog but not stored")
                other = next(theirs, None)
            else:
                said = f"{_words(mine[1])}, the changelog says {_words(other[1])}"
                self._differ(f"{_name(mine[0])} is stored as {said}")
                mine, other = next(ours, None), next(theirs, None)
            if self.rows % SCAN_ROWS == 0:
                yield self.rows
        yield self.rows

    def _entries(self) -> None:
        ours, theirs = self.store.buckets(), self.replayed.buckets()
        for bucket in sorted((ours.keys() | theirs.keys()) - self.left_out):
            if ours.get(bucket) != theirs.get(bucket):
                self._differ(
                    f"the entry of bucket {bucket} is {ours.get(bucket)}, the changelog says "
                    f"{theirs.get(bucket)}"
                )
        if self.store.checkpoint != self.replayed.checkpoint:
            self._differ(
                f"the checkpoint is {self.store.checkpoint}, the changelog says "
                f"{self.replayed.checkpoint}"
            )

    def _differ(self, line: str) -> None:
        self.count += 1
        if len(self.told) < TOLD_MAX:
            self.told.append(line)


def _kept(store: LaneStore, left_out: set[int]) -> Iterator[tuple[bytes, bytes]]:
    if not left_out:
        return store.scan()
    prefixes = {bucket_prefix(bucket) for bucket in left_out}
    return (row for row in store.scan() if row[0][:PREFIX_SIZE] not in prefixes)


def _name(row_key: bytes) -> str:
    try:
        bucket, side, key, end, start, row_id = parse_row_key(row_key)
    except Exception as error:  # noqa: BLE001 (whatever it is, the row is shown)
        return f"a row that is none ({row_key[:_NAME_MAX].hex()}: {error})"
    where = f"[{start}, {end}] of key {key[:_NAME_MAX]!r} in bucket {bucket}"
    return f"{side.name.lower()} row {row_id[:_NAME_MAX]!r} {where}"


def _words(row_value: bytes) -> str:
    try:
        ts, flags, value = parse_row_value(row_value)
    except Exception as error:  # noqa: BLE001 (likewise)
        return f"something damaged ({row_value[:_NAME_MAX].hex()}: {error})"
    return f"ts {ts}, flags {flags}, {len(value)} bytes {value[:_NAME_MAX].hex()}"
