"""`status`: before, during and after a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.kafka.avro import Event, encode
from tests.kafka.commands import done, inputs, refused
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

LEFT: Final = Event("l1", 20, 10, 30)
RIGHT: Final = Event("r1", 25, 20, 40)


@pytest.fixture
def config(kafka: Harness) -> str:
    return str(kafka.write_config())


def status(config: str) -> dict[str, Any]:
    found = json.loads(done("status", "-c", config, "--json"))
    assert isinstance(found, dict)
    return found


def test_status_before_during_and_after_a_run(kafka: Harness, config: str) -> None:
    assert "does not exist: create it" in refused("status", "-c", config)
    inputs(kafka, 2)
    before = status(config)
    assert before["name"] == kafka.job.name
    assert [lane["lane"] for lane in before["lanes"]] == [0, 1]
    nothing = {"position": None, "lag": None, "watermark": None}
    assert before["lanes"][0] == {
        "lane": 0, "phase": None, "epoch": 0, "owner": None, "watermark": None,
        "rows": 0, "bytes": 0, "left": nothing, "right": nothing,
        "changelog": {"start": None, "end": None},
    }  # fmt: skip

    kafka.send(kafka.job.left, b"k", encode(LEFT), partition=0)
    kafka.send(kafka.job.right, b"k", encode(RIGHT), partition=0)
    kafka.flush()
    worker = kafka.start(kafka.write_config())
    kafka.await_matches(["L:l1|R:r1"])
    eventually(lambda: phases(config) == ["running"] * 2, 30, lambda: str(status(config)))
    during = status(config)["lanes"]
    assert {lane["owner"] for lane in during} != {None}
    assert len({lane["owner"] for lane in during}) == 1
    assert [lane["epoch"] for lane in during] == [1, 1]
    assert (during[0]["watermark"], during[0]["rows"]) == (20, 2)
    assert during[0]["bytes"] > 0
    assert during[0]["left"] == {"position": 1, "lag": 0, "watermark": 20}
    assert during[0]["right"] == {"position": 1, "lag": 0, "watermark": 25}
    assert during[1]["left"] == {"position": 0, "lag": 0, "watermark": None}
    assert during[0]["changelog"]["end"] > during[0]["changelog"]["start"]
    assert "running" in done("status", "-c", config)

    assert worker.terminate() == 0
    after = status(config)["lanes"]
    assert [(lane["phase"], lane["owner"]) for lane in after] == [("released", None)] * 2
    assert after[0]["left"] == during[0]["left"]
    kafka.send(kafka.job.left, b"k", encode(LEFT._replace(id="l2")), partition=0)
    kafka.flush()
    assert status(config)["lanes"][0]["left"]["lag"] == 1


def phases(config: str) -> list[str | None]:
    return [lane["phase"] for lane in status(config)["lanes"]]
