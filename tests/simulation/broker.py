"""The simulated cluster: what the requests of clients do when they arrive.

Its answers are Kafka's own error codes (`Refused`). Nothing in here knows the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from zlib import crc32

from confluent_kafka import KafkaError

from tests.simulation.coordinator import OFFSETS, Coordinator, Place, Transaction
from tests.simulation.group import Group
from tests.simulation.log import Entry, Log, Past
from tests.simulation.network import Network, Refused, Weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

MESSAGE_BYTES_MAX: Final = 1_048_588
"""`max.message.bytes` of a topic that says nothing else."""


@dataclass
class Topic:
    """A topic and its partitions."""

    name: str
    id: str
    logs: list[Log]
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who produces: nobody's transaction where the producer id is -1."""

    producer: int = -1
    epoch: int = -1


class Broker:
    """One broker that leads everything and coordinates everybody."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.weather = Weather()
        self.network = Network(world, self.weather)
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.coordinator = Coordinator(self)
        self.on_producer: Callable[[str, str], None] = lambda _name, _client: None
        """Told of the transactional id and the client id of every producer that begins."""

    def create(self, name: str, partitions: int, config: dict[str, str] | None = None) -> Topic:
        """A new topic."""
        logs = [Log(name, number) for number in range(partitions)]
        settings = {"max.message.bytes": str(MESSAGE_BYTES_MAX), **(config or {})}
        topic = self.topics[name] = Topic(name, f"id-{name}-{len(self.topics)}", logs, settings)
        return topic

    def log(self, topic: str, partition: int) -> Log:
        """A partition; refused where there is none."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.logs):
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return found.logs[partition]

    def group(self, name: str) -> Group:
        """A group, from the first question about it on."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = Group(self.world, name)
        return found

    def past(self, *, offsets: bool) -> Past:
        """What a broker knows that is cut off from now on; perhaps it has the group, too."""
        logs = [log for topic in self.topics.values() for log in topic.logs]
        extents = {(log.topic, log.partition): log.extent() for log in logs}
        return Past(extents, dict(self.group("job").offsets.stored) if offsets else None)

    def partition_of(self, topic: str, key: bytes | None) -> int:
        """Where a record of a key goes that names no partition."""
        count = len(self.topics[topic].logs)
        return crc32(key) % count if key is not None else 0

    def produce(self, sender: Sender, place: Place, entries: list[Entry]) -> int:
        """Produce: returns the offset of the first record.

        A partition that has nothing open of the producer asks the coordinator first.
        """
        log = self.log(*place)
        if sender.producer >= 0:
            if sender.epoch < log.epochs.get(sender.producer, 0):
                raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
            if sender.producer not in log.open:
                self.coordinator.verify(sender.producer, sender.epoch, place)
            log.epochs[sender.producer] = sender.epoch
        first = log.high
        for entry in entries:
            entry.producer = sender.producer
            log.append(entry)
        return first

    def commit_offsets(
        self, sender: Sender, group: Group, member: tuple[str, int], offsets: dict[Place, int]
    ) -> None:
        """TxnOffsetCommit: generation and member are compared here and nowhere later."""
        if sender.producer not in group.offsets.pending:
            place = (OFFSETS + group.name, 0)
            self.coordinator.verify(sender.producer, sender.epoch, place)
        group.check_offsets(*member)
        group.offsets.send(sender.producer, offsets)

    def mark(self, found: Transaction, place: Place, epoch: int, *, commit: bool) -> None:
        """WriteTxnMarkers for one partition, or for a group's offsets."""
        topic, partition = place
        outcome = "commit" if commit else "abort"
        self.world.note(f"broker: {outcome} marker of {found.name} in {topic} {partition}")
        if not topic.startswith(OFFSETS):
            self.log(topic, partition).decide(found.producer, epoch, commit=commit)
            return
        offsets = self.group(topic.removeprefix(OFFSETS)).offsets
        offsets.decide(found.producer, commit=commit)
