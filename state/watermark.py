"""Watermarks of a lane: how far event time has come, on each side and for both together.

A side's watermark is the largest ts it has shown. The lane's follows the smaller of those that
count; it never decreases, whatever a returning idle side or a restart brings. None is minus
infinity: below every ts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.checkpoint import Watermarks

if TYPE_CHECKING:
    from schemas.records import Side

BOTH_COUNT: Final = (True, True)
"""Neither side is idle."""


def advance(watermarks: Watermarks, side: Side, ts: int, counting: tuple[bool, bool]) -> Watermarks:
    """The watermarks after `side` showed `ts`; `counting` says which sides are not idle."""
    sides = [watermarks.left, watermarks.right]
    known = sides[side]
    sides[side] = ts if known is None else max(known, ts)
    return settle(Watermarks(watermarks.lane, *sides), counting)


def settle(watermarks: Watermarks, counting: tuple[bool, bool]) -> Watermarks:
    """The watermarks once idleness is `counting`: no event needed, nothing ever decreases.

    A counting side that never spoke holds the lane back; with no side counting all stays.
    """
    sides = [ts for ts, counts in zip(watermarks[1:], counting, strict=True) if counts]
    spoken = [ts for ts in sides if ts is not None]
    if not spoken or len(spoken) < len(sides):
        return watermarks
    low = min(spoken)
    if watermarks.lane is not None and low <= watermarks.lane:
        return watermarks
    return watermarks._replace(lane=low)
