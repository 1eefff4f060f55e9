"""The same job on the oldest line of brokers that is still about: a broker of 3.x."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from app.broker.interface import BrokerUnavailable
from app.broker.jars import find_jars, find_java
from app.broker.process import ProcessBroker
from tests.kafka.harness import Harness
from tests.kafka.load import Load
from tests.kafka.streams import random_stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION: Final = "3.9.1"

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Harness]:
    java = find_java(os.environ)
    jars = find_jars(os.environ, print, VERSION) if java is not None else None
    if java is None or jars is None:
        raise BrokerUnavailable(f"Kafka {VERSION} needs Java and Maven")
    with ProcessBroker(java, jars, {}) as broker:
        harness = Harness(broker.bootstrap_servers, tmp_path)
        try:
            yield harness
        finally:
            harness.close()


def test_a_job_on_a_broker_of_3_x(older: Harness) -> None:
    older.create_topics(4)
    config = older.write_config()
    stream = random_stream(39, 12_000, keys=300, lanes=4, step=0.02)
    first = older.start(config)
    with Load(older, stream, 10) as load:
        load.await_taken(0.1)
        second = older.start(config)
        older.await_running(first, second)
        load.await_taken(0.4)
        first.kill()
        load.await_taken(0.7)
        third = older.start(config)
        older.await_running(second, third)
        assert second.terminate() == 0
    older.settle()
    stream.check_log(older.read(older.job.output))
    stream.check_rejects(older.read(older.job.rejects))
    assert third.terminate() == 0
