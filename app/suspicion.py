"""Times that look as if they were in another unit than the one that was declared.

Seconds where milliseconds were meant lie in January 1970: such a side joins with nothing, and
nothing of it is wrong enough to be rejected. So a record of each batch is looked at, and people are
told once. Invariant: this decides about no record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from app.rows import moment
from schemas.records import Fault, Side
from schemas.times import NANOSECONDS_OF, NO_UNIT, RFC3339, scale_of

if TYPE_CHECKING:
    from app.config import Config
    from schemas.records import Parts

EARLIEST_NS: Final = 631_152_000 * 10**9
"""1990: few records are older, and none that is in another unit comes out after it by chance."""
LATEST_NS: Final = 4_102_444_800 * 10**9
"""2100."""

_log: Final = structlog.get_logger()


def likely_unit(ts: int, unit: str) -> str | None:
    """The unit that a time is likely in, if that is not `unit`; None where nothing is odd."""
    if unit == NO_UNIT or EARLIEST_NS <= ts * NANOSECONDS_OF[unit] < LATEST_NS:
        return None
    for other in ("s", "ms", "us", "ns"):
        if EARLIEST_NS <= ts * NANOSECONDS_OF[other] < LATEST_NS:
            return other
    return None


class Suspicion:
    """What a worker has seen of both sides' times."""

    def __init__(self, config: Config) -> None:
        self._unit = config.unit
        units = [config.fields(side).units.ts or config.unit for side in Side]
        self._declared = [config.unit if own == RFC3339 else own for own in units]
        self._scales = [scale_of(own, config.unit) for own in self._declared]
        self.sides: set[Side] = set()
        """Those whose times seem to be in another unit."""

    def look(self, side: Side, parts: Parts | Fault) -> None:
        """Look at one record of a side."""
        if side in self.sides or isinstance(parts, Fault):
            return
        ts, declared = parts[3], self._declared[side]
        likely = likely_unit(ts // self._scales[side], declared)
        if likely is None:
            return
        self.sides.add(side)
        _log.warning(
            f'the times look like "{likely}", not "{declared}": correct time_unit or unit',
            side=side.name.lower(),
            ts=ts,
            read_as=moment(ts, self._unit),
        )
