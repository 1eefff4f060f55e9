"""What a worker keeps: it goes on from it, does without it, and refuses what contradicts it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from tests.kafka.avro import encode, instant
from tests.kafka.streams import random_stream
from tests.kafka.workers import spanjoin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kafka.harness import Harness

LANES: Final = 4


def state(kafka: Harness, number: int = 1) -> dict[str, str]:
    """The environment of a worker over the state directory of the one of that number."""
    return {"SPANJOIN_STATE__DIR": str(kafka.directory / f"state-{number}")}


def send(kafka: Harness, at: int, side: str) -> None:
    """An instant named after its side and time."""
    topic = {"l": kafka.job.left, "r": kafka.job.right}[side]
    kafka.send(topic, b"k", encode(instant(f"{side}{at}", at)))


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
