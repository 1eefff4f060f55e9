"""Parts of the broker that say nothing to a worker, while all the others answer."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import encode, instant
from tests.kafka.proxy import HEARTBEAT, JOIN_GROUP, Proxy
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

RESTARTED: Final = 75
WITHIN_S: Final = 60
ENDED_WITHIN_S: Final = 30
"""Of a worker that ends after five seconds if it is alone on its machine."""
OUTAGE_S: Final = 8.0
"""Longer than a session (2 s) and what its worker waits for the group then (3 s) together."""


@pytest.fixture
def kafka(proxied_kafka: Harness) -> Harness:
    return proxied_kafka


def impatient(kafka: Harness, config: Path, environ: Mapping[str, str] | None = None) -> Worker:
    command = [sys.executable, "-m", "tests.kafka.impatient", "run", "-c", str(config)]
    return kafka.launch(command, environ)


def last_line(worker: Worker) -> str:
    return worker.tail().splitlines()[-1]


def test_a_worker_that_its_group_does_not_let_in_says_so(kafka: Harness, proxy: Proxy) -> None:
    kafka.create_topics(1)
    worker = impatient(kafka, kafka.write_config())
    kafka.await_running(worker)
    proxy.keep_back(lambda kind, _client: kind in {JOIN_GROUP, HEARTBEAT})
    kafka.await_(
        lambda: worker.get("/readyz")[1].startswith("not a member of the group for "),
        WITHIN_S,
        worker.tail,
    )
    assert worker.get("/readyz")[0] == 503
    assert worker.get("/livez")[0] == 200
    kafka.await_(lambda: "waiting for the group" in worker.log.read_text(), WITHIN_S, worker.tail)
    proxy.go_on()
    kafka.await_running(worker)
    assert "a member of the group again" in worker.log.read_text()
    kafka.send(kafka.job.left, b"k", encode(instant("l", 10)))
    kafka.send(kafka.job.right, b"k", encode(instant("r", 10)))
    kafka.settle()
    assert set(kafka.matches()) == {"L:l|R:r"}


def test_a_worker_that_its_group_does_not_let_in_for_long_ends(
    kafka: Harness, proxy: Proxy
) -> None:
    """The broker answers whatever else it is asked. Three minutes are three seconds here."""
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = impatient(kafka, config, {"GIVEN_UP_S": "3"})
    kafka.await_running(worker)
    worker.expect_end()
    proxy.keep_back(lambda kind, _client: kind in {JOIN_GROUP, HEARTBEAT})
    assert worker.wait(ENDED_WITHIN_S) == RESTARTED, worker.tail()
    said = "spanjoin: the group does not take the worker in for "
    assert last_line(worker).startswith(said), worker.tail()
    proxy.go_on()
    kafka.await_running(kafka.start(config))


def test_a_worker_whose_client_finds_no_broker_ends_sooner(kafka: Harness, proxy: Proxy) -> None:
    """All other clients of it have their answers: the one that is a member has lost its brokers."""
    kafka.create_topics(1)
    config = kafka.write_config()
    # That a side is not fed is looked for seldom: that ends a worker, too.
    worker = impatient(kafka, config, {"LOST_S": "2", "ASK_EVERY_S": "5"})
    kafka.await_running(worker)
    member = json.loads(worker.get("/status")[1])["worker"]
    worker.expect_end()
    proxy.keep_back(lambda _kind, client: client == member)
    assert worker.wait(ENDED_WITHIN_S) == RESTARTED, worker.tail()
    assert last_line(worker).startswith("spanjoin: not a member of the group for "), worker.tail()
    assert last_line(worker).endswith(" s: its client finds no broker"), worker.tail()
    proxy.go_on()
    kafka.await_running(kafka.start(config))


def test_a_worker_waits_for_a_broker_that_is_away(kafka: Harness, proxy: Proxy) -> None:
    """It is no member either, and has not lost its brokers: there is none to be found."""
    soon = {"GIVEN_UP_S": "3", "LOST_S": "3", "WATCH_EVERY_S": "0.2", "UNHEARD_S": "1"}
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = impatient(kafka, config, soon)
    kafka.await_running(worker)
    proxy.cut_at(HEARTBEAT)
    kafka.await_(lambda: worker.get("/readyz")[0] == 503, WITHIN_S, worker.tail)
    time.sleep(OUTAGE_S)
    worker.check()
    assert worker.terminate() == 0, worker.tail()
    proxy.come_back()
    kafka.await_running(kafka.start(config))


def test_a_worker_whose_reader_of_the_changelog_stands_still_ends(
    kafka: Harness, proxy: Proxy
) -> None:
    """It asks every 0.2 s here, not every 5 s, so three minutes are three seconds."""
    kafka.create_topics(1)
    config = kafka.write_config()
    first = kafka.start(config)
    kafka.send(kafka.job.left, b"k", encode(instant("l", 10)))
    kafka.settle()
    assert first.terminate() == 0, first.tail()

    proxy.keep_back(lambda _kind, client: client.endswith("-restore"))
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

    proxy.go_on()
    kafka.start(config)
    kafka.settle()
    assert set(kafka.matches()) == {"L:l|R:r"}
