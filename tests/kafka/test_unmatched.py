"""Outer joins from outside: what is written of rows that nothing matches, and what is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastavro.schema import to_parsing_canonical_form

from tests.kafka.avro import OUTER, Event, decode_output, encode
from tests.kafka.commands import done
from tests.kafka.lane import HORIZON
from tests.kafka.reading import history
from tests.kafka.streams import random_stream
from tests.kafka.victims import Trickle, finish, victim, writers

if TYPE_CHECKING:
    import pytest

    from tests.kafka.harness import Harness

LANES = 2


def test_a_full_join_whose_lanes_move_and_whose_workers_die(
    kafka: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config(text="[turn]\nmax_records = 50\n", join={"type": "full"})
    stream = random_stream(601, 3_000, keys=400, lanes=LANES, step=0.2)
    stream.join = "full"
    stream.end(LANES)
    trickle = Trickle(kafka, stream)
    first = kafka.start(config)
    kafka.await_running(first)
    trickle.send(1_000)
    trickle.until(victim(kafka, config, "KILL", "turn.committed"))
    second = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(kafka.directory / "victim")})
    kafka.await_running(second)
    trickle.send(1_000)
    first.kill()
    finish(kafka, trickle, stream)
    writers(kafka)
    rows = stream.unmatched()
    count = len(rows) + len(stream.live())
    said = f"{count} matches and unmatched rows expected, {count} of them in {kafka.job.output}"
    assert said in done("check", "-c", str(config))
    assert len({row.side for row in rows.values()}) == 2
    kafka.await_(lambda: len(second.running()) == LANES, 30, second.tail)
    assert second.terminate() == 0
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / "victim"))
    assert "as the directory says" in done("state", "verify", "-c", str(config))
    shown = [json.loads(line) for line in done("read", "-c", str(config), "--format", "jsonl")
             .splitlines()]  # fmt: skip
    assert {row["id"] for row in shown} == stream.live() | set(rows)
    assert f"{len(rows):,} unmatched rows" in done("read", "-c", str(config), "--limit", "0")
    kafka.write_config(join={"type": "left"})
    other = kafka.start(config)
    assert other.wait() == 2
    assert "join.type is 'left' but the state of lane" in other.tail()


def test_a_late_retraction_and_what_the_output_does_not_take(kafka: Harness) -> None:
    """The rows e and b have matches r2 and r; r is retracted as late as it may be."""
    job = kafka.job
    kafka.create_topic(job.left, 1)
    kafka.create_topic(job.right, 1)
    kafka.create_topic(job.output, 1, {"cleanup.policy": "compact", "max.message.bytes": "20000"})
    config = kafka.write_config(join={"type": "left"})
    schema = json.loads(done("schema", "-c", str(config)))
    assert to_parsing_canonical_form(schema) == OUTER["left"]
    kafka.start(config)
    e, b = Event("e", 0, 0, 6), Event("b|", 0, 0, 10)
    r2, r = Event("r2", 0, 0, 0), Event("r", 6, 6, 12)
    large = Event("large", 0, 0, 5, payload=b"x" * 30_000)

    def send(topic: str, *events: Event) -> None:
        for event in events:
            kafka.send(topic, b"other" if event is large else b"k", encode(event))
        kafka.settle()

    def pass_time(ts: int) -> None:
        for topic in (job.left, job.right):
            kafka.send(topic, None, encode(Event("", ts, 0, 0, "WATERMARK")), 0)
        kafka.settle()

    send(job.right, r2, r)
    send(job.left, e, b, large)
    pass_time(12 + HORIZON)
    send(job.right, r._replace(kind="RETRACT"))
    log = kafka.read(job.output)
    assert {name: [value is not None for value in values] for name, values in history(log).items()
            } == {"L:e|R:r2": [True], "L:e|R:r": [True, False],
                  "L:b%7C|R:r2": [True], "L:b%7C|R:r": [True, False]}  # fmt: skip
    alone = Event("alone|", 100, 100, 110)
    send(job.left, alone)
    pass_time(110 + HORIZON)
    assert len(kafka.read(job.output)) == len(log)
    pass_time(110 + HORIZON + 1)
    (record,) = kafka.read(job.output)[len(log) :]
    assert (record.key, record.timestamp) == (b"L:alone%7C", 100)
    assert decode_output(record.value, "left") == (100, 110, alone, None)
    (reject,) = kafka.read(job.rejects)
    assert (reject.key, reject.value) == (b"L:large", b"")
    assert {name: text for name, text in reject.headers.items() if name != "detail"} == {
        "reason": b"too_large", "topic": job.left.encode(), "partition": b"0", "offset": b"-1",
    }  # fmt: skip
    assert b"left id large" in reject.headers["detail"]
