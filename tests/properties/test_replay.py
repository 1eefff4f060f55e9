"""`replay` over files gives what the rules say of the same rows, however they are read."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import app.replay
from app.config import load_config
from app.formats import make_codec
from app.replay import Input, Replay
from schemas.partition import lane_of
from schemas.records import Event, JoinType, Kind, Reason, Side
from tests.oracle import Oracle, alive
from tests.unit.jobs import write_job
from tests.unit.test_replay import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

LATENESS: Final = 10
MAX_INTERVAL: Final = 50
KEYS: Final = [b"a", b"b", b"c"]


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[bytes, Event]]:
    """The rows of one side, in the order of its file."""
    found = []
    for offset in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 150))
        end = start + draw(st.integers(-1, MAX_INTERVAL + 1))
        kind = draw(st.sampled_from([Kind.INSERT] * 4 + [Kind.RETRACT, Kind.WATERMARK]))
        row_id = draw(st.sampled_from("wxyz"))
        key = draw(st.sampled_from(KEYS))
        found.append((key, Event(offset, key, row_id, start, start, end, kind, b"", None)))
    return found


def in_turn(left: list[Event], right: list[Event]) -> Iterator[tuple[Side, Event]]:
    """Both sides of a lane as a history is read: the side goes on that has come less far."""
    waiting = (deque(left), deque(right))
    tops: list[float] = [-1, -1]
    while any(waiting):
        ranks = [
            max(tops[side], moved(waiting[side][0])) if waiting[side] else float("inf")
            for side in Side
        ]
        side = Side.LEFT if ranks[Side.LEFT] <= ranks[Side.RIGHT] else Side.RIGHT
        event = waiting[side].popleft()
        tops[side] = ranks[side]
        yield side, event


def moved(event: Event) -> float:
    """The time to which an event moves its side, if nothing is wrong with it."""
    if event.kind == Kind.RETRACT:
        return -1
    if event.kind == Kind.INSERT and not 0 <= event.end - event.start <= MAX_INTERVAL:
        return -1
    return event.ts


@given(rows(), rows(), st.integers(1, 3), st.integers(1, 5), st.sampled_from(JoinType))
@settings(max_examples=60, deadline=None)
def test_replay_says_what_the_oracle_says(
    left: list[tuple[bytes, Event]],
    right: list[tuple[bytes, Event]],
    partitions: int,
    chunk: int,
    join_type: JoinType,
) -> None:
    expected: list[tuple[str, bool]] = []
    reasons: Counter[Reason] = Counter()
    for lane in range(partitions):
        oracle = Oracle(LATENESS, MAX_INTERVAL, None, join_type.preserved)
        of_lane = [
            [e for key, e in side if lane_of(key, partitions) == lane] for side in (left, right)
        ]
        for side, event in in_turn(*of_lane):
            oracle.feed(side, event)
        expected += [(one.match_id, one.start is not None) for one in oracle.emitted]
        reasons.update(reason for _, _, reason in oracle.rejects)
    with TemporaryDirectory() as name, patch.object(app.replay, "CHUNK_RECORDS", chunk):
        directory = Path(name)
        config = load_config(write_job(directory, PLAIN), {"SPANJOIN_JOIN__TYPE": join_type})
        codec = make_codec(config)

        def inputs(side: Side, rows: list[tuple[bytes, Event]]) -> Iterator[Input]:
            for place, (key, event) in enumerate(rows, 1):
                record = {
                    "id": event.id, "ts": event.ts, "start": event.start, "end": event.end,
                    "kind": Kind(event.kind).name, "payload": None,
                }  # fmt: skip
                yield Input(side, place, key, codec.encode_event(side, record))

        replay = Replay(config, codec, partitions, directory)
        turns = list(replay.run([inputs(Side.LEFT, left), inputs(Side.RIGHT, right)]))
        replay.close()
    emitted = [(m.decode(), v is not None) for effects in turns for m, v, _ in effects.matches]
    assert Counter(emitted) == Counter(expected)
    assert alive(emitted) == alive(expected)
    assert Counter(one.reason for effects in turns for one in effects.rejects) == reasons
