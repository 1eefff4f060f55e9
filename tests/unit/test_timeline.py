"""The two timelines of a key, as the page is given them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app import timeline as limits
from app.questions import NotAnswered
from app.timeline import DATA_CHARACTERS_MAX, timeline
from schemas.records import INT64_MAX, JoinType, Kind, Side
from tests.worker_page import CODEC, LATENESS, MAX_INTERVAL, Worker, row


@pytest.fixture
def worker() -> Any:
    worker = Worker(JoinType.FULL)
    yield worker
    worker.server.close()


def states(found: dict[str, Any], side: str) -> dict[str, tuple[str, bool, bool]]:
    return {
        one["id"]: (one["state"], one["expired"], one["unmatched"]) for one in found["rows"][side]
    }


def told(worker: Worker, key: bytes = b"k", pair: tuple[str, str] | None = None) -> dict[str, Any]:
    found = worker.look(key, worker.number, pair).result(0)
    # Whatever it says can be said in JSON.
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_every_row_with_what_became_of_it(worker: Worker) -> None:
    worker.take(
        (Side.LEFT, row("alone", 0, 4)),
        (Side.LEFT, row("old", 0, 5)),
        (Side.RIGHT, row("match", 5, 5)),
    )
    worker.advance(30)
    worker.take(
        (Side.LEFT, row("new", 30, 40)),
        (Side.LEFT, row("gone", 30, 41)),
        (Side.LEFT, row("gone", 30, 41, kind=Kind.RETRACT)),
        (Side.RIGHT, row("awaited", 30, 45, kind=Kind.RETRACT)),
        (Side.RIGHT, row("met", 30, 46, kind=Kind.RETRACT)),
        (Side.RIGHT, row("met", 30, 46)),
    )
    worker.advance(5 + LATENESS + MAX_INTERVAL)
    found = told(worker)
    assert states(found, "left") == {
        "alone": ("live", True, True),
        "old": ("live", False, False),
        "new": ("live", False, False),
        "gone": ("retracted", False, False),
    }
    assert states(found, "right") == {
        "match": ("live", False, False),
        "awaited": ("remembered", False, False),
        "met": ("retracted_first", False, False),
    }
    assert [match["id"] for match in found["matches"]] == ["L:old|R:match"]
    assert [one["end"] for one in found["rows"]["left"]] == [4, 5, 40, 41], "in order of time"
    assert (found["watermark"], found["watermarks"]) == (65, {"left": 65, "right": 65})
    assert (found["lateness"], found["max_interval"]) == (LATENESS, MAX_INTERVAL)
    assert json.loads(found["rows"]["left"][0]["data"])["id"] == "alone"
    assert found["rows"]["left"][3]["data"] is None
    assert "explanation" not in found


def test_a_key_without_rows(worker: Worker) -> None:
    found = told(worker, b"\xff\x00")
    assert found["rows"] == {"left": [], "right": []}
    assert found["watermark"] is None


def test_a_pair_with_its_reason(worker: Worker) -> None:
    worker.take(
        (Side.LEFT, row("l1", 0, 10)), (Side.LEFT, row("l2", 0, 9)), (Side.RIGHT, row("r1", 12, 20))
    )
    worker.take((Side.RIGHT, row("r0", -9, 0)))
    assert [match["id"] for match in told(worker)["matches"]] == ["L:l2|R:r0", "L:l1|R:r0"]
    found = told(worker, pair=("l1", "r1"))
    assert [one["id"] for one in found["rows"]["left"]] == ["l1"]
    assert found["rows_left_out"] == {"left": 0, "right": 0}
    assert found["explanation"][0] == (
        "Their intervals do not overlap: left l1 ends at 10, and right r1 begins at 12, 2 later."
    )
    assert (
        "Right nobody is not in the state" in told(worker, pair=("l1", "nobody"))["explanation"][1]
    )


def test_many_rows_are_the_newest(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROWS_MAX", 4)
    monkeypatch.setattr(limits, "MATCHES_MAX", 5)
    worker.take(*((Side.LEFT, row(f"l{at}", at, 20 + at)) for at in range(20)))
    worker.take(*((Side.RIGHT, row(f"r{at}", at, 20 + at)) for at in range(4)))
    found = told(worker)
    assert [one["id"] for one in found["rows"]["left"]] == ["l16", "l17", "l18", "l19"]
    assert found["rows_left_out"] == {"left": 16, "right": 0}
    assert (len(found["matches"]), found["matches_left_out"]) == (5, 11)


def test_much_data_is_cut_off(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DATA_BYTES_MAX", 1_000)
    worker.take(
        *((Side.LEFT, row(f"l{at}", 0, 10 + at, payload=b"x" * 600)) for at in range(2)),
    )
    first, second = told(worker)["rows"]["left"]
    assert len(first["data"]) == DATA_CHARACTERS_MAX + 3
    assert second["data"] is None


def test_a_row_that_cannot_be_decoded_is_said_to_be(worker: Worker) -> None:
    worker.take((Side.LEFT, row("l1", 0, 1)._replace(value=b"rubbish")))
    with pytest.raises(NotAnswered, match="row l1 cannot be decoded"):
        worker.look(b"k", worker.number, None).result(0)


def test_looking_leaves_no_window_behind(worker: Worker) -> None:
    timeline(worker.running, b"never", CODEC)
    assert b"never" not in worker.lane.state.windows.table


def test_times_keep_every_digit(worker: Worker) -> None:
    far = INT64_MAX - LATENESS - 4 * MAX_INTERVAL
    worker.take((Side.LEFT, row("l1", far - 1, far)))
    assert told(worker)["rows"]["left"][0]["end"] == far
