"""What becomes of each record of a turn. The rules of the join live here and nowhere else.

    invalid?    -> reject                       (nothing else happens)
    id known?   -> duplicate or conflict        known: a row of this id, wm <= its end + L + D
    late?       -> reject                       ts < wm - L
    INSERT      -> a row, and a match for each overlapping live row of the other side
    RETRACT     -> known: a tombstone for each such row; unknown: remembered, or past the horizon
    then        -> an INSERT or WATERMARK moves its side's watermark, whatever was decided

Invariant: all but the last line sees the watermark as it was before the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.validity import fault_of, in_64_bits, rejected
from native import loops
from native.interface import Deciding
from schemas.records import Fault, Kind, Reason, Rejected, event_of
from state.checkpoint import Watermarks
from state.keys import LIVE, MET, REMEMBERED, RETRACTED, row_size
from state.overlap import overlapping
from state.side import FEW, arrange, put, replace, retire
from state.watermark import INFINITY, levels_of, watermarks_of

if TYPE_CHECKING:
    from app.effects import Decisions
    from app.validity import Limits
    from native.interface import Loops
    from schemas.records import Arrival, Event
    from state.keys import Row
    from state.side import Rows
    from state.window import Windows

_INSERT: Final = int(Kind.INSERT)
_ROW_OVERHEAD: Final = 32
"""Half of what a stored row takes beyond its key, id and value, and a bit."""


class Turn(NamedTuple):
    """What deciding one record needs besides the record, the limits and the watermark.

    Times are in the job's unit, `row_bytes_max` in bytes; `matches_max` as in `JoinSettings`.
    """

    windows: Windows
    lateness: int
    horizon: int
    row_bytes_max: int
    matches_max: int
    decisions: Decisions


def decide(
    turn: Turn,
    records: list[Arrival],
    limits: Limits,
    watermarks: Watermarks,
    counting: tuple[bool, bool],
) -> tuple[Watermarks, int]:
    """The records in their order; returns the watermarks at the turn's end, and how many it took.

    `counting` says which sides are not idle. The watermarks move as `state.watermark` says, one
    event at a time.
    """
    turn.windows.prepare(records)
    taken = 0
    if loops is not None:
        taken, watermarks = _decide_compiled(loops, turn, records, limits, watermarks, counting)
    wm, tops, floors, idle = levels_of(watermarks, counting)
    for record in records if loops is None else ():
        taken += 1
        if _moves(turn, limits, record, wm):
            _, side, _, _, parts, _ = record
            ts = parts[3]  # type: ignore[misc] # No fault moves anything.
            if ts > tops[side]:
                tops[side] = ts
                floors[side] = ts + idle[side]
                lower = min(floors)
                if wm < lower < INFINITY:
                    wm = lower
        if len(turn.decisions.pairs) > turn.matches_max:
            break
    return watermarks_of(wm, tops, floors), taken


def _decide_compiled(
    loops: Loops,
    turn: Turn,
    records: list[Arrival],
    limits: Limits,
    watermarks: Watermarks,
    counting: tuple[bool, bool],
) -> tuple[int, Watermarks]:
    """The same where plain INSERTs, which nearly all records are, are decided in C."""
    windows, decisions = turn.windows, turn.decisions
    deciding = Deciding(
        windows.table,
        windows.open,
        decisions.pairs,
        decisions.inserted,
        (*in_64_bits(limits), turn.lateness, _small(turn), turn.matches_max),
    )

    def doubtful(record: Arrival, wm: int | None) -> bool:
        return _moves(turn, limits, record, -INFINITY if wm is None else wm)

    taken, *moved = loops.decide(records, deciding, watermarks, counting, doubtful)
    return taken, Watermarks(*moved)


def _moves(turn: Turn, limits: Limits, record: Arrival, wm: int) -> bool:
    """Decides one record at this watermark; returns whether it moves that of its side.

    Nearly every record is a valid INSERT. So that is decided here, and everything else elsewhere.
    """
    _, side, offset, key, row, source = record
    decisions = turn.decisions
    if type(row) is Fault:
        decisions.rejects.append(Rejected(offset, *row, source))
        return False
    low, high, length_max, latest = limits
    end, start, row_id, ts, kind, value = row
    if not (
        kind == _INSERT
        and key is not None
        and low <= start <= ts <= end <= high
        and end - start <= length_max
        and ts <= latest
    ):
        return _decide_other(turn, record, limits, wm)
    window = turn.windows.table.get(key) or turn.windows.open(key)
    mine, theirs = window[side], window[1 - side]
    mine.used = True
    known = mine.get(row_id)
    if known is not None and wm <= known[0] + turn.horizon:
        _insert_known(decisions, record, mine, known)
    elif ts < wm - turn.lateness:
        _reject_late(turn, _event(record), wm)
    elif len(key) + len(value) <= _small(turn) or _fits(turn, _event(record), key, value):
        _accept(mine, theirs, record, row, decisions.pairs)
        decisions.inserted.append(record)  # type: ignore[arg-type] # Its key and parts were seen.
    return True


def _small(turn: Turn) -> int:
    """Key and value of so many bytes fit; an id is no longer than the value it is in."""
    return turn.row_bytes_max // 2 - _ROW_OVERHEAD


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


def _decide_other(turn: Turn, record: Arrival, limits: Limits, wm: int) -> bool:
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


def _reject_late(turn: Turn, event: Event, wm: int) -> None:
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


def _retract(turn: Turn, record: Arrival, event: Event, wm: int) -> None:
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


def _fits(turn: Turn, event: Event, key: bytes, value: bytes) -> bool:
    """Whether the row can be stored; rejects the event if not."""
    size = row_size(key, event.id, value)
    if size <= turn.row_bytes_max:
        return True
    detail = f"a row of {size} bytes, the most is {turn.row_bytes_max}"
    turn.decisions.rejects.append(rejected(event, Reason.TOO_LARGE, detail))
    return False
