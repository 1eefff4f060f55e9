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

_MINUS_INFINITY: Final = -(2**80)
_INFINITY: Final = 2**80


class Levels(NamedTuple):
    """Watermarks as plain numbers, for a loop that compares and moves them.

    `tops` are the sides' watermarks. `floors` are the same, but for an idle side infinite: the
    lower floor is what the lane's watermark follows.
    """

    lane: int
    tops: list[int]
    floors: list[int]


def levels_of(watermarks: Watermarks, counting: tuple[bool, bool]) -> Levels:
    """The watermarks at the beginning of a turn; `counting` says which sides are not idle."""
    lane, *tops = [_MINUS_INFINITY if ts is None else ts for ts in watermarks]
    floors = [top if counts else _INFINITY for top, counts in zip(tops, counting, strict=True)]
    return Levels(lane, tops, floors)


def watermarks_of(lane: int, tops: list[int], floors: list[int]) -> Watermarks:
    """The watermarks at the end of a turn, in which a side may have become idle."""
    lower = min(floors)
    if lower < _INFINITY:
        lane = max(lane, lower)
    return Watermarks(*[None if ts == _MINUS_INFINITY else ts for ts in (lane, *tops)])
