"""The two timelines of a key: every row that the lane's state has of it, and their matches.

For people who want to see why, so unlike `/matches` it has the retracted and the expired rows as
well, as far as they are still stored, and it is cut off where it would be too much to look at. Like
every question it is answered between two turns.
"""

from __future__ import annotations

import json
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.explanation import explain
from app.questions import Unanswerable, match_of
from app.rows import SIDES, plain
from app.sought import Sought, Stored, Terms
from schemas.records import JoinType, Side
from state.due import entry_of
from state.keys import LIVE, MET, REMEMBERED, RETRACTED
from state.overlap import meets
from state.retention import is_retained, longest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.process import Running
    from schemas.codec import Codec
    from state.keys import Row
    from state.side import Rows
    from state.window import Window

ROWS_MAX: Final = 500
"""Of each side, the newest by their ends: as many as can be told apart in a picture."""
MATCHES_MAX: Final = 5_000
DATA_BYTES_MAX: Final = 256 * 1024
"""So many bytes of rows are decoded for one answer: the loop has other things to do."""
DATA_CHARACTERS_MAX: Final = 300
STATES: Final[Mapping[int, str]] = {
    LIVE: "live",
    RETRACTED: "retracted",
    REMEMBERED: "remembered",
    MET: "retracted_first",
}
"""What a row's flags are called. `remembered` is a retraction whose row has not come."""
_FLAGS: Final = {name: flags for flags, name in STATES.items()}

Pair = tuple[str, str]
"""Ids of a left and a right row."""


class _Seen(NamedTuple):
    """A lane as one answer sees it."""

    running: Running
    key: bytes
    window: Window
    horizon: int
    reach: int
    """No stored interval is longer."""


def timeline(
    running: Running, key: bytes, codec: Codec, pair: Pair | None = None
) -> dict[str, Any]:
    """The rows of a key and their matches, JSON-ready; of a pair, only these two, with the reason.

    Raises Unanswerable.
    """
    settings = running.settings
    horizon = settings.lateness + settings.max_interval
    reach = max(settings.max_interval, longest(running.state.buckets.values()))
    seen = _Seen(running, key, running.state.windows.peek(key), horizon, reach)
    chosen = [_chosen(seen.window[side], pair and pair[side]) for side in Side]
    matches, matches_left = _matches(chosen)
    checkpoint = running.checkpoint
    wm, left, right = checkpoint.watermarks
    budget = _Budget(codec)
    found: dict[str, Any] = {
        "lane": running.lane,
        "epoch": checkpoint.epoch,
        "unit": checkpoint.layout.unit,
        "join_type": checkpoint.layout.join_type,
        "lateness": settings.lateness,
        "max_interval": settings.max_interval,
        "watermark": wm,
        "watermarks": {"left": left, "right": right},
        "positions": dict(zip(SIDES, running.positions, strict=True)),
        "rows": {
            name: [_row(seen, side, row, budget) for row in rows]
            for name, side, rows in zip(SIDES, Side, chosen, strict=True)
        },
        "rows_left_out": {
            name: 0 if pair else len(seen.window[side]) - len(rows)
            for name, side, rows in zip(SIDES, Side, chosen, strict=True)
        },
        "matches": matches,
        "matches_left_out": matches_left,
    }
    if pair:
        found["explanation"] = explain(*sought_in(found, key, pair), terms_in(found)).lines
    return found


def terms_in(found: Mapping[str, Any]) -> Terms:
    """The join's terms, out of an answer."""
    return Terms(found["lateness"], found["max_interval"], found["watermark"], found["unit"])


def sought_in(found: Mapping[str, Any], key: bytes, pair: Pair) -> tuple[Sought, Sought]:
    """What an answer about a pair knows of its two rows."""
    left, right = (
        Sought(
            side,
            pair[side],
            (key, found["lane"]),
            [
                Stored(row["start"], row["end"], row["ts"], _FLAGS[row["state"]], row["unmatched"])
                for row in found["rows"][SIDES[side]]
            ],
        )
        for side in Side
    )
    return left, right


def _chosen(rows: Rows, row_id: str | None) -> list[Row]:
    """The rows to show of a side, by their ends: the newest, or those of an id."""
    if row_id is None:
        return sorted(nlargest(ROWS_MAX, rows.values(), key=itemgetter(0)))
    return sorted(row for row in rows.values() if row[2] == row_id)


def _matches(chosen: list[list[Row]]) -> tuple[list[dict[str, Any]], int]:
    """The live matches among the rows that are shown, and how many of them are left out.

    They are few by now, so each is compared with each: a probe into the whole side could find a
    million.
    """
    left, right = ([row for row in rows if row[4] == LIVE] for rows in chosen)
    found = [
        (row, other) for row in left for other in right if row[1] <= other[0] and other[1] <= row[0]
    ]
    shown = [match_of(*pair) for pair in found[:MATCHES_MAX]]
    return shown, len(found) - len(shown)


def _row(seen: _Seen, side: Side, row: Row, budget: _Budget) -> dict[str, Any]:
    end, start, row_id, ts, flags, value = row
    mark = seen.running.checkpoint.watermarks.lane
    return {
        "id": row_id,
        "ts": ts,
        "start": start,
        "end": end,
        "state": STATES[flags],
        "expired": not is_retained(end, mark, seen.horizon),
        "unmatched": flags == LIVE and _unmatched(seen, side, row),
        "data": budget.text(row_id, value) if flags == LIVE else None,
    }


def _unmatched(seen: _Seen, side: Side, row: Row) -> bool:
    """Whether an outer join has written the row as unmatched."""
    sides = JoinType(seen.running.checkpoint.layout.join_type).preserved
    end, start, row_id, _, _, _ = row
    return (
        side in sides
        and entry_of(side, seen.key, end, start, row_id) < seen.running.state.decided
        and not meets(seen.window[side.other], start, end, seen.reach)
    )


class _Budget:
    """Decodes rows until it has had enough of it."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._bytes_left = DATA_BYTES_MAX

    def text(self, row_id: str, value: bytes) -> str | None:
        """The record as JSON, cut off where it is long; None beyond the budget."""
        if len(value) > self._bytes_left:
            return None
        self._bytes_left -= len(value)
        try:
            record = self._codec.decode_event(value)
        except ValueError as error:
            raise Unanswerable(f"row {row_id} cannot be decoded: {error}") from None
        text = json.dumps(plain(record), ensure_ascii=False)
        return text if len(text) <= DATA_CHARACTERS_MAX else f"{text[:DATA_CHARACTERS_MAX]}..."
