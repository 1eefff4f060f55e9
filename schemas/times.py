"""Moments in time as records write them, turned into whole numbers of the job's unit.

Invariant: exact or refused. Nothing is rounded, and no number passes through a float.
"""

from __future__ import annotations

from typing import Final

NANOSECONDS_OF: Final = {
    "d": 86_400_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""A unit of time -> how long it is."""

NO_UNIT: Final = "none"
"""The unit of plain numbers, which have nothing to do with a clock."""


def scale_of(own: str | None, unit: str) -> int:
    """How many of the job's `unit` one `own` is; None is the job's unit itself.

    Raises ValueError where that is no whole number: digits would be lost. Its text completes the
    sentence "<what> ...".
    """
    if own is None or own == unit:
        return 1
    if NO_UNIT in (own, unit):
        raise ValueError(f'is "{own}", which cannot be turned into unit = "{unit}"')
    scale, rest = divmod(NANOSECONDS_OF[own], NANOSECONDS_OF[unit])
    if rest:
        raise ValueError(
            f'is "{own}", finer than unit = "{unit}": digits would be lost; set unit = "{own}"'
        )
    return scale
