"""How long a row is kept, and why that is the least there can be.

`horizon` = allowed lateness L + max interval D. A row with end e matters while wm <= e + L + D:
a future accepted event of the other side has ts >= wm - L, and start >= ts - D, hence
start >= wm - L - D; it misses the row as soon as that exceeds e. Equality retains.

Rows are dropped by the bucket, and later still by the longest interval M of any stored row. A row
r at the very edge of its horizon may still be retracted, and its matches are then recomputed from
rows: a partner of r ends at or after r's start, that is not before r.end - M. M - 1 would lose
one. When storage is really cleaned must change nothing, so what a row is *known* to be is decided
by `horizon` alone and never by a look into the store.

An outer join keeps them by twice M. When r is retracted, each of its partners e is asked whether
it has a match left, also an e that is long past its own horizon: e.end >= r.start >= r.end - M, and
what matches e ends at or after e.start >= e.end - M. With r2 = [0, 0], e = [0, 6], r = [6, 12] and
M = 6, r2 ends 12 before r. Nothing is dropped either before the rows that need it were decided
about (`app.unmatched`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.checkpoint import Bucket


OUTER_REACH: Final = 2
"""How many of the longest interval an outer join keeps a row beyond its horizon."""


def span_of(lateness: int, max_interval: int) -> int:
    """The width of a time bucket, in the job's unit: about four of them cover the horizon."""
    return max(1, (lateness + max_interval + 3) // 4)


def is_retained(end: int, watermark: int | None, horizon: int) -> bool:
    """Whether a row that ends at `end` can still match, be retracted, or name a duplicate."""
    return watermark is None or watermark <= end + horizon


def droppable(
    buckets: Mapping[int, Bucket], watermark: int | None, horizon: int, span: int, reach: int = 1
) -> list[int]:
    """The buckets no result can need any more, oldest first.

    `buckets` holds the figures at the turn's end: the longest interval includes its rows. Rows are
    kept `reach` times that beyond their horizon.
    """
    if watermark is None or not buckets:
        return []
    dead = watermark - horizon
    if dead <= _last_end(min(buckets), span):  # The common case: one look at the oldest.
        return []
    dead -= reach * longest(buckets.values())
    return sorted(bucket for bucket in buckets if dead > _last_end(bucket, span))


def longest(buckets: Iterable[Bucket]) -> int:
    """The longest interval of any row in them."""
    return max((bucket.longest for bucket in buckets), default=0)


def first_kept_end(bucket: int, span: int) -> int:
    """Once `bucket` and all before it are dropped, rows that end before this are gone."""
    return _last_end(bucket, span) + 1


def _last_end(bucket: int, span: int) -> int:
    return bucket * span + span - 1
