"""Durations and sizes as people write them, turned into exact integers.

Invariant: no value is ever rounded. What cannot be said exactly in the wanted unit is refused.
"""

from __future__ import annotations

import re
from typing import Final

NANOSECONDS: Final = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
}
TICKS_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
SIZES: Final = {
    "B": 1,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_NUMBER: Final = re.compile(r"(-?[0-9]+)\s*([A-Za-z]*)")
DURATION_HINT: Final = 'an integer, or a duration such as "10s" (ms, s, m, h, d)'
SIZE_HINT: Final = 'a number of bytes, or a size such as "256MB" (KB, MB, GB, KiB, MiB, GiB)'


def duration(raw: int | str, unit: str) -> int:
    """`raw` in ticks of `unit` (ms, us, ns, or "none"); an integer is in ticks already.

    Raises ValueError, whose text completes the sentence "<key> ...".
    """
    number, suffix = _split(raw, DURATION_HINT)
    if number < 0:
        raise ValueError(f"must not be negative, but is {raw}")
    if not suffix:
        return number
    if suffix not in NANOSECONDS:
        raise ValueError(f"must be {DURATION_HINT}, but is {raw!r}")
    if unit == "none":
        raise ValueError(f'must be an integer because unit = "none", but is {raw!r}')
    return number * NANOSECONDS[suffix] * TICKS_PER_MS[unit] // NANOSECONDS["ms"]


def size(raw: int | str) -> int:
    """`raw` in bytes. Raises ValueError, whose text completes the sentence "<key> ..."."""
    number, suffix = _split(raw, SIZE_HINT)
    if number <= 0:
        raise ValueError(f"must be greater than 0, but is {raw}")
    if suffix and suffix not in SIZES:
        raise ValueError(f"must be {SIZE_HINT}, but is {raw!r}")
    return number * SIZES[suffix or "B"]


def _split(raw: object, hint: str) -> tuple[int, str]:
    # bool is an int to Python, but `max_interval = true` is a slip, not one millisecond.
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw, ""
    found = _NUMBER.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if found is None:
        raise ValueError(f"must be {hint}, but is {raw!r}")
    return int(found[1]), found[2]
