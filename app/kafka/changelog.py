"""Readers of the changelog: the one that restores, and the one that looks at its undecided tail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from app.errors import Retry
from app.kafka.clients import FOUND_WITHIN_S, close_within, look_up, with_defaults
from app.kafka.failures import of_consumer
from app.kafka.transactions import HEADER_KIND, HEADER_WRITER
from rebalance.fence import Stamp
from rebalance.takeover import Replayed

if TYPE_CHECKING:
    from app.config import Config

_TAIL_TIMEOUT_S: Final = 10.0
_TAIL_BATCH: Final = 500
_CLOSE_WITHIN_S: Final = 3.0
_DEFAULTS: Final[dict[str, str | int | bool]] = {
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
    "queued.max.messages.kbytes": 65_536,
}


def _properties(config: Config, client_id: str, isolation: str) -> dict[str, str | int | bool]:
    return {
        **_DEFAULTS,
        "client.id": client_id,
        **config.consumer_properties(),
        "group.id": config.name,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }


class RestoreReader:
    """Reads committed changelog records of the lanes on their way; never joins the group."""

    def __init__(self, config: Config, client_id: str) -> None:
        self._topic = config.changelog_topic
        self._consumer = Consumer(
            with_defaults(_properties(config, f"{client_id}-restore", "read_committed"))
        )
        look_up(self._consumer, self._topic)
        self._lanes: set[int] = set()

    def assign(self, lane: int, offset: int) -> None:
        """Start reading a lane at an offset."""
        self._consumer.incremental_assign([TopicPartition(self._topic, lane, offset)])
        self._lanes.add(lane)

    def unassign(self, lane: int) -> None:
        """Stop reading a lane; nothing happens if it was not read."""
        if lane in self._lanes:
            self._lanes.discard(lane)
            self._consumer.incremental_unassign([TopicPartition(self._topic, lane)])

    def look_again(self) -> None:
        """Learn anew who leads the partitions. Waits a second at most."""
        look_up(self._consumer, self._topic)

    def lost(self) -> bool:
        """Whether the client finds no broker that it could ask."""
        return not look_up(self._consumer, self._topic, FOUND_WITHIN_S)

    def read(self, limit: int) -> Replayed:
        """What is there now. Raises what a person or a restart must answer."""
        replayed = Replayed([], [])
        for message in self._consumer.consume(limit, 0.001):
            lane, offset, value = message.partition(), message.offset(), message.value()
            error = message.error()
            if lane is None or lane not in self._lanes:
                continue
            if error is None:
                assert offset is not None, "a record has an offset"
                assert value is not None, "a changelog record has a value"
                replayed.items.append((lane, offset, value))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                replayed.items.append((lane, offset or 0, None))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - likewise
                replayed.below_start.append(lane)
            elif (failure := of_consumer(error)) is not None:
                raise failure
        return replayed

    def close(self) -> None:
        """Close the client; may hang, so call it from a thread that may be left."""
        self._consumer.close()


def read_tail(
    config: Config, client_id: str, lane: int, start: int, end: int
) -> list[Stamp] | None:
    """Stamps of all changelog records in [start, end), decided or not; blocks.

    None where they are not in the log: it has been cut beyond `start` since somebody found it to
    begin below, or the broker that is asked is behind. Neither changes by asking for them again.
    Raises Retry where the end was not reached in time.
    """
    consumer = Consumer(with_defaults(_properties(config, f"{client_id}-tail", "read_uncommitted")))
    stamps: list[Stamp] = []
    deadline = time.monotonic() + _TAIL_TIMEOUT_S
    try:
        look_up(consumer, config.changelog_topic)
        consumer.assign([TopicPartition(config.changelog_topic, lane, start)])
        while time.monotonic() < deadline:
            for message in consumer.consume(_TAIL_BATCH, 0.05):
                error = message.error()
                if error is None:
                    stamps.append(_stamp(message.headers()))
                    if (message.offset() or 0) >= end - 1:
                        return stamps
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    if (message.offset() or 0) >= end:
                        return stamps
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - likewise
                    return None
                elif (failure := of_consumer(error)) is not None:
                    raise failure
        raise Retry(f"the tail of changelog partition {lane} could not be read in time")
    finally:
        close_within(_CLOSE_WITHIN_S, consumer.close)


def _stamp(headers: object) -> Stamp:
    fields = dict(headers) if isinstance(headers, list) else {}
    writer, kind = fields.get(HEADER_WRITER) or b"", fields.get(HEADER_KIND)
    return Stamp(writer.decode(), kind == b"release")
