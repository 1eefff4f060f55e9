"""Parts of the broker that say nothing to a worker, while all the others answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import encode, instant
from tests.kafka.harness import Harness
from tests.kafka.proxy import HEARTBEAT, JOIN_GROUP, Proxy
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.workers import Worker

RESTARTED: Final = 75
WITHIN_S: Final = 60


@pytest.fixture
def kafka(proxied: tuple[Proxy, str], tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(proxied[1], tmp_path)
    try:
        yield harness
    finally:
        proxied[0].go_on()
        harness.close()


@pytest.fixture
def between(proxied: tuple[Proxy, str]) -> Proxy:
    return proxied[0]


def impatient(kafka: Harness, config: Path) -> Worker:
    return kafka.launch([sys.executable, "-m", "tests.kafka.impatient", "run", "-c", str(config)])


def test_a_worker_that_its_group_does_not_let_in_says_so(kafka: Harness, between: Proxy) -> None:
    kafka.create_topics(1)
    worker = impatient(kafka, kafka.write_config())
    kafka.await_running(worker)
    between.keep_back(lambda kind, _client: kind in {JOIN_GROUP, HEARTBEAT})
    kafka.await_(
        lambda: worker.get("/readyz")[1].startswith("not a member of the group for "),
        WITHIN_S,
        worker.tail,
    )
    assert worker.get("/readyz")[0] == 503
    assert worker.get("/livez")[0] == 200
    kafka.await_(lambda: "waiting for the group" in worker.log.read_text(), WITHIN_S, worker.tail)
    between.go_on()
    kafka.await_running(worker)
    assert "a member of the group again" in worker.log.read_text()
    kafka.send(kafka.job.left, b"k", encode(instant("l", 10)))
    kafka.send(kafka.job.right, b"k", encode(instant("r", 10)))
    kafka.settle()
    assert set(kafka.matches()) == {"L:l|R:r"}


def test_a_worker_whose_reader_of_the_changelog_stands_still_ends(
    kafka: Harness, between: Proxy
) -> None:
    """It asks every 0.2 s here, not every 5 s, so three minutes are three seconds."""
    kafka.create_topics(1)
    config = kafka.write_config()
    first = kafka.start(config)
    kafka.send(kafka.job.left, b"k", encode(instant("l", 10)))
    kafka.settle()
    assert first.terminate() == 0, first.tail()

    between.keep_back(lambda _kind, client: client.endswith("-restore"))
    worker = impatient(kafka, config)
    worker.expect_end()
    kafka.await_(
        lambda: (
            [lane["phase"] for lane in lanes_of(worker.port)] == ["restoring"]
            or worker.process.poll() is not None
        ),
        WITHIN_S,
        worker.tail,
    )
    kafka.send(kafka.job.right, b"k", encode(instant("r", 10)))
    kafka.flush()
    assert worker.wait(WITHIN_S) == RESTARTED, worker.tail()
    said = "spanjoin: nothing of the changelog of lane 0 comes from the client any more, at -1"
    assert worker.tail().splitlines()[-1].startswith(said), worker.tail()

    between.go_on()
    kafka.start(config)
    kafka.settle()
    assert set(kafka.matches()) == {"L:l|R:r"}
