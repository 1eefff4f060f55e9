"""What a reshard does to the cluster: partitions, the hold on the group, and the new lanes' turns.

Invariant: what `Mover` writes counts for no worker before the last of it, which is one transaction
over all lanes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from app.errors import Crash
from app.kafka.clients import for_commands
from app.kafka.cluster import WAIT_SECONDS, made
from app.kafka.failures import error_of, needs_a_person, refusal
from app.kafka.limits import TRANSACTION_TIMEOUT_MS
from app.kafka.reset import Clearing
from app.kafka.transactions import HEADER_KIND, HEADER_WRITER
from rebalance.lanes import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message

    from app.config import Config

_POLL_SECONDS: Final = 0.05
_CONTACT_SECONDS: Final = 5.0
_KIND: Final = b"reshard"


class Resharding(Clearing):
    """The cluster as a reshard changes it."""

    def held(self) -> bool:
        """Whether a reshard holds the group, and so has not come to its end."""
        places = [Place(self._config.left.topic, 0)]
        request = [ConsumerGroupTopicPartitions(self._config.name, places)]
        answers = self._ask_each(
            "Describe on group",
            lambda: self._admin.list_consumer_group_offsets(request, request_timeout=WAIT_SECONDS),
            absent=KafkaError.GROUP_ID_NOT_FOUND,
        )
        offsets = [one.offset for found in answers.values() for one in found.topic_partitions]
        return RESHARDING in offsets

    def raise_to(self, topic: str, partitions: int) -> bool:
        """Give a topic that many partitions; returns whether it had fewer."""
        if self.topics([topic])[topic].partitions >= partitions:
            return False
        self.grow(topic, partitions)
        deadline = time.monotonic() + WAIT_SECONDS
        while self.topics([topic])[topic].partitions < partitions:
            if time.monotonic() > deadline:
                raise Crash(f"the new partitions of {topic} did not appear; try again")
            time.sleep(_POLL_SECONDS)
        self.extents(topic, partitions)  # They have leaders.
        return True


class Mover:
    """A transactional producer of changelog records.

    Its name is always the same, other than a worker's: a reshard that begins throws out one that is
    still under way, and ends what one that died has left open.
    """

    def __init__(self, config: Config, bytes_max: int) -> None:
        self._topic = config.changelog_topic
        self.writer = f"{config.name}-reshard"
        self._producer = made(
            Producer,
            {
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.max.bytes": bytes_max,
                "compression.type": "lz4",
                **for_commands(config.producer_properties()),
                "client.id": self.writer,
                "transactional.id": self.writer,
            },
            "kafka.producer",
        )
        try:
            self._producer.init_transactions(WAIT_SECONDS)
        except KafkaException as error:
            raise _failed(error) from None

    def await_partitions(self, count: int) -> None:
        """Wait until the client knows that many partitions; it refuses to write to others."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                found = self._producer.list_topics(self._topic, timeout=_CONTACT_SECONDS)
                if len(found.topics[self._topic].partitions) >= count:
                    return
            time.sleep(_POLL_SECONDS)
        raise Crash(f"topic {self._topic} did not show its {count} partitions; try again")

    def write(self, turns: Mapping[int, Sequence[bytes]]) -> dict[int, int]:
        """Changelog records by lane, in one transaction; returns each lane's first offset.

        Raises Crash where it may not have been committed.
        """
        offsets: dict[int, list[int]] = {lane: [] for lane in turns}
        headers = [(HEADER_WRITER, self.writer.encode()), (HEADER_KIND, _KIND)]
        try:
            self._producer.begin_transaction()
            for lane, values in turns.items():
                for value in values:
                    self._producer.produce(
                        self._topic,
                        value,
                        partition=lane,
                        headers=list(headers),
                        on_delivery=_noted(offsets[lane]),
                    )
            self._producer.flush(WAIT_SECONDS)
            self._producer.commit_transaction(WAIT_SECONDS)
        except (KafkaException, BufferError) as error:
            raise _failed(error) from None
        return {lane: min(found) for lane, found in offsets.items()}


def _noted(offsets: list[int]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            offsets.append(offset)

    return delivered


def _failed(error: KafkaException | BufferError) -> Crash:
    if isinstance(error, KafkaException):
        reason = error_of(error)
        if needs_a_person(reason):
            return Crash(refusal(reason))
        if reason.code() == KafkaError._FENCED:  # noqa: SLF001 (its public name)
            return Crash("another reshard of this job has begun, which this one leaves the rest to")
        return Crash(f"state could not be written: {reason.str()}; run the reshard again")
    return Crash(f"state could not be written: {error}; run the reshard again")
