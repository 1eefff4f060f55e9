"""The words in which the promises of `contract` are written, for a Kafka of either kind."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

EOF: Final = "end"
ABOVE: Final = "not in the log"
WAIT_S: Final = 20.0
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # no types there
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # no types there

Seen = tuple[int | str, int]
"""(value as a number or what happened, offset)."""
Told = tuple[str, tuple[int, ...]]
"""A callback and its lanes."""


class Cluster(Protocol):
    """A Kafka, real or simulated."""

    admin: Any

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""

    def name(self) -> str:
        """A name nobody else uses."""

    def producer(self, name: str) -> Any:
        """A transactional producer, not initialised."""

    def consumer(self, group: str | None = None, isolation: str = "read_committed") -> Any:
        """A consumer; it polls for ends, and says so when its position is not in the log."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def breaking(self) -> AbstractContextManager[None]:
        """Every connection breaks on which a ListOffsets comes."""

    def end_late(self, name: str, producer: Any, *, commit: bool) -> int:
        """An EndTxn of this producer that arrives now; the broker's error code."""


def ready(kafka: Cluster, name: str | None = None) -> Any:
    producer = kafka.producer(name or kafka.name())
    producer.init_transactions(10)
    return producer


def write(producer: Any, topic: str, *values: int) -> None:
    """Begin a transaction with these records, which the broker has when this returns."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, b"%d" % value, partition=0)
    assert producer.flush(10) == 0


def commit(kafka: Cluster, producer: Any, topic: str) -> None:
    """Commit, and wait for the marker: the call returns before it is there."""
    producer.commit_transaction(10)
    decided(kafka, topic, 0)


def decided(kafka: Cluster, topic: str, lane: int) -> None:
    def same() -> bool:
        _, stable, high = ends(kafka, topic, lane)
        return stable == high

    eventually(kafka, same)


def reader(
    kafka: Cluster, topic: str, offset: int, isolation: str = "read_committed", lane: int = 0
) -> Any:
    consumer = kafka.consumer(isolation=isolation)
    consumer.assign([TopicPartition(topic, lane, offset)])
    return consumer


def seen_in(message: Any) -> Seen:
    error = message.error()
    if error is None:
        return int(message.value()), message.offset()
    told = {KafkaError._PARTITION_EOF: EOF, KafkaError._AUTO_OFFSET_RESET: ABOVE}
    return told[error.code()], message.offset()


def following(kafka: Cluster, consumer: Any, count: int) -> list[Seen]:
    """What comes next, and nothing more than that for a moment."""
    seen: list[Seen] = []

    def enough() -> bool:
        seen.extend(map(seen_in, consumer.consume(99, 0.05)))
        return len(seen) >= count

    eventually(kafka, enough)
    seen.extend(map(seen_in, consumer.consume(99, 0.2)))
    return seen


def nothing(consumer: Any) -> bool:
    """Whether nothing comes for a while."""
    return not any(consumer.consume(99, 0.1) for _ in range(8))


def eventually(kafka: Cluster, what: Callable[[], bool], seconds: float = WAIT_S) -> None:
    for _ in range(int(seconds / 0.05)):
        if what():
            return
        kafka.sleep(0.05)
    raise AssertionError("it never happened")


def error_of(call: Callable[[], object]) -> KafkaError:
    try:
        call()
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    raise AssertionError("no error")


def ends(kafka: Cluster, topic: str, lane: int = 0) -> tuple[int, int, int]:
    """Log start, last stable offset, high watermark."""
    start, stable = (
        offset_of(kafka, topic, lane, spec, isolation)
        for spec, isolation in (
            (_EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            (_LATEST, IsolationLevel.READ_COMMITTED),
        )
    )
    return start, stable, high_of(kafka, topic, lane)


def high_of(kafka: Cluster, topic: str, lane: int = 0) -> int:
    return offset_of(kafka, topic, lane, _LATEST, IsolationLevel.READ_UNCOMMITTED)


def offset_of(
    kafka: Cluster, topic: str, lane: int, spec: OffsetSpec, isolation: IsolationLevel
) -> int:
    place = TopicPartition(topic, lane)
    asked = kafka.admin.list_offsets({place: spec}, isolation_level=isolation, request_timeout=10)
    return int(asked[place].result(15).offset)


def stored(kafka: Cluster, group: str, topic: str, isolation: str = "read_committed") -> int | None:
    """The group's offset; None while nobody can say, because it is not decided."""
    consumer = kafka.consumer(group, isolation)
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 1.0)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._TIMED_OUT:
            raise
        return None
    assert found.error is None
    return int(found.offset)


def delete(kafka: Cluster, topic: str, offset: int) -> Any:
    (future,) = kafka.admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    eventually(kafka, future.done)
    return future.result(15)


def metadata_of(group: str, generation: int, member: str) -> bytes:
    number = struct.pack("=i", generation)
    return b"CGMDv2:" + number + group.encode() + b"\0" + member.encode() + b"\0\1"


def subscribed(
    kafka: Cluster,
    topic: str,
    group: str,
    told: list[Told],
    *,
    again: bool = False,
) -> Any:
    """A member whose callbacks are noted.

    `again`: it subscribes once more in its first one.
    """

    def note(what: str, change: str) -> Callable[[Any, list[TopicPartition]], None]:
        def called(consumer: Any, partitions: list[TopicPartition]) -> None:
            told.append((what, tuple(sorted(one.partition for one in partitions))))
            if again and len(told) == 1:
                subscribe()
            at = [TopicPartition(one.topic, one.partition, 0) for one in partitions]
            getattr(consumer, change)(at)

        return called

    def subscribe() -> None:
        consumer.subscribe([topic], **callbacks)

    consumer = kafka.consumer(group)
    callbacks: dict[str, Any] = {
        "on_assign": note("assign", "incremental_assign"),
        "on_revoke": note("revoke", "incremental_unassign"),
        "on_lost": note("lost", "incremental_unassign"),
    }
    subscribe()
    return consumer


def member_of(kafka: Cluster, topic: str, group: str) -> Any:
    told: list[Told] = []
    consumer = subscribed(kafka, topic, group, told)
    eventually(kafka, lambda: polled(consumer) and bool(held(told)))
    return consumer


def held(told: list[Told]) -> set[int]:
    held: set[int] = set()
    for what, lanes in told:
        held = held | set(lanes) if what == "assign" else held - set(lanes)
    return held


def polled(consumer: Any) -> bool:
    consumer.consume(9, 0.01)
    return True
