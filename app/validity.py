"""Which events are valid at all: the checks that need neither a watermark nor a stored row.

The join's inner loop has these checks written out for the common case, a valid INSERT; here is
the whole list, in the order in which the first failure names the reason.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.records import INT64_MAX, INT64_MIN, Event, Kind, Reason, Rejected


class Limits(NamedTuple):
    """What a valid event keeps to, in the job's unit.

    `low` <= every time <= `high`: room for L + 4D at both ends of int64, so that no horizon
    overflows. `length_max` is the max interval. No ts is after `latest`, the wall clock plus
    `max_future`; infinity (beyond `high`) where that is off.
    """

    low: int
    high: int
    length_max: int
    latest: int


def limits_of(lateness: int, max_interval: int, latest: int | None) -> Limits:
    """The limits for these bounds; `latest` is the last ts allowed now, None for any."""
    room = lateness + 4 * max_interval
    high = INT64_MAX - room
    return Limits(INT64_MIN + room, high, max_interval, high if latest is None else latest)


def in_64_bits(limits: Limits) -> tuple[int, int, int, int]:
    """The same in 64 bits, for compiled loops; what a larger one lets pass is not theirs."""
    low, high, length_max, latest = limits
    return low, high, min(length_max, INT64_MAX), min(latest, INT64_MAX)


def fault_of(event: Event, limits: Limits) -> tuple[Reason, str] | None:
    """Why the event is invalid, with a detail for people; None if it is not."""
    kind = event.kind
    if event.key is None and kind != Kind.WATERMARK:
        return Reason.NULL_KEY, "a record without a key joins with nothing"
    for name, moment in _times(event):
        if not limits.low <= moment <= limits.high:
            detail = f"{name} {moment} is outside [{limits.low}, {limits.high}]"
            return Reason.OUT_OF_RANGE, detail
    fault = None if kind == Kind.WATERMARK else _interval_fault(event, limits.length_max)
    if fault is None and event.ts > limits.latest:
        return Reason.FUTURE_TS, f"ts {event.ts} is after {limits.latest}, the latest taken now"
    return fault


def _interval_fault(event: Event, length_max: int) -> tuple[Reason, str] | None:
    ts, start, end = event.ts, event.start, event.end
    if start > end:
        return Reason.INVALID_INTERVAL, f"start {start} is after end {end}"
    # A retraction may be stamped when it happens.
    if event.kind == Kind.INSERT and not start <= ts <= end:
        return Reason.INVALID_INTERVAL, f"ts {ts} is outside its interval [{start}, {end}]"
    if end - start > length_max:
        detail = f"end - start = {end - start}, the max interval is {length_max}"
        return Reason.INTERVAL_TOO_LONG, detail
    return None


def _times(event: Event) -> tuple[tuple[str, int], ...]:
    if event.kind == Kind.WATERMARK:  # Only its ts means anything.
        return (("ts", event.ts),)
    return ("ts", event.ts), ("start", event.start), ("end", event.end)


def rejected(event: Event, reason: Reason, detail: str) -> Rejected:
    """The reject of this event: its position, and its source to copy the bytes from."""
    return Rejected(event.offset, reason, detail, event.source)
