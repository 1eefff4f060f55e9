"""Outer joins: which rows a turn finds to be without a match, for good.

A row e is *due* once wm > e.end + L + D: nothing can match it any more, so from then on it can only
lose matches. It is written as unmatched as soon as it is due, was not retracted, and has no match
left; and as it can never get one again, that is never taken back, and never written twice.

Every due row is decided about once, in the order of the index by end (`state.due`); `decided` says
how far that has come. A turn looks at the rows that are due at its end and not decided about, and
at the rows decided about that lost a match in it. So what is written in the end follows from rows
and watermarks alone, however the records are split into turns and however many rows a turn looks
at: between the moment at which a row is due and that at which it is looked at, nothing can happen
to it but that it loses a match, and then it would have been written anyway.

Invariant: each row is looked at by exactly one of the two ways. A row that is due and not decided
about is left alone when it loses a match: its turn is still to come.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from app.effects import MATCH_OVERHEAD, Decisions, Match
from schemas.match_id import unmatched_id
from schemas.records import NO_OFFSET, Reason, Rejected, Side
from state.due import end_of, entry_of, first_entry, parse_entries
from state.keys import LIVE, Row
from state.overlap import meets, overlapping
from state.retention import longest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.join import JoinSettings, LaneState
    from state.side import Rows
    from state.window import Windows

UnmatchedValue = Callable[[int, int, int, bytes], bytes]
"""(side, start, end, the row's value) -> the value of its output record."""

Due = Callable[[bytes, bytes, int], list[bytes]]
"""(first, after, count) -> the first so many committed index entries in [first, after), sorted."""


def no_index(_first: bytes, _after: bytes, _count: int) -> list[bytes]:
    """What an inner join's store has of it."""
    return []


DUE_MAX: Final = 2_000
"""Due rows that a turn of a lane looks at beyond twice its records: about 20 ms. In the long run as
many rows become due as come in; what a jump in time leaves waits for the turns after it."""
LOADED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a turn reads into memory for due rows, as windows count it, before it leaves the rest to the
next one: about 200 ms. Due rows may be few, and of keys that have many rows more."""

FETCHED_AT_ONCE: Final = 100
"""Due rows whose windows are read together."""


class Outer(NamedTuple):
    """What makes a join an outer one. Sizes in bytes; `value` may raise what a codec raises."""

    sides: tuple[Side, ...]
    value: UnmatchedValue
    due_max: int


class Unmatched(NamedTuple):
    """What a turn finds: output records, those that are too large, and how far it has decided."""

    records: list[Match]
    rejects: list[Rejected]
    decided: bytes


NOTHING: Final = Unmatched([], [], b"")
"""Of an inner join."""


def reached(decided: bytes, horizon: int) -> int | None:
    """The watermark up to which every due row was decided about, None for minus infinity."""
    return end_of(decided) + horizon if decided else None


def unmatched(
    settings: JoinSettings,
    lane: LaneState,
    decisions: Decisions,
    watermark: int | None,
    records: int,
) -> Unmatched:
    """The unmatched rows of a turn of an outer join, each once.

    The windows are as the turn leaves them, the watermark is the lane's at its end, and `records`
    is how many it took.
    """
    outer = settings.outer
    assert outer is not None, "an inner join writes no unmatched rows"
    decided = lane.decided
    # The rows of this turn are not in the directory yet.
    reach = max(settings.max_interval, longest(lane.buckets.values()))
    found = list(dict(_bereft(outer, lane, decisions, reach)).values())
    if watermark is not None:
        after = first_entry(watermark - settings.lateness - settings.max_interval)
        if after > decided:
            count = outer.due_max + 2 * records
            fresh = _fresh(outer, decisions, after)
            entries = sorted(chain(lane.due(decided, after, count + 1), fresh))
            looked = _look(lane.windows, entries[:count], reach, found)
            decided = after if looked == len(entries) else entries[looked - 1] + b"\x00"
    return Unmatched(*_emitted(outer, found, settings.match_bytes_max), decided)


def _bereft(
    outer: Outer, lane: LaneState, decisions: Decisions, reach: int
) -> Iterator[tuple[bytes, tuple[int, Row]]]:
    """Rows decided about before this turn, of which it has retracted the last match, by entry.

    Some more than once: the turn may have retracted several matches of theirs.
    """
    if not lane.decided:
        return
    edge = end_of(lane.decided)
    for key, side, before, _ in decisions.replaced:
        other = 1 - side
        if before[4] != LIVE or other not in outer.sides:
            continue
        window = lane.windows.table[key]
        for row in overlapping(window[other], before[1], before[0]):
            if row[0] > edge:
                continue
            entry = entry_of(other, key, *row[:3])
            if entry < lane.decided and not meets(window[side], row[1], row[0], reach):
                yield entry, (other, row)


def _fresh(outer: Outer, decisions: Decisions, after: bytes) -> Iterator[bytes]:
    """Entries of rows that became due in the very turn that inserted them."""
    end_bound = end_of(after)
    for _, side, _, key, row, _ in decisions.inserted:
        if row[0] < end_bound and side in outer.sides:
            yield entry_of(side, key, *row[:3])


def _look(windows: Windows, due: list[bytes], reach: int, found: list[tuple[int, Row]]) -> int:
    """Adds those of the rows that are live and have no match; returns how many it looked at."""
    table, full = windows.table, windows.size + LOADED_BYTES_MAX
    entries = list(parse_entries(due))
    for at, (side, key, end, start, row_id) in enumerate(entries):
        if at % FETCHED_AT_ONCE == 0:
            if windows.size > full:
                return at
            windows.fetch([entry[1] for entry in entries[at : at + FETCHED_AT_ONCE]])
        window = table.get(key) or windows.open(key)
        row = window[side].get(row_id)
        if row is None or row[0] != end or row[1] != start:
            row = _older(window[side], end, start, row_id)
        if row[4] == LIVE and not meets(window[1 - side], start, end, reach):
            found.append((side, row))
    return len(due)


def _older(side: Rows, end: int, start: int, row_id: str) -> Row:
    """The row of an id under which there is a newer one."""
    wanted = end, start, row_id
    row = next((one for one in side.values() if one[:3] == wanted), None)
    assert row is not None, f"the index has a row {row_id} that is not stored"
    return row


def _emitted(
    outer: Outer, found: list[tuple[int, Row]], bytes_max: int
) -> tuple[list[Match], list[Rejected]]:
    """The output records of unmatched rows, and those that are too large."""
    records: list[Match] = []
    rejects: list[Rejected] = []
    for side, (end, start, row_id, ts, _, value) in found:
        name, record = unmatched_id(side, row_id), outer.value(side, start, end, value)
        size = len(name) + len(record)
        if size > bytes_max - MATCH_OVERHEAD:
            detail = f"the unmatched {Side(side).name.lower()} id {row_id} takes {size} bytes"
            rejects.append(Rejected(NO_OFFSET, Reason.TOO_LARGE, detail, Side(side), name))
        else:
            records.append((name, record, ts))
    return records, rejects
