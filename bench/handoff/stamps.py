"""Row ids that carry their lane and the moment in which they were sent: `<lane>.<microseconds>`.

The clock is the machine's monotonic one, which all its processes share. So whoever reads a match
knows its lane and how long ago the later of its two rows was sent, without a table to look up.
"""

from __future__ import annotations

import time
from typing import NamedTuple


class Stamp(NamedTuple):
    """What a match says of itself."""

    lane: int
    sent_us: int
    """When the later of its two rows was sent."""


def now_us() -> int:
    """The time that stamps are made of."""
    return time.monotonic_ns() // 1000


def row_id(lane: int, sent_us: int) -> str:
    """The id of a row; unique if no lane is given the same microsecond twice."""
    return f"{lane}.{sent_us}"


def parse(match: bytes) -> Stamp:
    """The stamp of a match from `L:<id>|R:<id>`; raises ValueError for anything else."""
    left, right = match.split(b"|")
    lane, left_us = left[2:].split(b".")
    return Stamp(int(lane), max(int(left_us), int(right.partition(b".")[2])))
