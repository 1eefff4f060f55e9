"""The broker that tests and demo start: it answers, takes what is done to it, and goes away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.broker import Broker, BrokerUnavailable, start_broker
from app.broker.process import ProcessBroker
from tests.kafka.harness import Harness
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A broker for this file alone, to be killed and paused."""
    with start_broker({"log.segment.bytes": "1048576"}) as broker:
        if not broker.owned:
            pytest.skip("the broker was given: it is not ours to disturb")
        yield broker


def test_what_was_acknowledged_survives_a_kill(own_broker: Broker, tmp_path: Path) -> None:
    harness = Harness(own_broker.bootstrap_servers, tmp_path)
    harness.create_topic(harness.job.output, 3)
    for number in range(100):
        harness.send(harness.job.output, str(number), b"before")
    harness.flush()
    address = own_broker.bootstrap_servers
    own_broker.kill()
    own_broker.restart()
    assert own_broker.bootstrap_servers == address
    harness.send(harness.job.output, "after", b"after")
    harness.flush()
    assert len(harness.matches()) == 101


def test_a_paused_broker_answers_nothing_until_it_is_resumed(
    own_broker: Broker, tmp_path: Path
) -> None:
    harness = Harness(own_broker.bootstrap_servers, tmp_path)
    harness.create_topic(harness.job.output, 1)
    own_broker.pause()
    harness.send(harness.job.output, "key", b"value")
    assert harness.producer.flush(1) == 1
    own_broker.resume()
    harness.flush()
    assert harness.matches() == {"key": b"value"}


def test_extra_properties_reach_the_broker(own_broker: Broker, tmp_path: Path) -> None:
    harness = Harness(own_broker.bootstrap_servers, tmp_path)
    harness.create_topic(harness.job.output, 1)
    assert harness.topic_config(harness.job.output)["segment.bytes"] == "1048576"


def test_a_broker_that_cannot_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(BrokerUnavailable, match=r"(?s)ended while starting.*no\.such\.Thing"):
        start_broker({"metric.reporters": "no.such.Thing"}, environ=_without_given())


def test_stop_leaves_nothing() -> None:
    broker = start_broker(environ=_without_given())
    assert broker.log_path is not None
    assert broker.log_path.exists()
    broker.stop()
    broker.stop()
    assert not broker.log_path.parent.exists()
    if isinstance(broker, ProcessBroker):
        assert broker.pid is None


STARTER = """
import os, sys
from app.broker import start_broker
broker = start_broker()
print(getattr(broker, "pid", 0), broker.log_path, flush=True)
sys.stdin.read()
"""


def test_a_broker_does_not_outlive_a_starter_that_was_killed() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_without_given(),
    )
    with starter:
        assert starter.stdout is not None
        pid, log = starter.stdout.readline().split()
        starter.kill()
    if pid == "0":
        pytest.skip("in Docker the reaper removes it, a while later")
    directory = Path(log).parent
    eventually(lambda: not directory.exists(), 15, lambda: f"{directory} is still there")
    eventually(lambda: not _runs(int(pid)), 5, lambda: f"process {pid} still runs")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _without_given() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "SPANJOIN_TEST_BOOTSTRAP_SERVERS"}


def test_the_session_s_broker_is_ready_at_once(kafka: Harness) -> None:
    began = time.monotonic()
    kafka.create_topic(kafka.job.left, 2)
    kafka.create_topic(kafka.job.right, 3)
    kafka.send(kafka.job.left, b"key", b"value", headers={"a": b"b"})
    kafka.send(kafka.job.right, None, None, partition=2)
    kafka.flush()
    (left,) = kafka.read(kafka.job.left)
    (right,) = kafka.read(kafka.job.right)
    assert (left.key, left.value, left.headers) == (b"key", b"value", {"a": b"b"})
    assert (right.partition, right.key, right.value) == (2, None, None)
    assert time.monotonic() - began < 20
