"""The curves: which settings, what is along the axis, how flat it should be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.curves.events import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL: Final = Setting()
LONGEST_MS: Final = 2_000_000
WINDOWS_MB: Final = 16
"""A limit that the windows of no point of the curve fit into."""


@dataclass(frozen=True)
class Curve:
    """One curve, or two in one picture: name of a line -> x -> what is measured there."""

    file: str
    title: str
    along: str
    lines: Mapping[str, Mapping[float, Setting]]
    says: str
    """What is the same at all points, and what is not."""
    bound: float | None = None
    """Most that the last point of the first line may cost, in multiples of its first."""
    factors: bool = True
    """Whether the axis goes in factors."""


def _states(cache_mb: int) -> dict[float, Setting]:
    return {
        rows: replace(
            USUAL, lateness=rows - USUAL.max_interval, fill=rows * 5 // 4, cache_mb=cache_mb
        )
        for rows in (25_000, 50_000, 125_000, 250_000, 500_000)
    }


CURVES: Final = (
    Curve(
        "max-interval",
        "Max interval",
        "max interval, s",
        {
            "": {
                longest / 1000: replace(
                    USUAL, max_interval=longest, lateness=LONGEST_MS + 10_000 - longest
                )
                for longest in (20_000, 60_000, 200_000, 600_000, LONGEST_MS)
            }
        },
        "The same intervals of 20 s; allowed lateness and max interval together stay 2 010 s, so "
        "that the state is the same.",
        bound=1.1,
    ),
    Curve(
        "state",
        "State",
        "live rows",
        {"in memory": _states(4_096), f"limit of {WINDOWS_MB} MB": _states(WINDOWS_MB)},
        "The retention grows, the rate stays, so the rows of a key grow, too. Where windows do not "
        "fit, a key that is not in memory is read from RocksDB (whose files the page cache has).",
    ),
    Curve(
        "keys",
        "One hot key",
        "keys",
        {"": {keys: replace(USUAL, keys=keys, reach=keys) for keys in (10_000, 1_000, 100, 10, 1)}},
        "Half a match a record everywhere: the intervals are 2 ms long for one key, 20 s for "
        "10 000. The ratio is that of one key to 10 000.",
        bound=1.5,
    ),
    Curve(
        "matches",
        "Matches",
        "matches a record",
        {
            "": {
                5_000 / keys: replace(USUAL, keys=keys, records=records, turn=turn)
                for keys, records, turn in (
                    (50_000, 100_000, 10_000),
                    (5_000, 100_000, 10_000),
                    (500, 40_000, 10_000),
                    (50, 10_000, 1_000),
                )
            }
        },
        "Fewer keys, all else the same.",
    ),
    Curve(
        "lanes",
        "Lanes",
        "lanes of one worker",
        {"": {lanes: replace(USUAL, lanes=lanes) for lanes in (1, 4, 16, 64)}},
        "10 000 records a turn over all lanes; a changelog record and a store's write each.",
        bound=1.2,
    ),
    Curve(
        "lengths",
        "Mixed lengths",
        "spread of the lengths (1: from 0 to the max interval of 40 s)",
        {
            "": {
                spread: replace(USUAL, spread=spread, max_interval=40_000)
                for spread in (0.0, 0.25, 0.5, 0.75, 1.0)
            }
        },
        "Right intervals are 20 s long on average, evenly spread around that.",
        factors=False,
    ),
    Curve(
        "retractions",
        "Retractions",
        "share of retractions, %",
        {"": {share: replace(USUAL, retractions=share / 100) for share in (0, 5, 10, 20, 30)}},
        "Of rows of the last seconds, with tombstones for their matches.",
        factors=False,
    ),
)

EXPIRY: Final = replace(USUAL, lateness=80_000, turn=1_000, fill=150_000, records=300_000)
"""100 000 live rows; a bucket of 25 s comes to its end every 25 turns."""
