"""What a worker keeps: it goes on from it, does without it, and refuses what contradicts it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.kafka.avro import encode, instant
from tests.kafka.streams import random_stream
from tests.kafka.workers import eventually, spanjoin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 4
NOTICED_WITHIN_S: Final = 30


def state(kafka: Harness, number: int = 1) -> dict[str, str]:
    """The environment of a worker over the state directory of the one of that number."""
    return {"SPANJOIN_STATE__DIR": str(kafka.directory / f"state-{number}")}


def send(kafka: Harness, at: int, side: str) -> None:
    """An instant named after its side and time."""
    topic = {"l": kafka.job.left, "r": kafka.job.right}[side]
    kafka.send(topic, b"k", encode(instant(f"{side}{at}", at)))


def refused(worker: Worker) -> str:
    """Its last words: exit 2 and one line that is no traceback."""
    assert worker.wait(NOTICED_WITHIN_S) == 2, worker.tail()
    lines = worker.log.read_text().splitlines()
    words = [line for line in lines if line.startswith("spanjoin: ")]
    assert words == lines[-1:], worker.tail()
    return words[0]


def refused_at_start(config: Path, environ: Mapping[str, str]) -> str:
    """What a start says that must be refused: exit 2 and one line."""
    done = spanjoin("run", "-c", str(config), environ=environ)
    assert done.returncode == 2, done.stderr
    words = [line for line in done.stderr.splitlines() if line.startswith("spanjoin: ")]
    assert words == done.stderr.splitlines()[-1:], done.stderr
    return words[0]


def test_workers_go_on_with_and_without_the_state_they_left(kafka: Harness) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config()
    stream = random_stream(31, 15_000, keys=300, lanes=LANES, step=0.02)
    size = len(stream.records) // 6
    worker = kafka.start(config)

    def part(number: int) -> None:
        stream.send(kafka, kafka.job, slice(number * size, (number + 1) * size))
        kafka.settle()

    part(0)
    assert worker.terminate() == 0
    worker = kafka.start(config, environ=state(kafka))
    part(1)
    worker.kill()
    worker = kafka.start(config, environ=state(kafka))
    part(2)
    assert worker.terminate() == 0
    shutil.rmtree(kafka.directory / "state-1")
    worker = kafka.start(config, environ=state(kafka))
    part(3)
    worker.kill()
    # Another machine, so to say: it has nothing.
    worker = kafka.start(config)
    part(4)
    assert worker.terminate() == 0
    # Back to the first one, whose state is behind.
    kafka.start(config, environ=state(kafka))
    stream.send(kafka, kafka.job, slice(5 * size, None))
    kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def test_the_watermark_survives_the_worker_and_its_state(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.start(config)
    for side in "lr":
        send(kafka, 1000, side)
    kafka.settle()
    worker.kill()
    shutil.rmtree(kafka.directory / "state-1")
    for side in "lr":
        send(kafka, 989, side)
        send(kafka, 990, side)
    kafka.flush()
    kafka.start(config)
    kafka.settle()
    assert set(kafka.matches()) == {"L:l1000|R:r1000", "L:l990|R:r990"}
    late = kafka.read(kafka.job.rejects)
    assert [one.headers["reason"] for one in late] == [b"late"] * 2


def test_a_state_directory_is_for_one_worker(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    kafka.await_running(kafka.start(config))
    line = refused_at_start(config, state(kafka))
    assert str(kafka.directory / "state-1") in line
    kafka.workers[0].check()
    kafka.workers[0].kill()
    # The lock dies with its process.
    kafka.await_running(kafka.start(config, environ=state(kafka)))


def test_larger_bounds_are_refused_until_they_are_accepted(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.start(config)
    for side in "lr":
        send(kafka, 1000, side)
    kafka.settle()
    assert worker.terminate() == 0

    for name in ("allowed_lateness", "max_interval"):
        larger = kafka.write_config(name="larger.toml", join={name: 51})
        line = refused_at_start(larger, state(kafka))
        assert f"join.{name}" in line
        assert "--accept-bounds" in line
    larger = kafka.write_config(name="larger.toml", join={"allowed_lateness": 20})
    worker = kafka.start(larger, "--accept-bounds", environ=state(kafka))
    for side in "lr":
        send(kafka, 980, side)
        send(kafka, 979, side)
    kafka.settle()
    assert worker.terminate() == 0
    # Accepted once is accepted.
    worker = kafka.start(larger, environ=state(kafka))
    kafka.await_running(worker)
    assert worker.terminate() == 0
    assert set(kafka.matches()) == {"L:l1000|R:r1000", "L:l980|R:r980"}
    assert len(kafka.read(kafka.job.rejects)) == 2


def test_another_unit_is_refused(kafka: Harness) -> None:
    kafka.create_topics(1)
    worker = kafka.start(kafka.write_config())
    kafka.await_running(worker)
    assert worker.terminate() == 0
    other = kafka.write_config(text='unit = "ms"\n---\n')
    assert "unit" in refused_at_start(other, state(kafka))


def test_partitions_added_under_a_running_job_stop_it(kafka: Harness) -> None:
    kafka.create_topics(2)
    config = kafka.write_config()
    worker = kafka.start(config)
    kafka.await_running(worker)
    grown = kafka.cluster.admin.create_partitions([NewPartitions(kafka.job.right, 3)])
    grown[kafka.job.right].result(30)
    line = refused(worker)
    assert kafka.job.right in line
    assert "2" in line
    assert "3" in line
    again = refused_at_start(config, state(kafka))
    assert kafka.job.left in again
    assert kafka.job.right in again


def test_input_deleted_before_it_was_read_stops_the_job(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.start(config)
    for side in "lr":
        send(kafka, 10, side)
    kafka.settle()
    assert worker.terminate() == 0
    send(kafka, 20, "r")
    send(kafka, 30, "r")
    kafka.flush()
    cut = TopicPartition(kafka.job.right, 0, 2)
    kafka.cluster.admin.delete_records([cut])[cut].result(30)
    log = kafka.read(kafka.job.output)
    for environ in (state(kafka), state(kafka, 9)):
        line = refused_at_start(config, environ)
        assert kafka.job.right in line
    assert kafka.read(kafka.job.output) == log


def test_an_input_that_was_made_anew_stops_the_job(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.start(config)
    for side in "lr":
        send(kafka, 10, side)
    kafka.settle()
    assert worker.terminate() == 0
    kafka.cluster.admin.delete_topics([kafka.job.left])[kafka.job.left].result(30)
    eventually(lambda: not kafka.cluster.partitions(kafka.job.left), 30, lambda: "still there")
    kafka.create_topic(kafka.job.left, 1)
    send(kafka, 10, "l")
    kafka.flush()
    for _ in range(2):
        assert kafka.job.left in refused_at_start(config, state(kafka))
