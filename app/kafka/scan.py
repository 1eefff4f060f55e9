"""Reading committed records of a topic from one offset to another, or for ever.

Invariant: a scan ends only when the reader was told that it has reached the wanted end, never
because nothing came for a while: what is missing would look like what is not there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from app.errors import Crash
from app.kafka.clients import close_within, for_commands, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.config import Config

T = TypeVar("T")

BATCH: Final = 5_000
STALLED_SECONDS: Final = 60.0
"""Longer than a transaction may stay open under a worker's settings, with its clean-up."""
_WAIT_SECONDS: Final = 0.01
"""The client waits so long also when all has come: each scan that ends takes that much longer."""
_FOLLOW_SECONDS: Final = 0.1
CLOSE_WITHIN_S: Final = 3.0
_FIXED: Final[Mapping[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
_REFUSED: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: 'Read on topic "{topic}"',
    # Its name is all that is used of it, but the client looks for its coordinator.
    KafkaError.GROUP_AUTHORIZATION_FAILED: 'Describe on group "{group}"',
}

Span = tuple[int, int]
"""The first offset that is wanted, and the first that is not."""


class Read(NamedTuple):
    """A committed record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


class Whole(NamedTuple):
    """A committed record with all that is there to know of it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, str | bytes | None]]


class Scanner:
    """A read_committed reader that never joins the group; close it when done."""

    def __init__(
        self,
        config: Config,
        properties: Mapping[str, int] | None = None,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        """`properties` override the user's; it gives up after `stalled_seconds` at one place."""
        self._address = config.bootstrap_servers
        self._group = config.name
        self._stalled_seconds = stalled_seconds
        self._consumer = Consumer(
            {
                "fetch.queue.backoff.ms": 5,
                # A partition's end is told after such a wait: half a second each, by default.
                "fetch.wait.max.ms": 10,
                **for_commands(config.consumer_properties()),
                **(properties or {}),
                # Only a name here: nothing is subscribed to and nothing is committed.
                "group.id": config.name,
                **_FIXED,
            }
        )

    def scan(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Read]]:
        """Committed records of [start, end), in batches; a batch may be empty.

        Where a transaction is still open below `end`, waits until it is decided. Raises Crash
        when there was no progress for so long as it was made for.
        """
        return self._scan(topic, {partition: (start, end)}, _read)

    def scan_all(self, topic: str, spans: Mapping[int, Span]) -> Iterator[list[Read]]:
        """The same of several partitions at a time; each one's records are in their order."""
        return self._scan(topic, spans, _read)

    def scan_whole(self, topic: str, spans: Mapping[int, Span]) -> Iterator[list[Whole]]:
        """The same, with timestamps and headers."""
        return self._scan(topic, spans, _whole)

    def _scan(
        self, topic: str, spans: Mapping[int, Span], made: Callable[[Any], T]
    ) -> Iterator[list[T]]:
        open_spans = {lane: span for lane, span in spans.items() if span[0] < span[1]}
        if not open_spans:
            return
        look_up(self._consumer, topic)
        self._consumer.assign(
            [TopicPartition(topic, lane, start) for lane, (start, _) in open_spans.items()]
        )
        reached = {lane: start for lane, (start, _) in open_spans.items()}
        progressed = time.monotonic()
        while open_spans:
            batch: list[T] = []
            before = sum(reached.values())
            for message in self._consumer.consume(BATCH, _WAIT_SECONDS):
                position, lane = self._position(message, topic), message.partition()
                if lane not in open_spans:
                    continue
                end = open_spans[lane][1]
                reached[lane] = max(reached[lane], position)
                if message.error() is None and (message.offset() or 0) < end:
                    batch.append(made(message))
                if reached[lane] >= end:
                    del open_spans[lane]
                    self._consumer.incremental_unassign([TopicPartition(topic, lane)])
            if sum(reached.values()) > before:
                progressed = time.monotonic()
            elif time.monotonic() - progressed > self._stalled_seconds:
                lane = min(open_spans)
                raise Crash(
                    f"partition {lane} of {topic} was not readable beyond offset {reached[lane]} "
                    f"for {self._stalled_seconds:g} s: a transaction is still open there, or the "
                    f"broker at {self._address} is away; try again later"
                )
            yield batch
        self._consumer.unassign()

    def follow(self, topic: str, starts: Mapping[int, int]) -> Iterator[list[Read]]:
        """Committed records from these offsets on, by partition, for ever; batches may be empty."""
        look_up(self._consumer, topic)
        self._consumer.assign([TopicPartition(topic, lane, at) for lane, at in starts.items()])
        while True:
            messages = self._consumer.consume(BATCH, _FOLLOW_SECONDS)
            for message in messages:
                self._position(message, topic)
            yield [_read(message) for message in messages if message.error() is None]

    def close(self) -> None:
        """Let the client go: a command ends, whatever that takes."""
        close_within(CLOSE_WITHIN_S, self._consumer.close)

    def _position(self, message: Any, topic: str) -> int:  # noqa: ANN401 (the vendor's)
        """How far a record, or the news of a partition's end, shows that all was read."""
        error = message.error()
        if error is None:
            return int(message.offset()) + 1
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its public name)
            return int(message.offset())
        if error.code() in _REFUSED:
            what = _REFUSED[error.code()].format(topic=topic, group=self._group)
            raise Crash(f"Kafka refuses {what}: {error.str()}")
        if error.fatal() or not _passes(error):
            raise Crash(f"topic {topic} cannot be read: {error.str()}")
        return 0


def _passes(error: KafkaError) -> bool:
    """Whether the client gets over it by itself."""
    return error.code() in {
        KafkaError._TRANSPORT,  # noqa: SLF001 (its public name)
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }


def _read(message: Any) -> Read:  # noqa: ANN401 (the vendor's)
    return Read(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
    )


def _whole(message: Any) -> Whole:  # noqa: ANN401 (the vendor's)
    return Whole(*_read(message), message.headers() or [])
