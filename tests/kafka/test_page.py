"""What a worker's page is given, and what `explain` says of two rows, with and without a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.kafka.avro import Event, encode
from tests.kafka.commands import done, refused
from tests.kafka.lane import HORIZON

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

KEY: Final = b"\xff\x00k"
"""No text."""
TOLD: Final = {
    ("l1", "r1"): "match",
    ("l3", "r1"): "retracted",
    ("l4", "r1"): "retracted_first",
    ("l1", "late"): "rejected",
    ("l1", "misplaced"): "other_lane",
}


def say(kafka: Harness, config: str, left: str, right: str, *more: str) -> dict[str, Any]:
    """What `explain --json` says."""
    given = ("--key", KEY.hex(), "--key-hex", "--lane", "0", left, right)
    found = json.loads(done("explain", "-c", config, *given, *more, "--json"))
    assert isinstance(found, dict)
    return found


def send(kafka: Harness) -> None:
    """Rows of every fate in lane 0, in turns whose order is certain."""
    left, right = kafka.job.left, kafka.job.right

    def put(topic: str, event: Event, key: bytes | None = KEY, partition: int = 0) -> None:
        kafka.send(topic, key, encode(event), partition)

    put(left, Event("l1", 10, 10, 30))
    put(left, Event("l3", 12, 12, 40))
    put(left, Event("l4", 13, 13, 44, "RETRACT"))
    put(left, Event("l4", 13, 13, 44))
    put(right, Event("r1", 25, 25, 40))
    put(right, Event("r2", 31, 31, 45))
    put(right, Event("elsewhere", 31, 31, 33), key=b"other")
    put(right, Event("misplaced", 31, 31, 33), partition=1)
    kafka.settle()
    put(left, Event("l3", 12, 12, 40, "RETRACT"))
    put(left, Event("", 33, 0, 0, "WATERMARK"), key=None)
    kafka.settle()
    put(right, Event("late", 20, 20, 22))
    kafka.settle()


def test_the_page_and_explain(kafka: Harness) -> None:
    kafka.create_topics(2)
    config = kafka.write_config()
    worker = kafka.start(config)
    kafka.await_running(worker)
    send(kafka)

    for pair, why in TOLD.items():
        found = say(kafka, str(config), *pair)
        assert (found["why"], found["matches"]) == (why, why == "match"), found
        assert found["owner"] is not None
    late = say(kafka, str(config), "l1", "late")["lines"][1]
    assert "Rejected as late (offset 3 of partition 0)" in late
    assert "Its ts 20 is late by 1 against watermark 31 - L 10." in late
    assert "They do not match." in done(
        "explain", "-c", str(config), "--key", KEY.hex(), "--key-hex", "--lane", "0", "l1", "r2"
    )
    check_page(kafka)

    # Long after its horizon the state has nothing of these rows, and the input still has.
    for topic in (kafka.job.left, kafka.job.right):
        kafka.send(topic, None, encode(Event("", 1_000, 0, 0, "WATERMARK")), 0)
    kafka.settle()
    found = say(kafka, str(config), "l1", "r1")
    assert (found["why"], found["watermark"]) == ("match", 1_000)
    assert any(f"past its end + L + D, {30 + HORIZON}" in line for line in found["lines"])
    less = say(kafka, str(config), "l1", "r1", "--scan", "1")
    assert (less["why"], less["matches"]) == ("unknown_id", None)
    assert "--scan N" in less["lines"][0]
    assert all(one["end"] - one["start"] <= 1 for one in less["looked_at"])
    assert worker.terminate() == 0
    found = say(kafka, str(config), "l3", "r1")
    assert (found["why"], found["owner"], found["watermark"]) == ("retracted", None, 1_000)
    assert "by offset 4 of partition 0" in found["lines"][0]
    looked = [(one["topic"], one["partition"], one["start"]) for one in found["looked_at"]]
    assert (kafka.job.left, 0, 0) in looked
    line = refused("explain", "-c", str(config), "--key", "k", "--lane", "7", "l1", "r1")
    assert "there is no lane 7" in line


def check_page(kafka: Harness) -> None:
    """What the page asks for."""
    worker = kafka.workers[0]
    assert worker.get("/")[1].startswith("<!doctype html>")
    found = json.loads(worker.get("/timeline?key=%ff%00k&lane=0")[1])
    rows = {
        side: {row["id"]: row["state"] for row in found["rows"][side]} for side in ("left", "right")
    }
    assert rows == {
        "left": {"l1": "live", "l3": "retracted", "l4": "retracted_first"},
        "right": {"r1": "live", "r2": "live"},
    }
    assert [match["id"] for match in found["matches"]] == ["L:l1|R:r1"]
    assert (found["watermark"], found["lateness"], found["max_interval"]) == (31, 10, 50)

    job = json.loads(worker.get("/job")[1])
    assert (job["name"], job["left"], job["unit"]) == (kafka.job.name, kafka.job.left, "none")
    assert [lane["phase"] for lane in job["lanes"]] == ["running"] * 2
    assert {lane["address"] for lane in job["lanes"]} == {f"127.0.0.1:{worker.port}"}
    kafka.await_(lambda: totals(kafka)["rejects"] == 1, 10, lambda: str(totals(kafka)))
    assert totals(kafka) == {
        "left": 6, "right": 4, "matches": 3, "retractions": 2, "unmatched": 0, "rejects": 1,
    }  # fmt: skip


def totals(kafka: Harness) -> dict[str, int]:
    """Of lane 0, as the worker counts them."""
    lanes = json.loads(kafka.workers[0].get("/status")[1])["lanes"]
    found = lanes[0]["totals"]
    assert isinstance(found, dict)
    return found
