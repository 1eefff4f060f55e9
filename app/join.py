"""The join of one lane: records in, effects out. The rules live here and nowhere else.

    invalid?    -> reject                       (nothing else happens)
    id known?   -> duplicate or conflict        known: a row of this id, wm <= its end + L + D
    late?       -> reject                       ts < wm - L
    INSERT      -> a row, and a match for each overlapping live row of the other side
    RETRACT     -> known: a tombstone for each such row; unknown: remembered, or past the horizon
    then        -> an INSERT or WATERMARK moves its side's watermark, whatever was decided
    at the end  -> an outer join looks for rows that are unmatched now, see `app.unmatched`

Invariant: all but the last line sees the watermark as it was before the event. Nothing here reads
a clock, and the store is read only through the windows, so a turn that is run again gives the same
effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.effects import (
    Counts,
    Decisions,
    Effects,
    Match,
    MatchValue,
    counts_of,
    directory_changes,
    emitted,
    stored_rows,
    without_dropped,
)
from app.unmatched import NOTHING, Due, Outer, Unmatched, no_index, reached, unmatched
from app.validity import Limits, fault_of, limits_of, rejected
from schemas.codec import Unresolved
from schemas.records import Arrival, Event, Fault, Kind, Reason, Rejected, event_of
from state.checkpoint import Bucket, Watermarks
from state.keys import LIVE, MET, REMEMBERED, RETRACTED, Row, row_size
from state.overlap import overlapping
from state.retention import OUTER_REACH, droppable, first_kept_end
from state.watermark import INFINITY, levels_of, watermarks_of
from state.window import FEW, Load, Rows, Windows, arrange, put, replace, retire

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Counts",
    "Effects",
    "JoinSettings",
    "LaneState",
    "abandon",
    "join",
    "limits_at",
    "settle",
]

_INSERT: Final = int(Kind.INSERT)
_ROW_OVERHEAD: Final = 32
"""Half of what a stored row takes beyond its key, id and value, and a bit."""


MATCHES_MAX: Final = 100_000
"""Matches of one turn of a lane: a hot key must not make a transaction that outlives its time."""


class JoinSettings(NamedTuple):
    """What a job's joins keep to; times in the job's unit, sizes in bytes.

    `lateness` L, `max_interval` D, `span` the width of a time bucket (fixed when the state was
    made), `max_future` None for off. A match of more than `match_bytes_max`, a row of more than
    `row_bytes_max` is rejected as too large. A turn ends after the record with which it has more
    than `matches_max` matches and tombstones. `outer` is None for an inner join.
    """

    lateness: int
    max_interval: int
    span: int
    max_future: int | None
    match_bytes_max: int
    row_bytes_max: int
    match_value: MatchValue
    matches_max: int = MATCHES_MAX
    outer: Outer | None = None


class LaneState:
    """What a lane holds in memory between turns: all of it committed.

    `load` gives the stored rows of a key in the given buckets, see `state.window.Load`. An outer
    join needs `due`, too, which reads the index by end, and how far it has `decided`.
    """

    __slots__ = ("buckets", "decided", "due", "watermarks", "windows")

    def __init__(
        self, watermarks: Watermarks, buckets: Mapping[int, Bucket], load: Load, span: int,
        due: Due = no_index, decided: bytes = b"",
    ) -> None:  # fmt: skip
        self.watermarks = watermarks
        self.buckets = dict(buckets)
        self.windows = Windows(load, self.buckets, span)
        self.due = due
        self.decided = decided


def limits_at(settings: JoinSettings, now: int | None) -> Limits:
    """What an event must keep to when the wall clock is `now`, None for whenever."""
    latest = None if now is None or settings.max_future is None else now + settings.max_future
    return limits_of(settings.lateness, settings.max_interval, latest)


def join(
    lane: LaneState,
    records: list[Arrival],
    settings: JoinSettings,
    now: int | None,
    counting: tuple[bool, bool],
    changelog_position: int,
) -> Effects:
    """Takes these records in this order, and returns what has to be committed.

    It takes fewer where they have more matches than fit in a turn; `Effects.taken` says how many.
    Of `lane` only the windows change; call `settle` once the effects are committed, `abandon`
    when they are not. `now` is the wall clock in the job's unit, for `max_future`. `counting`
    says which sides are not idle; a turn without records can move the watermark by it.
    `changelog_position` is the next offset of the lane's changelog. Raises Unresolved, with nothing
    changed, where a match cannot be written yet.
    """
    assert lane.windows.span == settings.span, "the span of a state never changes"
    horizon = settings.lateness + settings.max_interval
    decisions = Decisions()
    turn = _Turn(
        lane.windows,
        settings.lateness,
        horizon,
        settings.row_bytes_max,
        settings.matches_max,
        decisions,
    )
    watermarks, taken = _decide(turn, records, limits_at(settings, now), lane.watermarks, counting)
    rows, figures = stored_rows(decisions, lane.windows)
    matches, too_large, lone = _emitted(lane, decisions, settings, watermarks.lane, taken)
    rejects = decisions.rejects + too_large
    kept_from, reach = watermarks.lane, 1
    if settings.outer is not None:
        kept_from, reach = reached(lone.decided, horizon), OUTER_REACH

    changes = directory_changes(lane.buckets, figures, changelog_position)
    directory = lane.buckets | changes
    dropped = droppable(directory, kept_from, horizon, settings.span, reach)
    expired = sum([directory[bucket].remembered for bucket in dropped])
    if not changes.keys().isdisjoint(dropped):
        rows = without_dropped(rows, dropped)
    for bucket in dropped:
        changes[bucket] = Bucket(0, 0, 0, 0, 0, directory[bucket].first_offset)

    return Effects(
        taken=taken,
        changed=bool(records or dropped)
        or (watermarks, lone.decided) != (lane.watermarks, lane.decided),
        rows=rows,
        matches=matches,
        rejects=rejects,
        watermarks=watermarks,
        buckets=changes,
        dropped=dropped,
        touched=decisions.touched(),
        counts=counts_of(decisions, matches, rejects, expired, len(lone.records)),
        decided=lone.decided,
    )


def _emitted(
    lane: LaneState,
    decisions: Decisions,
    settings: JoinSettings,
    watermark: int | None,
    records: int,
) -> tuple[list[Match], list[Rejected], Unmatched]:
    try:
        matches, too_large = emitted(
            decisions.pairs, settings.match_value, settings.match_bytes_max
        )
        if settings.outer is None:
            return matches, too_large, NOTHING
        lone = unmatched(settings, lane, decisions, watermark, records)
        return matches + lone.records, too_large + lone.rejects, lone
    except Unresolved:
        lane.windows.forget(decisions.touched())
        raise


def settle(lane: LaneState, effects: Effects) -> None:
    """The effects are committed: what they say is now what the lane is."""
    lane.watermarks = effects.watermarks
    lane.decided = effects.decided
    lane.buckets.update(effects.buckets)
    for bucket in effects.dropped:
        del lane.buckets[bucket]
    span = lane.windows.span
    bound = first_kept_end(effects.dropped[-1], span) if effects.dropped else 0
    lane.windows.settle(effects.dropped, bound)


def abandon(lane: LaneState, effects: Effects) -> None:
    """The effects will never be committed: forgets what the turn changed in memory."""
    lane.windows.forget(effects.touched)


class _Turn(NamedTuple):
    """What deciding one event needs besides the event, its side and the watermark."""

    windows: Windows
    lateness: int
    horizon: int
    row_bytes_max: int
    matches_max: int
    decisions: Decisions


def _decide(
    turn: _Turn,
    records: list[Arrival],
    limits: Limits,
    watermarks: Watermarks,
    counting: tuple[bool, bool],
) -> tuple[Watermarks, int]:
    """The records in their order; returns the watermarks at the turn's end, and how many it took.

    This loop is most of what a turn costs. So a valid INSERT, which is what nearly every record
    is, is decided here, and everything else elsewhere; the watermarks move as `state.watermark`
    says, one event at a time.
    """
    low, high, length_max, latest = limits
    windows, lateness, horizon, row_bytes_max, matches_max, decisions = turn
    table, pairs, inserted = windows.table, decisions.pairs, decisions.inserted
    # An id is no longer than the value it is in: a small row needs no exact size.
    small = row_bytes_max // 2 - _ROW_OVERHEAD
    wm, tops, floors, idle = levels_of(watermarks, counting)
    for record in records:
        _, side, _, key, row, _ = record
        if type(row) is Fault:
            _, _, offset, _, _, source = record
            decisions.rejects.append(Rejected(offset, *row, source))
            continue
        end, start, row_id, ts, kind, value = row
        if (
            kind == _INSERT
            and key is not None
            and low <= start <= ts <= end <= high
            and end - start <= length_max
            and ts <= latest
        ):
            window = table.get(key) or windows.open(key)
            mine, theirs = window[side], window[1 - side]
            mine.used = True
            known = mine.get(row_id)
            if known is not None and wm <= known[0] + horizon:
                _insert_known(decisions, record, mine, known)
            elif ts < wm - lateness:
                _reject_late(turn, _event(record), wm)
            elif len(key) + len(value) <= small or _fits(turn, _event(record), key, value):
                _accept(mine, theirs, record, row, pairs)
                inserted.append(record)  # type: ignore[arg-type] # Its key and parts were seen.
        elif not _decide_other(turn, record, limits, wm):
            continue
        if ts > tops[side]:
            tops[side] = ts
            floors[side] = ts + idle[side]
            lower = floors[0] if floors[0] < floors[1] else floors[1]  # noqa: FURB136 - a call costs
            if wm < lower < INFINITY:
                wm = lower
        if len(pairs) > matches_max:
            taken = next(at for at, one in enumerate(records, 1) if one is record)
            return watermarks_of(wm, tops, floors), taken
    return watermarks_of(wm, tops, floors), len(records)


def _accept(
    mine: Rows,
    theirs: Rows,
    record: Arrival,
    row: Row,
    pairs: list[tuple[Row, Row, Arrival | None]],
) -> None:
    """Notes the matches of a new row, and puts it into its window.

    `overlapping` and `put`, written out for sides of few rows, which is what nearly every one is.
    """
    end, start, row_id, _, _, _ = row
    side = record[1]
    if theirs.shelves is not None:
        found = overlapping(theirs, start, end)
        pairs += [(other, row, record) if side else (row, other, record) for other in found]
    else:
        for other in reversed(theirs.values()):
            if other[0] < start:
                break
            if other[1] <= end and other[4] == LIVE:
                pairs.append((other, row, record) if side else (row, other, record))
    if row_id in mine:
        put(mine, row)
        return
    mine[row_id] = row
    if mine.last <= end and len(mine) <= FEW:
        mine.last = end
    else:
        arrange(mine, row)


def _event(record: Arrival) -> Event:
    """By names, where that is no matter of speed."""
    _, _, offset, key, parts, source = record
    assert not isinstance(parts, Fault)
    return event_of(offset, key, parts, source)


def _decide_other(turn: _Turn, record: Arrival, limits: Limits, wm: int) -> bool:
    """A record that is no valid INSERT; returns whether it moves its side's watermark."""
    event = _event(record)
    fault = fault_of(event, limits)
    if fault is not None:
        turn.decisions.rejects.append(rejected(event, *fault))
        return False
    if event.kind == Kind.WATERMARK:
        turn.decisions.watermarks += 1
        return True
    assert event.kind == Kind.RETRACT
    assert event.key is not None
    _retract(turn, record, event, wm)
    return False


