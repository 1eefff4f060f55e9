"""The transaction coordinator, protocol version 1: an EndTxn carries producer id and epoch only.

So one that comes late ends whatever that producer has open at that time. It is answered before the
markers are written, and each partition gets its marker when it gets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from tests.simulation.network import Refused

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

Place = tuple[str, int]
"""Topic and partition."""
OFFSETS: Final = "offsets of "
"""With a group's name: the partition of its stored offsets, as a place."""
CLEANUP_S: Final = 1.0
"""How often the coordinator looks for transactions that are open for too long."""


class State(Enum):
    """Where a transactional id stands."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMPLETE_COMMIT = "complete commit"
    COMPLETE_ABORT = "complete abort"


_PREPARED: Final = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}


@dataclass(slots=True)
class Transaction:
    """What the coordinator knows of a transactional id."""

    name: str
    producer: int
    epoch: int = 0
    state: State = State.EMPTY
    places: set[Place] = field(default_factory=set)
    started: float = 0.0
    timeout_s: float = 60.0


class Coordinator:
    """All transactional ids of the cluster."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._names: dict[str, Transaction] = {}
        self.by_producer: dict[int, Transaction] = {}
        self.marker_s = 0.02
        """The longest that a marker takes as a rule."""
        broker.world.at(CLEANUP_S, self._clean_up)

    @property
    def decided(self) -> bool:
        """Whether no transaction is open, nor any marker missing."""
        return not any(
            one.state is State.ONGOING or one.state in _PREPARED for one in self._names.values()
        )

    def open_of(self, beginning: str) -> list[str]:
        """Names that begin so and have a transaction open."""
        return [
            one.name
            for one in self._names.values()
            if one.name.startswith(beginning) and one.state is State.ONGOING
        ]

    def init(self, name: str, timeout_s: float) -> tuple[int, int]:
        """InitProducerId: end what is open, then give a higher epoch."""
        found = self._names.get(name)
        if found is None:
            found = Transaction(name, len(self._names))
            self._names[name] = self.by_producer[found.producer] = found
        elif found.state is State.ONGOING:
            found.epoch += 1
            self._broker.world.note(f"broker: {name} is fenced, its transaction aborted")
            self._prepare(found, commit=False)
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        elif found.state in _PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        else:
            found.epoch += 1
        found.timeout_s = timeout_s
        found.state = State.EMPTY
        return found.producer, found.epoch

    def add(self, name: str, producer: int, epoch: int, places: list[Place]) -> None:
        """AddPartitionsToTxn and AddOffsetsToTxn: begins a transaction where none is open."""
        found = self._checked(name, producer, epoch)
        if found.state in _PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if found.state is not State.ONGOING:
            found.state = State.ONGOING
            found.started = self._broker.world.now
            found.places = set()
        found.places.update(places)

    def end(self, name: str, producer: int, epoch: int, *, commit: bool) -> None:
        """EndTxn."""
        found = self._checked(name, producer, epoch)
        wanted = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        if found.state is State.ONGOING:
            self._prepare(found, commit=commit)
        elif found.state is wanted:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        elif found.state is not _PREPARED[wanted]:
            raise Refused(KafkaError.INVALID_TXN_STATE)

    def verify(self, producer: int, epoch: int, place: Place) -> None:
        """Whether records of this producer may be added to a partition, or offsets stored."""
        found = self.by_producer[producer]
        if found.epoch != epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        if found.state in _PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if found.state is not State.ONGOING or place not in found.places:
            raise Refused(KafkaError.INVALID_TXN_STATE)

    def will_commit(self, producer: int) -> bool:
        """Whether what is open of a producer in some partition only lacks its commit marker."""
        return self.by_producer[producer].state is State.PREPARE_COMMIT

    def _checked(self, name: str, producer: int, epoch: int) -> Transaction:
        found = self._names.get(name)
        if found is None or found.producer != producer:
            raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if found.epoch != epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        return found

    def _prepare(self, found: Transaction, *, commit: bool) -> None:
        """Decide; the markers follow one by one."""
        found.state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        missing = set(found.places)
        if not missing:
            found.state = _PREPARED[found.state]
        for place in sorted(missing):
            self._mark_later(found, place, missing, commit=commit)

    def _mark_later(
        self, found: Transaction, place: Place, missing: set[Place], *, commit: bool
    ) -> None:
        world, weather = self._broker.world, self._broker.weather
        epoch = found.epoch

        def mark() -> None:
            if weather.away_until > world.now:
                world.at(weather.away_until - world.now + self._marker_latency(), mark)
                return
            self._broker.mark(found, place, epoch, commit=commit)
            missing.discard(place)
            if not missing:
                found.state = _PREPARED[found.state]

        world.at(self._marker_latency(), mark)

    def _marker_latency(self) -> float:
        random = self._broker.world.random.random
        return random() * self.marker_s * (5 if random() < 0.1 else 1)

    def _clean_up(self) -> None:
        """Abort what is open for too long; its producer is fenced by that."""
        world = self._broker.world
        here = self._broker.weather.away_until <= world.now
        for found in list(self._names.values()):
            late = world.now - found.started > found.timeout_s
            if found.state is State.ONGOING and late and here:
                found.epoch += 1
                world.note(f"broker: the transaction of {found.name} has timed out")
                self._prepare(found, commit=False)
        world.at(CLEANUP_S, self._clean_up)
