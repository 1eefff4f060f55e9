"""What a worker answers about a key, and what it refuses to answer."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from app.join import LaneState, advance, join, settle
from app.process import Running
from app.questions import WAITING_MAX, NotAnswered, Questions, Unanswerable
from schemas.avro_codec import AvroCodec
from schemas.fields import Fields
from schemas.partition import lane_of
from schemas.records import Side
from state.checkpoint import Checkpoint, Layout, Watermarks
from tests.lane import arrival, event, retraction, settings_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from schemas.records import Record

LANES = 4
KEY = b"k"
LANE = lane_of(KEY, LANES)


def avro(row_id: str, start: int, end: int) -> bytes:
    return CODEC.encode_event(
        Side.LEFT,
        {
            "id": row_id,
            "ts": start,
            "start": start,
            "end": end,
            "kind": "INSERT",
            "payload": b"\xff",
        },
    )


SCHEMA = json.loads(resources.files("schemas").joinpath("event.avsc").read_text())
FIELDS = Fields("id", "ts", "start", "end", "kind")
CODEC = AvroCodec(([SCHEMA], [SCHEMA]), (FIELDS, FIELDS))


def running_with(*records: tuple[Side, Record]) -> Running:
    settings = settings_of(10, 50)
    state = LaneState(Watermarks(), {}, lambda _buckets, _key: [], settings.span)
    arrivals = [arrival(*record) for record in records]
    effects = join(state, arrivals, settings, None, (True, True), 0)
    advance(state, effects)
    settle(state, effects)
    layout = Layout("none", 10, 50, settings.span, "c", "l", "r")
    checkpoint = Checkpoint(
        epoch=7, sequence=1, writer="w", owner="o", address="", released=False, left_position=0,
        right_position=0, watermarks=effects.watermarks, rows=0, size=0, layout=layout,
    )  # fmt: skip
    return Running(LANE, checkpoint, settings, state, 0, 0)


def row(side: Side, row_id: str, start: int, end: int) -> tuple[Side, Record]:
    return side, event(row_id, start, end, value=avro(row_id, start, end))


def never(_: object) -> None:
    raise AssertionError("nothing was asked for")


def served(
    running: dict[int, Running], prove: Any = never, *, linearizable: bool = False
) -> Future[dict[str, Any]]:
    questions = Questions(LANES)
    answer = questions.ask(KEY, linearizable=linearizable)
    questions.serve(running, CODEC, prove, never)
    return answer


def test_rows_and_matches_of_a_key() -> None:
    running = running_with(
        row(Side.LEFT, "l1", 0, 10),
        row(Side.RIGHT, "r1", 10, 20),
        row(Side.RIGHT, "r2", 11, 20),
        row(Side.RIGHT, "r3", 5, 6),
        (Side.RIGHT, retraction("r3", 5, 6)),
    )
    found = served({LANE: running}).result(0)
    assert (found["lane"], found["epoch"], found["watermark"]) == (LANE, 7, 0)
    assert [one["id"] for one in found["rows"]["left"]] == ["l1"]
    assert [one["id"] for one in found["rows"]["right"]] == ["r1", "r2"]
    assert found["matches"] == [
        {"id": "L:l1|R:r1", "start": 10, "end": 10, "left": "l1", "right": "r1"}
    ]
    assert found["rows"]["left"][0]["record"]["payload"] == "\xff"


def test_a_key_without_rows() -> None:
    found = served({LANE: running_with()}).result(0)
    assert found["rows"] == {"left": [], "right": []}
    assert found["matches"] == []


def test_looking_leaves_no_window_behind() -> None:
    running = running_with()
    served({LANE: running})
    assert running.state.windows.table == {}


def test_another_workers_lane_is_not_answered() -> None:
    with pytest.raises(NotAnswered, match=f"lane {LANE} is not running on this worker"):
        served({}).result(0)


def test_linearizable_waits_for_the_proof() -> None:
    asked: list[list[int]] = []
    found = served({LANE: running_with()}, asked.append, linearizable=True)
    assert asked == [[LANE]]
    assert found.result(0)["lane"] == LANE


def test_without_the_proof_there_is_no_answer() -> None:
    def fenced(_lanes: list[int]) -> None:
        raise RuntimeError("fenced")

    questions = Questions(LANES)
    proven = questions.ask(KEY, linearizable=True)
    plain = questions.ask(KEY, linearizable=False)
    with pytest.raises(RuntimeError, match="fenced"):
        questions.serve({LANE: running_with()}, CODEC, fenced, never)
    with pytest.raises(NotAnswered, match="could not be proven"):
        proven.result(0)
    assert plain.result(0)["lane"] == LANE


def test_questions_are_bounded() -> None:
    questions = Questions(LANES)
    for _ in range(WAITING_MAX):
        questions.ask(KEY, linearizable=False)
    with pytest.raises(NotAnswered, match="too many"):
        questions.ask(KEY, linearizable=False).result(0)


def test_a_lane_may_be_named() -> None:
    other = (LANE + 1) % LANES
    questions = Questions(LANES)
    here = questions.ask(b"placed otherwise", linearizable=False, lane=LANE)
    there = questions.ask(KEY, linearizable=False, lane=other)
    questions.serve({LANE: running_with()}, CODEC, never, never)
    assert here.result(0)["lane"] == LANE
    with pytest.raises(NotAnswered, match=f"lane {other} is not running"):
        there.result(0)


def test_a_proof_that_cannot_be_tried_is_an_answer() -> None:
    def between(_lanes: list[int]) -> None:
        raise NotAnswered("between two memberships")

    with pytest.raises(NotAnswered, match="between two memberships"):
        served({LANE: running_with()}, between, linearizable=True).result(0)


def test_an_answer_is_bounded() -> None:
    many = range(120)
    running = running_with(
        *(row(Side.LEFT, f"l{number}", 0, 10) for number in many),
        *(row(Side.RIGHT, f"r{number}", 0, 10) for number in many),
    )
    with pytest.raises(Unanswerable, match="120 left and 120 right rows, too many"):
        served({LANE: running}).result(0)


def test_a_row_of_a_forgotten_schema_is_told() -> None:
    running = running_with((Side.LEFT, event("l1", 0, 10, value=b"\xc3\x01otherhere")))
    with pytest.raises(Unanswerable, match="row l1 cannot be decoded"):
        served({LANE: running}).result(0)