def _reject_late(turn: _Turn, event: Event, wm: int) -> None:
    lateness = turn.lateness
    detail = f"ts {event.ts} is more than the allowed lateness {lateness} before watermark {wm}"
    turn.decisions.rejects.append(rejected(event, Reason.LATE, detail))


def _insert_known(decisions: Decisions, record: Arrival, mine: Rows, known: Row) -> None:
    """An INSERT whose id is known: the first wins, and a retracted one stays retracted."""
    event, side = _event(record), record[1]
    end, start, _, _, flags, value = known
    if flags == LIVE:
        if (start, end) != (event.start, event.end):
            detail = f"id {event.id} has [{start}, {end}] already, not [{event.start}, {event.end}]"
            decisions.rejects.append(rejected(event, Reason.CONFLICTING_DUPLICATE, detail))
            return
        decisions.duplicate_changed += value != event.value
    elif flags == REMEMBERED:
        assert event.key is not None
        met = replace(mine, known, MET, known[5])
        decisions.replaced.append((event.key, side, known, met))
    decisions.duplicates += 1


def _retract(turn: _Turn, record: Arrival, event: Event, wm: int) -> None:
    """A valid RETRACT."""
    windows, _, horizon, _, _, decisions = turn
    rank, side, offset, key, _, source = record
    assert key is not None
    window = windows.table.get(key) or windows.open(key)
    mine = window[side]
    mine.used = True
    known = mine.get(event.id)
    if known is not None and wm <= known[0] + horizon:
        if known[4] != LIVE:
            decisions.duplicates += 1
            return
        for other in overlapping(window[1 - side], known[1], known[0]):
            decisions.pairs.append((other, known, None) if side else (known, other, None))
        gone = retire(mine, known, RETRACTED)
        decisions.replaced.append((key, side, known, gone))
    elif wm > event.end + horizon:
        detail = f"end {event.end} is more than {horizon} before watermark {wm}"
        decisions.rejects.append(rejected(event, Reason.RETRACT_AFTER_HORIZON, detail))
    elif _fits(turn, event, key, b""):
        row: Row = (event.end, event.start, event.id, event.ts, REMEMBERED, b"")
        put(mine, row)
        decisions.remembered.append((rank, side, offset, key, row, source))


def _fits(turn: _Turn, event: Event, key: bytes, value: bytes) -> bool:
    """Whether the row can be stored; rejects the event if not."""
    size = row_size(key, event.id, value)
    if size <= turn.row_bytes_max:
        return True
    detail = f"a row of {size} bytes, the most is {turn.row_bytes_max}"
    turn.decisions.rejects.append(rejected(event, Reason.TOO_LARGE, detail))
    return False
