"""The promises of the simulated Kafka, kept by a real broker."""

from __future__ import annotations

import json
import socket
import struct
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.kafka.proxy import LIST_OFFSETS, Proxy
from tests.kafka.reading import QUIET
from tests.simulation.contract import PROMISES
from tests.simulation.contract_reading import BREAKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.broker import Broker
    from tests.simulation.contract_words import Cluster

END_TXN = 26


class Real:
    """A real cluster."""

    def __init__(self, bootstrap_servers: str, proxy: Proxy | None = None) -> None:
        self._proxy = proxy
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **QUIET}
        self.admin: Any = AdminClient(self._common)
        self._ids: dict[str, tuple[int, int]] = {}
        self._consumers: list[Consumer] = []

    def topic(self, partitions: int = 1) -> str:
        name = self.name()
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def name(self) -> str:
        return f"contract-{uuid.uuid4().hex[:12]}"

    def producer(self, name: str) -> Any:
        def note(statistics: str) -> None:
            eos = json.loads(statistics).get("eos", {})
            if eos.get("producer_id", -1) >= 0:
                self._ids[name] = (eos["producer_id"], eos["producer_epoch"])

        return Producer(
            {
                **self._common,
                "transactional.id": name,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 0,
                "retry.backoff.ms": 1,
                "statistics.interval.ms": 100,
                "stats_cb": note,
            }
        )

    def consumer(self, group: str | None = None, isolation: str = "read_committed") -> Any:
        consumer = Consumer(
            {
                **self._common,
                "group.id": group or self.name(),
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 6000,
                "max.poll.interval.ms": 6000,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 5,
            }
        )
        self._consumers.append(consumer)
        return consumer

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        assert self._proxy is not None, "nobody stands between"
        self._proxy.break_at(lambda kind, _client: kind == LIST_OFFSETS)
        yield
        self._proxy.go_on()

    def end_late(self, name: str, producer: Any, *, commit: bool) -> int:
        """EndTxn, version 1, on a connection of its own: the client knows nothing of it."""
        self._ids.pop(name, None)
        deadline = time.monotonic() + 10
        while name not in self._ids and time.monotonic() < deadline:
            producer.poll(0.1)
        body = struct.pack(">hhi", END_TXN, 1, 1) + _string("late") + _string(name)
        body += struct.pack(">qhb", *self._ids[name], commit)
        host, port = self._common["bootstrap.servers"].split(",")[0].rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(64)
        (code,) = struct.unpack_from(">h", answer, 12)
        return int(code)

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Real]:
    real = Real(broker.bootstrap_servers)
    yield real
    real.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_promise(promise: Callable[[Cluster], None], cluster: Real) -> None:
    promise(cluster)


@pytest.mark.parametrize("promise", BREAKING, ids=lambda promise: promise.__name__)
def test_promise_of_connections_that_break(
    promise: Callable[[Cluster], None], proxied: tuple[Proxy, str]
) -> None:
    proxy, address = proxied
    cluster = Real(address, proxy)
    try:
        promise(cluster)
    finally:
        cluster.close()
