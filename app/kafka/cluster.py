"""The commands' edge to Kafka: questions to the cluster, and clients for reading and writing.

Invariant: a command never hangs. Each call ends within its time, with an answer or with one line
that names the broker's address or the topic.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from app.errors import Crash, Unreachable, UsageError
from app.kafka.answers import ABSENT, STALE_LEADERS, answer_of, offset_of, reason_of, rights_of
from app.kafka.clients import for_admin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from app.config import Config

WAIT_SECONDS: Final = 30.0
_CREATION: Final = re.compile("^Failed to create (producer|consumer): ")
_CONTACT_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05

_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 (the client's public name for it)
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # vendor's
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # vendor's
# Said of a topic that was described a moment ago, or of a partition whose leader moves.
_TRANSIENT: Final = STALE_LEADERS | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
}

K = TypeVar("K")
T = TypeVar("T")


def _as_it_is(answer: T) -> T:
    return answer


class Refused(Crash):
    """The cluster said no; `code` is the client's name for why, `thing` what it was about."""

    def __init__(self, line: str, code: int, thing: str | None = None) -> None:
        super().__init__(line)
        self.code = code
        self.thing = thing

    @property
    def unauthorized(self) -> bool:
        """Whether a right is missing."""
        return self.code in {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        }


class Topic(NamedTuple):
    """A topic as the cluster has it; `settings` are its effective values, defaults included."""

    id: str
    partitions: int
    settings: Mapping[str, str]
    rights: frozenset[str] | None = None
    """What this client may do with it, in the words of Kafka's ACLs; None if nobody says."""
    replicas: int = 1
    """How many copies the partition has that has the fewest."""


class NewSpec(NamedTuple):
    """A topic to create; replication is the broker's default."""

    name: str
    partitions: int
    settings: Mapping[str, str]


class Extent(NamedTuple):
    """A partition's offsets: log start, last stable offset, high watermark."""

    start: int
    stable: int
    end: int


class Member(NamedTuple):
    """A live member of the group and the partitions of each topic that it has been assigned."""

    client_id: str
    host: str
    partitions: Mapping[str, frozenset[int]]


