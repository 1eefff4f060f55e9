"""What all simulated clients share: who they belong to, and the vendor's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.network import TimedOut
from tests.simulation.world import Process, current

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.broker import Broker

CONCURRENT: Final = frozenset({KafkaError.CONCURRENT_TRANSACTIONS})
_STATE: Final = KafkaError._STATE
_TIMED_OUT: Final = KafkaError._TIMED_OUT


def failure(
    code: int,
    text: str = "",
    *,
    fatal: bool = False,
    retriable: bool = False,
    abort: bool = False,
) -> KafkaException:
    """The vendor's exception around the vendor's error."""
    return KafkaException(KafkaError(code, text or None, fatal, retriable, abort))


def timed_out(what: str) -> KafkaException:
    """A call whose time was up."""
    return failure(_TIMED_OUT, f"Timed out: {what}", retriable=True)


def wrong_state(what: str) -> KafkaException:
    """A call that is not allowed now."""
    return failure(_STATE, f"Operation not valid in state {what}")


class Client:
    """A client of the simulated broker, made by a simulated process."""

    broker: Broker

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.process: Process = current().process
        self.world = self.process.world
        self.network = self.broker.network

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> None:
        """Nobody reads the answer: the real client learns by it who leads the partitions."""
        try:
            self.network.ask("list_topics", lambda: None, self.deadline(timeout))
        except TimedOut:
            raise timed_out("list_topics") from None

    def deadline(self, timeout: float) -> float:
        """When a call that begins now must be over."""
        return self.world.now + (timeout if timeout >= 0 else 60.0)

    def ms(self, name: str, default: int) -> float:
        """A property that is a time, in seconds."""
        return int(self.config.get(name, default)) / 1000
