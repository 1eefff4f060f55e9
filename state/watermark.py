"""Watermarks of a lane: how far event time has come, on each side and for both together.

A side's watermark is the largest ts it has shown. The lane's follows the smaller of those that
count, an idle side does not; it never falls, whatever a returning side or a restart brings.

    wm = max(wm, min(watermarks of the sides that count))

A side that counts and never spoke is at minus infinity and holds the lane there; with no side
counting all stays as it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from state.checkpoint import Watermarks

INFINITY: Final = 2**80
"""Above every ts."""


class Levels(NamedTuple):
    """Watermarks as plain numbers, for a loop that compares and moves them.

    `tops` are the sides' watermarks. `floors` are the same plus `idle`, which is infinite for a
    side that does not count: the lower floor is what the lane's watermark follows if finite.
    """

    lane: int
    tops: list[int]
    floors: list[int]
    idle: list[int]


def levels_of(watermarks: Watermarks, counting: tuple[bool, bool]) -> Levels:
    """The watermarks at the beginning of a turn; `counting` says which sides are not idle."""
    lane, *tops = [-INFINITY if ts is None else ts for ts in watermarks]
    idle = [0 if counts else 3 * INFINITY for counts in counting]
    return Levels(lane, tops, [top + more for top, more in zip(tops, idle, strict=True)], idle)


def watermarks_of(lane: int, tops: list[int], floors: list[int]) -> Watermarks:
    """The watermarks at the end of a turn, in which a side may have become idle."""
    lower = min(floors)
    if lower < INFINITY:
        lane = max(lane, lower)
    return Watermarks(*[None if ts == -INFINITY else ts for ts in (lane, *tops)])
