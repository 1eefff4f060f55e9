"""What the times at which results were seen say: gaps, rates, quantiles. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Span(NamedTuple):
    """A stretch of time in microseconds."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin


def longest_gap(seen: Sequence[int], within: Span) -> Span:
    """The longest time without a result that touches the span, which ends now or before."""
    first = max(bisect_left(seen, within.begin) - 1, 0)
    after = bisect_right(seen, within.end) + 1
    times = seen[first:after]
    if len(times) == 0:
        return within
    gaps = [Span(one, other) for one, other in pairwise(times)]
    if times[-1] < within.end:  # None since: then the time until now is one, too.
        gaps.append(Span(times[-1], within.end))
    return max(gaps, key=lambda gap: gap.length, default=within)


def longest_pause(seen: Sequence[int], within: Span) -> int:
    """The longest time between two results inside the span, in microseconds."""
    times = seen[bisect_left(seen, within.begin) : bisect_right(seen, within.end)]
    return max((other - one for one, other in pairwise(times)), default=within.length)


def rate(seen: Sequence[int], within: Span) -> float:
    """Results a second."""
    count = bisect_left(seen, within.end) - bisect_left(seen, within.begin)
    return count * 1e6 / within.length


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above; values need no order."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
