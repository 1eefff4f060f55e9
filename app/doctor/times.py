"""Whether the events' times can be what the configuration says they are.

A wrong unit makes no error: seconds taken for milliseconds are moments of 1970, and every interval
is a thousand times too short.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING, Final, NamedTuple

from app.doctor.finding import Finding, fail, ok, warn
from app.rows import moment
from app.suspicion import likely_unit
from app.units import TICKS_PER_MS
from schemas.times import NANOSECONDS_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANCIENT_YEARS: Final = 20
_YEAR_MS: Final = 365 * 86_400_000


class Times(NamedTuple):
    """Times of a sample of a side's records, in the job's unit.

    `scale`: how many of the job's units one unit of its records is.
    """

    name: str
    moments: Sequence[int]
    scale: int


def time_findings(
    side: Times, unit: str, side_unit: str, now_ms: int, max_future: int | None
) -> list[Finding]:
    """What is odd about the times of a side.

    `unit`: the job's; `side_unit`: the one in which its records are said to be written.
    `max_future`: how far ahead of now an event may be, in the job's unit.
    """
    if not side.moments or unit == "none":
        return []
    middle = median_low(side.moments)
    guess = likely_unit(middle // side.scale, side_unit)
    if guess is not None:
        return [
            fail(
                f"times: those of {side.name} look like {guess}, such as {middle // side.scale}, "
                f"but are configured as {side_unit}",
                _unit_mend(side.name, unit, guess),
            )
        ]
    per_ms = TICKS_PER_MS[unit]
    now = now_ms * per_ms
    first, last = min(side.moments), max(side.moments)
    if max_future is not None and first > now + max_future:
        return [
            fail(
                f"times: all sampled ones of {side.name} are in the future, from "
                f"{moment(first, unit)} on, and are rejected as future_ts",
                "look at its producer's clock and unit, or raise join.max_future",
            )
        ]
    found = []
    ahead = 0 if max_future is None else sum(ts > now + max_future for ts in side.moments)
    if ahead:
        found.append(
            warn(
                f"times: {ahead} of {len(side.moments)} sampled ones of {side.name} are further "
                f"in the future than join.max_future, and are rejected",
                "look at its producer's clock",
            )
        )
    if last < now - _ANCIENT_YEARS * _YEAR_MS * per_ms:
        found.append(
            warn(
                f"times: the newest sampled one of {side.name} is {moment(last, unit)}",
                "if that is not so, look at unit and time_unit",
            )
        )
    return found or [
        ok(
            f"times: sampled {side.name} records are of {moment(first, unit)} to "
            f"{moment(last, unit)}"
        )
    ]


def _unit_mend(name: str, unit: str, guess: str) -> str:
    if NANOSECONDS_OF[guess] < NANOSECONDS_OF[unit]:
        return f'set unit = "{guess}" for the job, and time_unit on a side that is coarser'
    return f'set {name}.time_unit = "{guess}"'


def overlap_findings(left: Times, right: Times, unit: str, reach: int) -> list[Finding]:
    """Whether the sampled times of both sides come near each other.

    `reach`: how far apart two rows can be and still match, in the job's unit.
    """
    if not left.moments or not right.moments:
        return []
    early, late = sorted((left, right), key=lambda side: max(side.moments))
    if max(early.moments) + reach >= min(late.moments):
        return []
    return [
        warn(
            f"times: the newest sampled records of {early.name} end at "
            f"{moment(max(early.moments), unit)}, those of {late.name} begin at "
            f"{moment(min(late.moments), unit)}: they are too far apart to match",
            f"if {early.name} is not merely behind, look at the units of both sides",
        )
    ]
