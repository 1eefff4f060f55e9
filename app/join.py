"""The join of one lane: records in, effects out.

What becomes of each record is decided in `app.decide`; at the end an outer join looks for rows that
are unmatched now, see `app.unmatched`.

Nothing here reads a clock, and the store is read only through the windows, so a turn that is run
again gives the same effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.decide import Turn, decide
from app.effects import (
    Counts,
    Decisions,
    Effects,
    Match,
    MatchValue,
    counts_of,
    directory_changes,
    emitted,
    entered,
    stored_rows,
    without_dropped,
)
from app.unmatched import NOTHING, Due, Outer, Unmatched, no_index, reached, unmatched
from app.validity import Limits, limits_of
from schemas.codec import Unresolved
from state.checkpoint import Bucket, Watermarks
from state.retention import OUTER_REACH, droppable, first_kept_end
from state.window import Load, Windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.records import Arrival, Rejected

__all__ = [
    "Counts",
    "Effects",
    "JoinSettings",
    "LaneState",
    "abandon",
    "advance",
    "join",
    "limits_at",
    "settle",
]

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
    """What a lane holds in memory: all that was joined, the newest turn perhaps not committed yet.

    `load` gives the stored rows of a key in the given buckets, see `state.window.Load`. An outer
    join needs `due`, too, which reads the index by end, and how far it has `decided`. An inner one
    is quicker with `Windows.probe`; an outer one looks at whole windows.
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
    Of `lane` only the windows change; call `advance` before the next turn is joined, `settle` once
    the effects are committed, `abandon` when they will never be. `now` is the wall clock in the
    job's unit, for `max_future`. `counting` says which sides are not idle; a turn without records
    can move the watermark by it. `changelog_position` is an offset of the lane's changelog that
    this turn will not be before. Raises Unresolved, with nothing changed, where a match cannot be
    written yet.
    """
    assert lane.windows.span == settings.span, "the span of a state never changes"
    horizon = settings.lateness + settings.max_interval
    decisions = Decisions()
    turn = Turn(
        lane.windows,
        settings.lateness,
        horizon,
        settings.row_bytes_max,
        settings.matches_max,
        decisions,
    )
    watermarks, taken = decide(turn, records, limits_at(settings, now), lane.watermarks, counting)
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


def advance(lane: LaneState, effects: Effects) -> None:
    """The next turn will be joined on top of these effects, be they committed by then or not."""
    lane.watermarks = effects.watermarks
    lane.decided = effects.decided
    entered(lane.buckets, effects)


def settle(lane: LaneState, effects: Effects) -> None:
    """The effects are committed: rows that they dropped are of no use any more."""
    span = lane.windows.span
    bound = first_kept_end(effects.dropped[-1], span) if effects.dropped else 0
    changed = [bucket for bucket, entry in effects.buckets.items() if entry.rows]
    lane.windows.release(effects.touched, changed)
    lane.windows.settle(effects.dropped, bound)


def abandon(lane: LaneState, effects: Effects) -> None:
    """The effects will never be committed: forgets what the turn changed in the windows."""
    lane.windows.forget(effects.touched)
