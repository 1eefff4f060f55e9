"""What `doctor` asks the cluster: questions that may be refused, each for itself.

Invariant: a refusal is an answer. Only a cluster that does not answer at all ends the examination.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from app.kafka.answers import rights_of
from app.kafka.clients import for_commands
from app.kafka.cluster import WAIT_SECONDS, Cluster, Topic, made
from app.kafka.failures import error_of
from app.kafka.limits import Limits, producer_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from app.config import Config

_LIMITS: Final = Limits(1_000_000, 1_000_000, 1_000_000)
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


class Seen(NamedTuple):
    """A topic as far as it may be looked at; `refused` says what may not, with the broker's word.

    `topic` is None where it does not exist, or may not be looked at; `rights` are those on
    it, None where the cluster does not tell.
    """

    topic: Topic | None
    rights: frozenset[str] | None
    refused: str = ""


class Brokers(NamedTuple):
    """How many brokers; `settings` of one of them, None where they may not be looked at."""

    number: int
    rights: frozenset[str] | None
    settings: Mapping[str, str] | None


class Inspection(Cluster):
    """Questions about rights and settings."""

    def look(self, names: Iterable[str]) -> dict[str, Seen]:
        """Each topic as far as it may be looked at."""
        wanted = list(names)
        answers = self._answers(
            "topics",
            lambda: self._admin.describe_topics(
                TopicCollection(wanted),
                include_authorized_operations=True,
                request_timeout=WAIT_SECONDS,
            ),
        )
        there = [name for name, answer in answers.items() if not isinstance(answer, KafkaError)]
        settings = self._look_at(ResourceType.TOPIC, there)
        return {name: _seen(answers[name], settings.get(name)) for name in wanted}

    def brokers(self) -> Brokers:
        """The brokers, and the settings of one."""
        cluster = self._answers(
            "the cluster",
            lambda: {
                "": self._admin.describe_cluster(
                    include_authorized_operations=True, request_timeout=WAIT_SECONDS
                )
            },
        )[""]
        if isinstance(cluster, KafkaError):
            return Brokers(0, None, None)
        first = str(min(node.id for node in cluster.nodes))
        found = self._look_at(ResourceType.BROKER, [first])[first]
        settings = None if isinstance(found, KafkaError) else found
        return Brokers(len(cluster.nodes), rights_of(cluster.authorized_operations), settings)

    def group_rights(self, group: str) -> frozenset[str] | None:
        """What is allowed on a group; None where the cluster does not tell."""
        answer = self._answers(
            f"group {group}",
            lambda: self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=WAIT_SECONDS
            ),
        )[group]
        if isinstance(answer, KafkaError):
            refused = answer.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            return frozenset() if refused else None
        return rights_of(answer.authorized_operations)

    def _look_at(
        self, kind: ResourceType, names: list[str]
    ) -> dict[str, dict[str, str] | KafkaError]:
        """Settings by resource."""
        if not names:
            return {}
        resources = [ConfigResource(kind, name) for name in names]
        answers = self._answers(
            "settings",
            lambda: self._admin.describe_configs(resources, request_timeout=WAIT_SECONDS),
        )
        return {
            resource.name: answer
            if isinstance(answer, KafkaError)
            else {name: entry.value for name, entry in answer.items() if entry.value is not None}
            for resource, answer in answers.items()
        }

    def _answers(
        self, what: str, question: Callable[[], Mapping[Any, Future[Any]]]
    ) -> dict[Any, Any]:
        """An answer for each question, or the error that refuses it. Raises Unreachable."""
        return self._persist(lambda: self._collected(what, question()))

    def _collected(self, what: str, futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        answers: dict[Any, Any] = {}
        for name, future in futures.items():
            try:
                answers[name] = self._result(what, future, deadline)
            except KafkaException as error:
                answers[name] = error_of(error)
        return answers


def _seen(answer: Any, settings: dict[str, str] | KafkaError | None) -> Seen:  # noqa: ANN401
    """From the vendor's description of a topic, or its refusal."""
    if isinstance(answer, KafkaError):
        if answer.code() in _ABSENT:
            return Seen(None, None)
        return Seen(None, frozenset(), answer.str())
    rights = rights_of(answer.authorized_operations)
    if settings is None or isinstance(settings, KafkaError):
        return Seen(None, rights, "" if settings is None else settings.str())
    replicas = min(len(partition.replicas) for partition in answer.partitions)
    topic = Topic(str(answer.topic_id), len(answer.partitions), settings, rights, replicas)
    return Seen(topic, rights)


def refused_transaction(config: Config) -> str:
    """Why a producer of this job cannot begin transactions, as the broker says; "" if it can.

    It takes an id as a worker's are named, each time the same, so that it leaves no more than one.
    """
    properties = producer_properties(config, f"{config.name}-doctor", _LIMITS)
    producer = made(
        Producer,
        {**for_commands(properties), "transactional.id": f"{config.name}-doctor"},
        "kafka.producer",
    )
    try:
        producer.init_transactions(WAIT_SECONDS)
    except KafkaException as error:
        return error_of(error).str()
    return ""
