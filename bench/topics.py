"""The benchmark's own side of Kafka: topics, the load, positions, the output.

The input is written before the measured system starts, in two transactions that stay open: what it
warms up with, and what is measured. No reader with read_committed sees any of either before it is
committed, which is the starting gun: neither start-up nor loading is in any figure.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.avro import encode_event
from bench.workload import JITTER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.workload import Sent

WAIT_S: Final = 30.0
IN_FLIGHT_MAX: Final = 100_000
BATCH: Final = 10_000
STALLED_S: Final = 60.0
POLL_S: Final = 0.02

Offsets = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


class Topics:
    """All requests of one benchmark to its broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._bootstrap: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 2,
        }
        self._admin = AdminClient(self._bootstrap)

    def create(
        self,
        inputs: Iterable[str],
        output: str,
        partitions: int,
        output_settings: Mapping[str, str] | None = None,
    ) -> None:
        """Make a run's topics; raises what the broker says to it."""
        settings = {name: {"retention.ms": "-1"} for name in inputs}
        # Compacted as it is meant to be, but not before every record was counted.
        settings[output] = {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "86400000",
            **(output_settings or {}),
        }
        asked = self._admin.create_topics(
            [NewTopic(name, partitions, config=config) for name, config in settings.items()]
        )
        for answer in asked.values():
            answer.result(WAIT_S)

    def delete_like(self, part: str) -> None:
        """Remove every topic with this in its name: data of a run that is over."""
        names = [name for name in self._admin.list_topics(timeout=WAIT_S).topics if part in name]
        if names:
            for answer in self._admin.delete_topics(names).values():
                answer.result(WAIT_S)

    def load(
        self, inputs: Sequence[tuple[str, Sequence[Sent]]], partitions: int
    ) -> tuple[Offsets, Callable[[], None]]:
        """Write the inputs, key by murmur2 as Java does; returns their ends, and what lets them go.

        One more event follows in every partition, which nobody need read: a system that orders
        the two sides by time may keep its newest events until it knows of a later one.
        """
        producer = Producer(
            {
                **self._bootstrap,
                "transactional.id": f"load-{uuid.uuid4()}",
                "transaction.timeout.ms": 600_000,
                "partitioner": "murmur2_random",
                "linger.ms": 50,
                "queue.buffering.max.messages": 2 * IN_FLIGHT_MAX,
                "queue.buffering.max.kbytes": 1_048_576,
            }
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for topic, records in inputs:
            for number, (key, value, ts) in enumerate(records):
                producer.produce(topic, value, key, timestamp=ts)
                if number % BATCH == 0 and len(producer) > IN_FLIGHT_MAX:
                    producer.flush(WAIT_S)
        if producer.flush(WAIT_S):
            raise TimeoutError("the broker did not take the load")
        ends = self.ends([topic for topic, _ in inputs], partitions)
        last = 1 + max(
            (ts for _, records in inputs for _, _, ts in records[-JITTER_MS:]), default=0
        )
        for topic, _ in inputs:
            for partition in range(partitions):
                name = f"end-{topic}-{partition}-{last}"
                value = encode_event(name, last, (last, last), b"")
                producer.produce(topic, value, name, partition, timestamp=last)
        producer.flush(WAIT_S)

        def let_go() -> None:
            producer.commit_transaction(WAIT_S)
            producer.close()

        return ends, let_go

    def ends(self, names: Iterable[str], partitions: int) -> Offsets:
        """The next offset of every partition."""
        places = [TopicPartition(name, number) for name in names for number in range(partitions)]
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # The vendor left it so.
        asked = self._admin.list_offsets(dict.fromkeys(places, latest))
        return {
            (place.topic, place.partition): answer.result(WAIT_S).offset
            for place, answer in asked.items()
        }

    def committed(self, group: str) -> Offsets:
        """The group's committed positions."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        places = asked[group].result(WAIT_S).topic_partitions or []
        return {(place.topic, place.partition): place.offset for place in places}

    def reach(self, group: str, ends: Offsets, alive: Callable[[], None]) -> float:
        """Wait until the group's positions are at these ends; returns when that was seen.

        Raises TimeoutError where they stand still. `alive` may raise, too.
        """
        moved_at, seen = time.monotonic(), -1
        while True:
            committed = self.committed(group)
            now = time.monotonic()
            if all(committed.get(place, 0) >= end for place, end in ends.items()):
                return now
            total = sum(committed.values())
            if total != seen:
                moved_at, seen = now, total
            elif now - moved_at > STALLED_S:
                raise TimeoutError(f"{group} stands still at {committed}, to reach are {ends}")
            alive()
            time.sleep(POLL_S)

    def read(self, topic: str) -> list[tuple[bytes, bytes | None]]:
        """Key and value of every committed record of a topic."""
        consumer = Consumer(
            {
                **self._bootstrap,
                "group.id": f"read-{uuid.uuid4()}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 5,
            }
        )
        try:
            partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            return _read_to_ends(consumer, set(partitions))
        finally:
            consumer.close()


def _read_to_ends(consumer: Consumer, unread: set[int]) -> list[tuple[bytes, bytes | None]]:
    records: list[tuple[bytes, bytes | None]] = []
    deadline = time.monotonic() + STALLED_S
    while unread:
        message: Any
        for message in consumer.consume(BATCH, 0.1):
            if message.error() is None:
                records.append((message.key(), message.value()))
            else:
                unread.discard(message.partition())
            deadline = time.monotonic() + STALLED_S
        if time.monotonic() > deadline:
            raise TimeoutError(f"the output has no end: {unread}")
    return records
