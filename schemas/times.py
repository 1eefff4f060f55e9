"""Moments in time as records write them, turned into whole numbers of the job's unit.

Invariant: exact or refused. Nothing is rounded, and no number passes through a float.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from schemas.varint import Malformed

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
RFC3339: Final = "rfc3339"
"""Declared instead of a unit: the time is a text such as 2025-03-03T06:00:00Z."""

DIGITS_MAX: Final = 40
"""Digits of a number, before and after the point each: twice what int64 takes."""
_NUMBER: Final = re.compile(
    rf"(-?)(0|[1-9][0-9]{{0,{DIGITS_MAX - 1}}})(?:\.([0-9]{{1,{DIGITS_MAX}}}))?"
    r"(?:[eE]([+-]?[0-9]{1,2}))?"
)
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SHOWN_MAX: Final = 60


def scale_of(own: str | None, unit: str) -> int:
    """How many of the job's `unit` one `own` is; None is the job's unit itself.

    Raises ValueError where that is no whole number: digits would be lost. Its text completes the
    sentence "<what> ...".
    """
    if own is None or own == unit:
        return 1
    if NO_UNIT in (own, unit):
        raise ValueError(f'is "{own}", which cannot be turned into unit = "{unit}"')
    if own == RFC3339:
        return 1  # A text says by itself how fine it is.
    scale, rest = divmod(NANOSECONDS_OF[own], NANOSECONDS_OF[unit])
    if rest:
        raise ValueError(
            f'is "{own}", finer than unit = "{unit}": digits would be lost; set unit = "{own}"'
        )
    return scale


def whole_number(text: str, scale: int = 1) -> int:
    """The whole number that a number in JSON's notation is, times `scale`.

    Raises Malformed for any other text and where it is not whole; the text says what it is.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise Malformed(f"is {shown(text)}, not a number of at most {DIGITS_MAX} digits")
    sign, integer, fraction, power = found.groups("")
    number = int(integer + fraction) * scale
    exponent = int(power or 0) - len(fraction)
    # 10 to a negative power would be a float.
    power_of_ten = int("1" + "0" * abs(exponent))
    if exponent >= 0:
        number *= power_of_ten
    else:
        number, rest = divmod(number, power_of_ten)
        if rest:
            raise Malformed(f"is {shown(text)}: digits would be lost in the job's unit")
    return -number if sign else number


def moment_of(text: str, unit: str) -> int:
    """The time of an RFC 3339 text, in `unit` since 1970.

    Raises Malformed for any other text, and where it has digits that the unit has no place for;
    the text says what it is.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Malformed(f"is {shown(text)}, not an RFC 3339 time such as 2025-03-03T06:00:00Z")
    year, month, day, hour, minute, second, fraction, sign, ahead_h, ahead_min = found.groups("")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise Malformed(f"is {shown(text)}: {error}") from None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59 or int(ahead_min or 0) > 59:  # noqa: PLR2004 - a clock's
        # A leap second has no number of its own in epoch time.
        raise Malformed(f"is {shown(text)}: there is no such time of day")
    ahead_s = (int(ahead_h or 0) * 60 + int(ahead_min or 0)) * 60 * (-1 if sign == "-" else 1)
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second) - ahead_s
    nanoseconds = seconds * NANOSECONDS_OF["s"] + int(fraction.ljust(9, "0") or 0)
    ticks, rest = divmod(nanoseconds, NANOSECONDS_OF[unit])
    if rest:
        raise Malformed(f'is {shown(text)}, finer than unit = "{unit}": digits would be lost')
    return ticks


def shown(value: object) -> str:
    """A value in an error, not too long of it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
