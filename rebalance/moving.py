"""A job's state under another number of lanes: which lane gets which rows, times and positions.

A partition is a hash modulo the count of partitions. So the keys that a lane has afterwards come
from those lanes only, its *sources*, that leave the same remainder as itself by the greatest common
divisor of both counts; where the count is multiplied each lane has one source.

Invariant: no row is lost or doubled, and the watermark of no key falls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from state.checkpoint import Bucket, Checkpoint, Watermarks
from state.keys import DIGEST_MODULUS, REMEMBERED, parse_rows, rows_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

EMPTY: Bucket = Bucket(0, 0, 0, 0, 0, 0)


def sources(lane: int, before: int, after: int) -> list[int]:
    """The lanes of `before` whose keys may belong to this one of `after`."""
    shared = gcd(before, after)
    return [old for old in range(before) if old % shared == lane % shared]


def levels(watermarks: Sequence[Watermarks], after: int) -> list[int | None]:
    """By old lane, the watermark that its keys will have: the largest among their new sources."""
    before = len(watermarks)
    return [
        merged([watermarks[old] for old in sources(lane, before, after)]).lane
        for lane in range(before)
    ]


def merged(watermarks: Sequence[Watermarks]) -> Watermarks:
    """Those of a lane that has these sources.

    The lane's is the largest, so that none falls. A side's is the smallest, minus infinity being
    the smallest of all: so the lane's does not go beyond the largest with the very next event.
    """
    lanes = [one.lane for one in watermarks if one.lane is not None]
    lefts, rights = ([one[at] for one in watermarks] for at in (1, 2))
    return Watermarks(max(lanes, default=None), _smallest(lefts), _smallest(rights))


def _smallest(times: Sequence[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None


class Jump(NamedTuple):
    """A lane whose keys get a watermark that is more than the allowed lateness ahead of theirs."""

    lane: int
    was: int | None
    will_be: int


def jumps(watermarks: Sequence[Watermarks], after: int, lateness: int) -> list[Jump]:
    """The jumps there would be; a lane that has seen no time on either side has none."""
    found = []
    for lane, (old, new) in enumerate(zip(watermarks, levels(watermarks, after), strict=True)):
        silent = old.left is None and old.right is None
        if new is None or silent:
            continue
        if old.lane is None or new - old.lane > lateness:
            found.append(Jump(lane, old.lane, new))
    return found


def marked(before: Checkpoint, epoch: int, writer: str, after: int) -> Checkpoint:
    """The unchanged state of a lane, which no worker may go on from any more."""
    return replace(
        before,
        epoch=epoch,
        sequence=before.sequence + 1,
        writer=writer,
        owner="",
        address="",
        released=True,
        resharding=after,
    )


def first_of(
    found: Sequence[Checkpoint],
    positions: tuple[int, int],
    since: tuple[int, int],
    marks: tuple[int, str, int],
) -> Checkpoint:
    """The checkpoint of a new lane that has no rows yet; `found` are its sources'.

    `since`: where the records of its inputs begin that were written for this number of lanes.
    `marks` are the epoch, the writer, and that number.
    """
    epoch, writer, after = marks
    return Checkpoint(
        epoch=epoch,
        sequence=0,
        writer=writer,
        owner="",
        address="",
        released=True,
        left_position=positions[0],
        right_position=positions[1],
        watermarks=merged([one.watermarks for one in found]),
        rows=0,
        size=0,
        layout=found[0].layout,
        decided=max(one.decided for one in found),
        resharding=after,
        left_since=since[0],
        right_since=since[1],
    )


def since(checkpoint: Checkpoint, side: int) -> int:
    """The input offset of a side at which the records of today's number of partitions begin."""
    return (checkpoint.left_since, checkpoint.right_since)[side]


class Turn(NamedTuple):
    """What is written of a new lane at once."""

    checkpoint: Checkpoint
    rows: Mapping[bytes, bytes]
    buckets: Mapping[int, Bucket]


