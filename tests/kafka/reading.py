"""What an end-to-end test learns from the broker: records, ends, how far a group has come."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

QUIET: Final = {"log_level": 0}
"""A broker that is killed on purpose is nothing to print about."""
READ_WITHIN_S: Final = 60
_ANSWER_S: Final = 10
_POSITIONS_S: Final = 2

Place = tuple[str, int]
"""Topic and partition."""


class Change(NamedTuple):
    """One record of a topic, as a consumer sees it; of headers of one name the last."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def live(log: Iterable[Change]) -> dict[str, bytes]:
    """What a compacted topic holds after this log."""
    newest: dict[str, bytes] = {}
    for change in log:
        assert change.key is not None
        if change.value is None:
            newest.pop(change.key.decode(), None)
        else:
            newest[change.key.decode()] = change.value
    return newest


def history(log: Iterable[Change]) -> dict[str, list[bytes | None]]:
    """By key, every value it ever had in order; None is a tombstone."""
    values: dict[str, list[bytes | None]] = {}
    for change in log:
        assert change.key is not None
        values.setdefault(change.key.decode(), []).append(change.value)
    return values


class Cluster:
    """Questions to the broker. Its client must outlive its answers, so one for all of them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
        self._groups: dict[str, Consumer] = {}

    def close(self) -> None:
        """Let the clients go; one that is left open waits for its broker when Python ends."""
        for consumer in self._groups.values():
            consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, none if it is not there."""
        metadata = self.admin.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        return sorted(metadata.partitions) if metadata.error is None else []

    def ends(self, topic: str, *, committed: bool = True) -> dict[int, int]:
        """By partition: the last stable offset, or the high watermark if not `committed`."""
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # none there
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(topic, number): latest for number in self.partitions(topic)}
        if not wanted:
            return {}
        deadline = time.monotonic() + READ_WITHIN_S
        while True:
            futures = self.admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=_ANSWER_S
            )
            try:
                return {
                    place.partition: int(_result(future).offset)
                    for place, future in futures.items()
                }
            except KafkaException as error:
                # A topic that was made just now has no leader for a moment; and of a broker that
                # was restarted the client must learn its leaders anew.
                if not _passes(error.args[0]) or time.monotonic() > deadline:
                    raise
                self.partitions(topic)
                time.sleep(0.1)

    def decided(self, topic: str) -> bool:
        """Whether no transaction is open in any partition of the topic."""
        high = self.ends(topic, committed=False)
        return self.ends(topic) == high

    def positions(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """The offsets a group has committed; -1 where it has none, or nobody can say now."""
        wanted = [TopicPartition(*place) for place in places]
        # The admin client's own request crashes the process when the coordinator is not there yet.
        if group not in self._groups:
            self._groups[group] = Consumer(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    "group.id": group,
                    # A coordinator has been seen to keep decided offsets as undecided.
                    "isolation.level": "read_uncommitted",
                    **QUIET,
                }
            )
        try:
            found = self._groups[group].committed(wanted, timeout=_POSITIONS_S)
        except KafkaException as error:
            # A coordinator that moves or is away, or a transaction that is being decided.
            if _passes(error.args[0]):
                return {(one.topic, one.partition): -1 for one in wanted}
            raise
        return {(one.topic, one.partition): max(one.offset, -1) for one in found}

    def reached(self, group: str, ends: Mapping[Place, int]) -> bool:
        """Whether the group has committed all of these offsets, or later ones."""
        positions = self.positions(group, ends)
        return all(positions[place] >= end for place, end in ends.items())


_PASSING: Final = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,  # No leader of a partition is known.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
}


def _passes(error: KafkaError) -> bool:
    """Whether it is over by itself soon."""
    return error.retriable() or error.code() in _PASSING


class Follower:
    """Reads one topic again and again, each time what is new; `close` it when done."""

    def __init__(self, cluster: Cluster, topic: str, *, committed: bool = True) -> None:
        self._cluster = cluster
        self._topic = topic
        self._committed = committed
        self._reached = dict.fromkeys(cluster.partitions(topic), 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": f"read-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 5,
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in self._reached])

    def read(self) -> list[Change]:
        """Everything new up to the present end, by partition and offset."""
        ends = self._cluster.ends(self._topic, committed=self._committed)
        changes: list[Change] = []
        deadline = time.monotonic() + READ_WITHIN_S
        while any(self._reached[number] < end for number, end in ends.items()):
            assert time.monotonic() < deadline, f"{self._topic}: {self._reached} of {ends}"
            for message in self._consumer.consume(10_000, 0.02):
                self._take(message, changes)
        return sorted(changes)

    def _take(self, message: Message, changes: list[Change]) -> None:
        error = message.error()
        if error is None:
            change = _change(message)
            changes.append(change)
            self._reached[change.partition] = change.offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # Markers of transactions take offsets too: only this tells that they are passed.
            self._reached[_number(message.partition())] = _number(message.offset())
        else:
            assert _passes(error), error

    def close(self) -> None:
        """Let the client go."""
        self._consumer.close()


def _result(future: Future[Any]) -> Any:
    return future.result(_ANSWER_S + 5)


def _change(message: Message) -> Change:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Change(
        _number(message.partition()),
        _number(message.offset()),
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        {name: _bytes(value) or b"" for name, value in pairs},
    )


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