class Cluster:
    """Questions to the cluster, each answered within `WAIT_SECONDS`."""

    def __init__(self, config: Config, wait_seconds: float = WAIT_SECONDS) -> None:
        """Wait for a broker; raises Unreachable when none answers in time."""
        self._address = config.bootstrap_servers
        self._wait_seconds = wait_seconds
        self._last_error: KafkaError | None = None
        self._properties = for_admin(config.admin_properties()) | {"error_cb": self._note}
        self._connect()

    def _connect(self) -> None:
        # Futures of a client that is garbage-collected fail: the handle lives as long as we do.
        self._admin = made(AdminClient, self._properties)
        self._await_broker()

    def _await_broker(self) -> None:
        """Wait until a broker answers that knows itself to be one.

        One that is still starting knows of no brokers at all. To a description of topics or of the
        cluster the client takes that answer for a defect, and ends the process; to this question
        it does not.
        """
        deadline = time.monotonic() + self._wait_seconds
        patience = self._wait_seconds / 2
        while True:
            self._admin.poll(0)  # serves the error callback
            if self._last_error is not None and self._last_error.code() in _REFUSED:
                raise _told(self._last_error, "the cluster")
            with contextlib.suppress(KafkaException):
                if self._admin.list_topics(timeout=min(_CONTACT_SECONDS, patience)).brokers:
                    return
            self._admin.poll(0)
            if time.monotonic() >= deadline:
                raise self._unreachable()
            time.sleep(_POLL_SECONDS)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that exist."""
        wanted = TopicCollection(list(names))
        found = self._learn(
            "Describe on topic",
            lambda: self._admin.describe_topics(
                wanted, include_authorized_operations=True, request_timeout=self._wait_seconds
            ),
            absent=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        settings = self._settings(found)
        return {
            name: Topic(
                str(topic.topic_id),
                len(topic.partitions),
                settings[name],
                rights_of(topic.authorized_operations),
                min(len(partition.replicas) for partition in topic.partitions),
            )
            for name, topic in found.items()
        }

    def create(self, topics: Iterable[NewSpec]) -> None:
        """Create topics and wait until the cluster knows them; one that exists by now is fine."""
        specs = {
            spec.name: NewTopic(spec.name, spec.partitions, config=dict(spec.settings))
            for spec in topics
        }
        if not specs:
            return
        self._ask_each(
            "Create on topic",
            lambda: self._admin.create_topics(
                list(specs.values()), request_timeout=self._wait_seconds
            ),
            absent=KafkaError.TOPIC_ALREADY_EXISTS,
        )
        deadline = time.monotonic() + self._wait_seconds
        while len(self.topics(specs)) < len(specs):
            if time.monotonic() > deadline:
                raise Crash(f"created topics did not appear within {self._wait_seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def extents(self, topic: str, partitions: int) -> list[Extent]:
        """Where each partition of a topic begins and ends."""
        lanes = [TopicPartition(topic, lane) for lane in range(partitions)]
        committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        columns = [
            self._offsets(lanes, _EARLIEST, uncommitted),
            self._offsets(lanes, _LATEST, committed),
            self._offsets(lanes, _LATEST, uncommitted),
        ]
        return [Extent(*row) for row in zip(*columns, strict=True)]

    def members(self, group: str) -> list[Member]:
        """The live members of a group; none if there is no such group."""
        found = self._learn(
            "Describe on group",
            lambda: self._admin.describe_consumer_groups(
                [group], request_timeout=self._wait_seconds
            ),
            absent=KafkaError.GROUP_ID_NOT_FOUND,
        )
        return [_member(member) for described in found.values() for member in described.members]

    def group_rights(self, group: str) -> frozenset[str] | None:
        """What this client may do with a group; None where there is none, or nobody says."""
        found = self._learn(
            "Describe on group",
            lambda: self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=self._wait_seconds
            ),
            absent=KafkaError.GROUP_ID_NOT_FOUND,
        )
        return rights_of(found[group].authorized_operations) if group in found else None

    def _settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        found = self._learn(
            "DescribeConfigs on topic",
            lambda: self._admin.describe_configs(resources, request_timeout=self._wait_seconds),
        )
        return {
            resource.name: {name: entry.value for name, entry in entries.items()}
            for resource, entries in found.items()
        }

    def _offsets(
        self, lanes: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> list[int]:
        found = self._learn(
            "Describe on topic",
            lambda: self._admin.list_offsets(
                dict.fromkeys(lanes, spec),
                isolation_level=isolation,
                request_timeout=self._wait_seconds,
            ),
            read=offset_of,
        )
        offsets = {lane.partition: offset for lane, offset in found.items()}
        return [offsets[lane.partition] for lane in lanes]

    def _learn(
        self,
        what: str,
        question: Callable[[], Mapping[K, Future[Any]]],
        absent: int | None = None,
        read: Callable[[Any], Any] = _as_it_is,
    ) -> dict[K, Any]:
        """As `_ask_each`, of what changes nothing."""
        return self._persist(lambda: self._ask_each(what, question, absent, read))

    def _persist(self, ask: Callable[[], T]) -> T:
        """An answer that changes nothing, asked for again where the connection broke.

        By another client: this one might wait for that connection, see `app.kafka.group`.
        """
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                return ask()
            except Unreachable:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_SECONDS)
            self._connect()

    def _ask_each(
        self,
        what: str,
        question: Callable[[], Mapping[K, Future[Any]]],
        absent: int | None = None,
        read: Callable[[Any], Any] = _as_it_is,
    ) -> dict[K, Any]:
        """The answers to several questions; one refused with `absent` is left out.

        `read` makes something of an answer, or raises KafkaException where it is none. What a
        cluster says while it is still finding its leaders is asked again. Raises Unreachable when
        there is no answer in time, Refused when it is a no.
        """
        deadline = time.monotonic() + self._wait_seconds
        while True:
            answers: dict[K, Any] = {}
            refused: K | None = None
            try:
                for name, future in question().items():
                    try:
                        answers[name] = read(self._result(what, future, deadline))
                    except KafkaException as error:
                        refused = name
                        if error.args[0].code() != absent:
                            raise
            except KafkaException as error:
                reason, late = error.args[0], time.monotonic() > deadline
                leaderless = reason.code() in STALE_LEADERS
                if late and leaderless:
                    raise self._unreachable(reason) from None
                if late or reason.code() not in _TRANSIENT:
                    raise _told(reason, what, _named(refused)) from None
                if leaderless:
                    self._look_for_leaders()
                time.sleep(_POLL_SECONDS)
                continue
            return answers

    def _look_for_leaders(self) -> None:
        with contextlib.suppress(KafkaException):
            self._admin.list_topics(timeout=min(_CONTACT_SECONDS, self._wait_seconds / 2))

    def _result(self, what: str, future: Future[Any], deadline: float) -> Any:  # noqa: ANN401
        while True:
            self._admin.poll(0)  # serves the error callback
            if self._last_error is not None and self._last_error.code() in _REFUSED:
                raise _told(self._last_error, what)
            try:
                return answer_of(future, _POLL_SECONDS)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise self._unreachable() from None
            except KafkaException as error:
                if error.args[0].code() in ABSENT:
                    raise self._unreachable(broke=time.monotonic() < deadline) from None
                raise

    def _unreachable(self, error: KafkaError | None = None, *, broke: bool = False) -> Unreachable:
        error = error or self._last_error
        reason = f" ({reason_of(error)})" if error else ""
        if broke:
            lost = f"the connection to {self._address} broke before the answer came{reason}"
            return Unreachable(f"{lost}: run the command again")
        return Unreachable(
            f"no broker answered at {self._address} within {self._wait_seconds:g} s{reason}: "
            "start it, or correct kafka.bootstrap.servers"
        )

    def _note(self, error: KafkaError) -> None:
        # The general "all brokers are down" would hide the reason that came before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (its public name)
            self._last_error = error


def made(
    client: Callable[[dict[str, Any]], T], properties: Mapping[str, Any], table: str = "kafka"
) -> T:
    """A client of these properties. Raises UsageError naming the table they are from."""
    try:
        return client(dict(properties))
    except (KafkaException, TypeError, ValueError) as error:
        text = error.args[0]
        reason = text.str() if isinstance(text, KafkaError) else str(text)
        raise UsageError(f"[{table}] {_CREATION.sub('', reason)}") from None


def _named(asked: object) -> str | None:
    """The name of what was asked about: a topic, one of its partitions, a group."""
    for attribute in ("topic", "name"):
        asked = getattr(asked, attribute, asked)
    return None if asked is None else str(asked)


def _member(member: Any) -> Member:  # noqa: ANN401 (the vendor's)
    partitions: dict[str, set[int]] = {}
    for assigned in member.assignment.topic_partitions:
        partitions.setdefault(assigned.topic, set()).add(assigned.partition)
    return Member(
        member.client_id,
        member.host,
        {topic: frozenset(lanes) for topic, lanes in partitions.items()},
    )


def _told(error: KafkaError, what: str, thing: str | None = None) -> Refused:
    about = what if thing is None else f'{what} "{thing}"'
    return Refused(f"Kafka refuses {about}: {reason_of(error)}", error.code(), thing)
