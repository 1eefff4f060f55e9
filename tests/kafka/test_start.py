"""How a worker starts: what it creates, what it refuses, what it tells while it waits."""

from __future__ import annotations

import json
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.parser import text_string_to_metric_families

from app.run import HELPER_THREADS
from tests.deploy import NAMES
from tests.kafka.avro import Event, encode, instant
from tests.kafka.victims import victim
from tests.kafka.workers import HOST, Worker, free_port, spanjoin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness

TOLD: Final = "waiting for the broker"
STOPPED_WITHIN_S: Final = 10
LANE_KEYS: Final = {
    "lane", "phase", "epoch", "owner", "watermark", "rows", "bytes", "left", "right", "changelog",
}  # fmt: skip


def refused(config: Path, **environ: str) -> str:
    """The line with which a start is refused: exit 2, and nothing else is said."""
    done = spanjoin("run", "-c", str(config), environ=environ)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_worker_creates_all_but_the_inputs(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topic(job.left, 2, {"max.message.bytes": "3000000"})
    kafka.create_topic(job.right, 2)
    worker = kafka.start(kafka.write_config())
    kafka.await_running(worker)
    assert kafka.topic_config(job.output)["cleanup.policy"] == "compact"
    changelog, rejects = kafka.topic_config(job.changelog), kafka.topic_config(job.rejects)
    assert changelog["cleanup.policy"] == "delete"
    assert (changelog["retention.ms"], changelog["retention.bytes"]) == ("-1", "-1")
    for topic in (job.changelog, job.rejects):
        assert len(kafka.cluster.partitions(topic)) == 2
    # The largest record of an input fits, with what is added to it.
    assert int(changelog["max.message.bytes"]) > 3_000_000
    assert int(rejects["max.message.bytes"]) > 3_000_000
    kafka.send(job.left, b"k", b"x" * 2_900_000)
    kafka.send(job.left, b"k", encode(Event("l1", 10, 10, 20, payload=b"x" * 2_900_000)))
    kafka.settle()
    (reject,) = kafka.read(job.rejects)
    assert reject.headers["reason"] == b"undecodable"
    assert reject.value == b"x" * 2_900_000


def test_inputs_of_different_sizes_are_refused(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topic(job.left, 2)
    kafka.create_topic(job.right, 5)
    line = refused(kafka.write_config())
    assert f'"{job.left}" has 2 partitions' in line
    assert f'"{job.right}" has 5 partitions' in line
    topics = kafka.cluster.admin.list_topics(timeout=10).topics
    assert {name for name in topics if name.startswith(job.name)} == {job.left, job.right}


def test_a_missing_input_is_refused_and_not_created(kafka: Harness) -> None:
    kafka.create_topic(kafka.job.left, 1)
    line = refused(kafka.write_config())
    assert kafka.job.right in line
    assert kafka.cluster.partitions(kafka.job.right) == []
    assert kafka.cluster.partitions(kafka.job.changelog) == []


def test_a_topic_is_not_joined_with_itself(kafka: Harness) -> None:
    kafka.create_topic(kafka.job.left, 1)
    line = refused(kafka.write_config(), SPANJOIN_RIGHT__TOPIC=kafka.job.left)
    assert kafka.job.left in line


def test_a_port_that_is_taken_is_refused(kafka: Harness) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in refused(kafka.write_config(), SPANJOIN_HTTP__PORT=port)


def metrics(worker: Worker) -> dict[str, float]:
    """Every sample's sum over its labels."""
    code, text = worker.get("/metrics")
    assert code == 200
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("spanjoin_"):
                sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


def test_probes_figures_and_status_of_a_worker(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(2)
    config = kafka.write_config('unit = "ms"\n---\n')
    worker = kafka.start(config)
    kafka.await_(lambda: worker.get("/livez")[0] == 200, 60, worker.tail)
    kafka.await_running(worker)
    assert worker.get("/readyz") == (200, "ok\n")
    assert worker.get("/nothing")[0] == 404
    for at in range(10):
        kafka.send(job.left, b"k", encode(instant(f"l{at}", at)), 0)
        kafka.send(job.right, b"k", encode(instant(f"r{at}", at)), 0)
    kafka.settle()
    kafka.send(job.left, b"k", encode(instant("l0", 0)), 0)
    kafka.send(job.left, b"k", encode(instant("l1", 1, "RETRACT")), 0)
    kafka.send(job.left, b"k", b"junk", 1)
    kafka.send(job.left, b"k", encode(instant("l99", 99)), 1)
    kafka.settle()

    def lanes() -> list[dict[str, Any]]:
        return sorted(json.loads(worker.get("/status")[1])["lanes"], key=lambda one: one["lane"])

    # Figures are renewed a few times a second.
    kafka.await_(lambda: lanes()[1]["rows"] == 1, 10, lambda: str(lanes()))
    kafka.await_(lambda: lanes()[0]["left"]["position"] == 12, 10, lambda: str(lanes()))
    assert lanes()[0]["rows"] == 20
    first, second = lanes()
    assert set(first) == LANE_KEYS | {"disk_bytes", "totals"}
    assert (first["phase"], first["epoch"], first["watermark"]) == ("running", 1, 9)
    assert first["left"] == {"position": 12, "lag": 0, "watermark": 9}
    assert first["right"] == {"position": 10, "lag": 0, "watermark": 9}
    assert second["left"] == {"position": 2, "lag": 0, "watermark": 99}
    assert second["right"] == {"position": 0, "lag": 0, "watermark": None}
    assert second["watermark"] is None
    assert first["bytes"] > 0

    said = json.loads(spanjoin("status", "-c", str(config), "--json").stdout)
    assert said["name"] == job.name
    assert all(set(told) == LANE_KEYS for told in said["lanes"])
    # The worker's own lag is that of its last fetch.
    kafka.await_(
        lambda: alike(lanes()) == alike(said["lanes"]), 10, lambda: f"{lanes()}, {said['lanes']}"
    )
    named = {name for name in NAMES if name.startswith("spanjoin_")}
    # What a store takes on disk is measured now and then.
    kafka.await_(lambda: named <= set(metrics(worker)), 10, lambda: f"{sorted(metrics(worker))}")
    figures = metrics(worker)
    expected = {
        "inserts": 21, "retractions": 1, "duplicates": 1, "rejects": 1,
        "matches": 10, "match_retractions": 1, "records": 24,
    }  # fmt: skip
    assert {name: figures[f"spanjoin_{name}_total"] for name in expected} == expected
    assert figures["spanjoin_turn_seconds_count"] > 0
    assert figures["spanjoin_lane_epoch"] == 2, "the sum of both lanes"
    assert any("watermark" in name for name in figures), figures
    assert any("lag" in name for name in figures), figures


def alike(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the worker and `status` both say of the lanes."""
    return [{key: lane[key] for key in LANE_KEYS - {"changelog"}} for lane in told]


def test_a_worker_waits_for_a_broker_that_is_not_there(kafka: Harness) -> None:
    config = kafka.write_config()
    nowhere = ("127.0.0.1:1", "no.such.host.invalid:9092")
    waiting = {
        servers: kafka.start(config, environ={"SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": servers})
        for servers in nowhere
    }
    for servers, worker in waiting.items():
        kafka.await_(lambda: worker.get("/livez")[0] == 200, 60, worker.tail)  # noqa: B023
        code, reason = worker.get("/readyz")
        assert code == 503
        assert servers in reason
    for servers, worker in waiting.items():
        kafka.await_(lambda: TOLD in worker.log.read_text(), 30, worker.tail)  # noqa: B023
        told = worker.log.read_text()
        # Whoever has mistyped an address need not wait for the client's time-out to see it.
        connecting = next(line for line in told.splitlines() if "connecting" in line)
        assert f"brokers={servers}" in connecting
        assert told.index(connecting) < told.index(TOLD)
        worker.check()
        began = time.monotonic()
        assert worker.terminate() == 0, worker.tail()
        assert time.monotonic() - began < STOPPED_WITHIN_S


def test_a_worker_stops_whenever_it_is_told_to(kafka: Harness) -> None:
    """As soon as it answers, so in the middle of its first contact or of joining the group.

    Later, when the first of its lanes has been fenced, others still ask; that is cut off.
    """
    kafka.create_topics(2 * HELPER_THREADS)
    config = kafka.write_config()
    for number in (signal.SIGTERM, signal.SIGINT):
        worker = kafka.start(config)
        kafka.await_(lambda: worker.get("/livez")[0] == 200, 60, worker.tail)  # noqa: B023
        began = time.monotonic()
        worker.process.send_signal(number)
        assert worker.wait() == 0, worker.tail()
        assert time.monotonic() - began < STOPPED_WITHIN_S
        assert worker.get("/livez")[0] == 0
    asking = victim(kafka, config, "TERM", "fenced")
    assert asking.wait() == 0, asking.tail()


def test_a_child_that_says_75_is_started_again_and_any_other_end_is_the_end(
    kafka: Harness,
) -> None:
    """What a child says is decided by a module that Python loads before everything else."""
    kafka.create_topics(2)
    config = kafka.write_config()
    (kafka.directory / "sitecustomize.py").write_text(SAYS)
    environ = {
        "PYTHONPATH": str(kafka.directory),
        "SAYS": str(kafka.directory / "says"),
        "SPANJOIN_HTTP__PORT": str(free_port()),
    }
    (kafka.directory / "says").write_text("75")
    parent = kafka.start(config, "--workers", "2", environ=environ)
    kafka.await_(
        lambda: not (kafka.directory / "says").read_text(), 60, lambda: "children are not started"
    )
    kafka.await_running(parent)
    parent.check()
    assert parent.terminate() == 0

    (kafka.directory / "says").write_text("75 3")
    parent = kafka.start(config, "--workers", "2", environ=environ)
    assert parent.wait(60) == 3, parent.tail()
    assert parent.get("/livez")[0] == 0


SAYS = """
import os, sys
if "--workers" not in sys.orig_argv and "run" in sys.orig_argv:
    path = os.environ["SAYS"]
    lock = os.open(path + ".lock", os.O_CREAT | os.O_RDWR)
    os.lockf(lock, os.F_LOCK, 0)
    with open(path, "r+") as file:
        first, _, rest = file.read().partition(" ")
        file.seek(0)
        file.truncate()
        file.write(rest)
    os.lockf(lock, os.F_ULOCK, 0)
    if first:
        os._exit(int(first))
"""
