"""The promises of `contract`, kept by the simulated Kafka."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation.admin import AdminClient
from tests.simulation.broker import Broker
from tests.simulation.client import Client
from tests.simulation.consumer import Consumer
from tests.simulation.contract import PROMISES
from tests.simulation.contract_reading import BREAKING
from tests.simulation.network import Refused
from tests.simulation.producer import Producer
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.contract_words import Cluster


class Simulated:
    """A simulated cluster, for whoever runs inside one of its processes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.admin: Any = AdminClient({})
        self._names = 0

    def topic(self, partitions: int = 1) -> str:
        return self.broker.create(self.name(), partitions).name

    def name(self) -> str:
        self._names += 1
        return f"name-{self._names}"

    def producer(self, name: str) -> Any:
        return Producer({"transactional.id": name})

    def consumer(self, group: str | None = None, isolation: str = "read_committed") -> Any:
        times = {"session.timeout.ms": 6000, "max.poll.interval.ms": 6000}
        settings = {"group.id": group or self.name(), "isolation.level": isolation}
        return Consumer({**settings, **times, "heartbeat.interval.ms": 300})

    def sleep(self, seconds: float) -> None:
        self.broker.world.sleep(seconds)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        self.broker.weather.lose_request = 1.0
        yield
        self.broker.weather.calm()

    def end_late(self, name: str, producer: Any, *, commit: bool) -> int:
        sender = producer._sender
        try:
            self.broker.coordinator.end(name, sender.producer, sender.epoch, commit=commit)
        except Refused as refused:
            return refused.code
        return 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("promise", [*PROMISES, *BREAKING], ids=lambda promise: promise.__name__)
def test_promise(
    promise: Callable[[Cluster], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    broker = Broker(world)
    monkeypatch.setattr(Client, "broker", broker, raising=False)

    def keep() -> None:
        promise(Simulated(broker))
        world.done = True

    Process(world, "client").spawn("main", keep)
    world.run(120.0)