@dataclass(slots=True)
class NewLane:
    """A lane that is being filled: the rows that wait to be written, and its figures with them."""

    checkpoint: Checkpoint
    first_offset: int = 0
    """Of the changelog: no row is below it."""
    buckets: dict[int, Bucket] = field(default_factory=dict)
    waiting: int = 0
    """Bytes of the rows that wait."""
    _rows: dict[bytes, bytes] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)

    def add(self, bucket: int, length: int, row_key: bytes, row_value: bytes) -> None:
        """Take a row; `length` is that of its interval."""
        flags, size = row_value[0], len(row_key) + len(row_value)
        entry = self.buckets.get(bucket, EMPTY)
        self.buckets[bucket] = Bucket(
            entry.rows + 1,
            entry.size + size,
            (entry.digest + rows_digest([row_key], flags)) % DIGEST_MODULUS,
            max(entry.longest, length),
            entry.remembered + (flags == REMEMBERED),
            self.first_offset,
        )
        self._changed.add(bucket)
        self._rows[row_key] = row_value
        self.waiting += size

    def dropping(self, buckets: Iterable[int]) -> Turn:
        """The turn that begins the lane: nothing of what was there before counts any more."""
        return Turn(self.checkpoint, {}, dict.fromkeys(buckets, EMPTY))

    def turn(self) -> Turn:
        """What waits; it is taken."""
        entries = {bucket: self.buckets[bucket] for bucket in sorted(self._changed)}
        taken = Turn(self._next(), self._rows, entries)
        self._rows, self._changed, self.waiting = {}, set(), 0
        return taken

    def closing(self) -> Turn:
        """The turn from which on workers may take the lane over."""
        assert not self._rows, "rows wait still"
        self._next()
        self.checkpoint = replace(self.checkpoint, resharding=0)
        return Turn(self.checkpoint, {}, {})

    def _next(self) -> Checkpoint:
        self.checkpoint = replace(
            self.checkpoint,
            sequence=self.checkpoint.sequence + 1,
            rows=sum(entry.rows for entry in self.buckets.values()),
            size=sum(entry.size for entry in self.buckets.values()),
        )
        return self.checkpoint


def distribute(
    rows: Sequence[tuple[bytes, bytes]], lane_of: Callable[[bytes], int], lanes: Sequence[NewLane]
) -> None:
    """Give each stored row to the lane of its key."""
    for (row_key, row_value), (bucket, _, key, row) in zip(rows, parse_rows(rows), strict=True):
        lanes[lane_of(key)].add(bucket, row[0] - row[1], row_key, row_value)


def strays(
    rows: Sequence[tuple[bytes, bytes]], lane: int, lane_of: Callable[[bytes], int]
) -> set[bytes]:
    """The keys of these rows that the partitioner would not have placed in this lane."""
    return {key for _, _, key, _ in parse_rows(rows) if lane_of(key) != lane}


def differences(
    before: Iterable[Mapping[int, Bucket]], after: Iterable[Mapping[int, Bucket]]
) -> list[str]:
    """What two halves of lanes disagree in, bucket by bucket over all lanes; a line each."""
    old, new = _totals(before), _totals(after)
    return [
        f"bucket {bucket} had {_said(old.get(bucket))}, and has {_said(new.get(bucket))}"
        for bucket in sorted(old.keys() | new.keys())
        if old.get(bucket) != new.get(bucket)
    ]


def _totals(directories: Iterable[Mapping[int, Bucket]]) -> dict[int, Counter[str]]:
    totals: dict[int, Counter[str]] = {}
    for directory in directories:
        for bucket, entry in directory.items():
            total = totals.setdefault(bucket, Counter())
            total["rows"] += entry.rows
            total["size"] += entry.size
            total["remembered"] += entry.remembered
            total["digest"] = (total["digest"] + entry.digest) % DIGEST_MODULUS
    return totals


def _said(total: Counter[str] | None) -> str:
    if total is None:
        return "no rows"
    rows, size, digest = total["rows"], total["size"], total["digest"]
    return f"{rows} rows of {size} bytes, {total['remembered']} remembered (digest {digest:016x})"
