"""What a reset does to the cluster, each step of which can be done again.

Invariant: nothing is taken away before `hold` was taken by the broker, which takes it from a group
without members only; and `let_go` comes last. In between no worker gets a lane to run.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewPartitions

from app.errors import Crash, Fenced, Unreachable, UsageError
from app.kafka.authority import Authority
from app.kafka.clients import for_commands
from app.kafka.cluster import WAIT_SECONDS, Cluster, Refused, made
from app.kafka.failures import error_of, needs_a_person, refusal
from app.kafka.limits import TRANSACTION_TIMEOUT_MS
from rebalance.lanes import RESETTING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.config import Config

TAIL_OFFSETS: Final = 64
"""How far back the writers of a lane are looked for: the newest one's last turn is there."""
FENCED_WITHIN_SECONDS: Final = 60.0
_MEMBERS: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
"""What a broker says to somebody outside of the group while the group has members."""

Retraction = tuple[bytes, int]
"""(match id, Kafka timestamp in ms)."""


class Joined(UsageError):
    """The group has members."""


class Clearing(Cluster):
    """The cluster as a reset changes it."""

    def __init__(self, config: Config) -> None:
        """Wait for a broker; raises Unreachable when none answers in time."""
        super().__init__(config)
        self._config = config

    def hold(self, places: Iterable[tuple[str, int]], offset: int = RESETTING) -> None:
        """Commit `offset` for these input partitions, which keeps every worker from running a lane.

        Raises Joined where the group has members: the broker takes offsets from outside only when
        it has none, so no worker can come between a look and this.
        """
        group = self._config.name
        wanted = [Place(topic, lane, offset) for topic, lane in places]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        try:
            answers = self._ask_each(
                "Read on group",
                lambda: self._admin.alter_consumer_group_offsets(
                    request, request_timeout=WAIT_SECONDS
                ),
            )
        except Refused as refusal:
            raise _joined(refusal) from None
        for one in answers[group].topic_partitions:
            if one.error is not None:
                what = f'Kafka refuses Read on topic "{one.topic}": {one.error.str()}'
                raise _joined(Refused(what, one.error.code()))

    def fence(self, lanes: Iterable[int], own: str = "") -> None:
        """End every transaction that a former owner may have open in these lanes of the changelog.

        `own` is not fenced. An owner that sent its offsets
        before `hold` may still commit; whoever has not is refused by the group.
        """
        stopping = threading.Event()
        timer = threading.Timer(FENCED_WITHIN_SECONDS, stopping.set)
        timer.start()
        try:
            authority = Authority(self._config, f"{self._config.name}-fence", stopping)
            names: set[str] = set()
            for lane in lanes:
                names |= _writers(authority, lane)
            for name in sorted(names - {"", own}):
                authority.fence(name)
        except Fenced as late:
            raise Unreachable(f"former workers could not be fenced: {late}; try again") from None
        finally:
            timer.cancel()

    def empty(self, topic: str, ends: Mapping[int, int]) -> None:
        """Delete the records of a topic below these offsets, by partition."""
        wanted = [Place(topic, lane, end) for lane, end in ends.items()]
        if wanted:
            self._ask_each(
                "Delete on topic",
                lambda: self._admin.delete_records(wanted, request_timeout=WAIT_SECONDS),
            )

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self._ask_each(
            "Alter on topic",
            lambda: self._admin.create_partitions(
                [NewPartitions(topic, partitions)], request_timeout=WAIT_SECONDS
            ),
        )

    def let_go(self) -> None:
        """Forget the group with all its offsets. Raises Joined where it has members again."""
        group = self._config.name
        try:
            self._ask_each(
                "Delete on group",
                lambda: self._admin.delete_consumer_groups([group], request_timeout=WAIT_SECONDS),
                absent=KafkaError.GROUP_ID_NOT_FOUND,
            )
        except Refused as refusal:
            raise _joined(refusal) from None


class Retractions:
    """A transactional producer of tombstones.

    Its name is always the same, other than a worker's: a reset that begins throws out one that is
    still under way, and ends what one that died has left open.
    """

    def __init__(self, config: Config) -> None:
        self._topic = config.output.topic
        self._producer = made(
            Producer,
            {
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                **for_commands(config.producer_properties()),
                "client.id": f"{config.name}-reset",
                "transactional.id": f"{config.name}-reset",
            },
            "kafka.producer",
        )
        try:
            self._producer.init_transactions(WAIT_SECONDS)
        except KafkaException as error:
            raise _failed(error) from None

    def send(self, partition: int, retractions: Iterable[Retraction]) -> None:
        """Begin a transaction and write a tombstone for each; `commit` makes them count.

        Raises Crash where that fails; nothing of it counts then.
        """
        try:
            self._producer.begin_transaction()
            for key, timestamp_ms in retractions:
                self._producer.produce(
                    self._topic, None, key, partition=partition, timestamp=timestamp_ms
                )
            self._producer.flush(WAIT_SECONDS)
        except (KafkaException, BufferError) as error:
            raise _failed(error) from None

    def commit(self) -> None:
        """Commit what was sent; raises Crash where it may not have been."""
        try:
            self._producer.commit_transaction(WAIT_SECONDS)
        except KafkaException as error:
            raise _failed(error) from None


def _writers(authority: Authority, lane: int) -> set[str]:
    """Who wrote the newest records of a lane, and all that are undecided."""
    while True:
        stable, (start, end) = authority.stable(lane), authority.changelog(lane)
        begin = max(start, min(stable, end - TAIL_OFFSETS))
        stamps = authority.tail(lane, begin, end) if begin < end else []
        if stamps is not None:
            return {stamp.writer for stamp in stamps}
        # A worker that has just ended may have asked for the log to be cut.
        authority.look_again()


def _joined(refusal: Refused) -> Refused | Joined:
    if refusal.code in _MEMBERS:
        return Joined("a worker has joined the group meanwhile: stop it, then run this again")
    return refusal


def _failed(error: KafkaException | BufferError) -> Crash:
    if isinstance(error, KafkaException):
        reason = error_of(error)
        if needs_a_person(reason):
            return Crash(refusal(reason))
        if reason.code() == KafkaError._FENCED:  # noqa: SLF001 (its public name)
            return Crash("another reset of this job has begun, which this one leaves the rest to")
        return Crash(f"matches could not be retracted: {reason.str()}; run the reset again")
    return Crash(f"matches could not be retracted: {error}; run the reset again")
