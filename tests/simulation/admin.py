"""The vendor's AdminClient, as far as the worker asks questions with it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from tests.simulation.client import Client, failure, timed_out
from tests.simulation.group import State
from tests.simulation.network import Broken, Refused, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import TopicCollection

K = TypeVar("K")
T = TypeVar("T")
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # no types there
_STATES: Final = {
    State.EMPTY: ConsumerGroupState.EMPTY,
    State.PREPARING: ConsumerGroupState.PREPARING_REBALANCING,
    State.COMPLETING: ConsumerGroupState.COMPLETING_REBALANCING,
    State.STABLE: ConsumerGroupState.STABLE,
}


@dataclass(frozen=True, slots=True)
class Found:
    """An answer with whatever fields the vendor's has."""

    offset: int = -1
    low_watermark: int = -1
    topic_id: str = ""
    partitions: tuple[int, ...] = ()
    value: str = ""


class AdminClient(Client):
    """Questions; each is answered before its future is returned."""

    def list_offsets(
        self,
        wanted: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = 60.0,
    ) -> dict[TopicPartition, Future[Found]]:
        """Log start, last stable offset or high watermark; none where the connection breaks."""
        committed = isolation_level is IsolationLevel.READ_COMMITTED

        def look(place: TopicPartition) -> Found:
            extent = self.broker.log(place.topic, place.partition).extent(self.process.past)
            if wanted[place] is _EARLIEST:
                return Found(offset=extent.start)
            return Found(offset=extent.end(committed=committed))

        # It is not asked again, and no error tells of that.
        no_answer = Found(offset=OFFSET_INVALID)
        return self._each("list_offsets", list(wanted), look, request_timeout, no_answer)

    def describe_topics(
        self, topics: TopicCollection, *, request_timeout: float = 60.0
    ) -> dict[str, Future[Found]]:
        """Id and partitions."""

        def look(name: str) -> Found:
            found = self.broker.topics.get(name)
            if found is None:
                raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
            return Found(topic_id=found.id, partitions=tuple(range(len(found.logs))))

        return self._each("describe_topics", topics.topic_names, look, request_timeout)

    def describe_configs(
        self, resources: list[Any], *, request_timeout: float = 60.0
    ) -> dict[Any, Future[dict[str, Found]]]:
        """Effective settings."""

        def look(resource: Any) -> dict[str, Found]:
            settings = self.broker.topics[resource.name].config
            return {name: Found(value=value) for name, value in settings.items()}

        return self._each("describe_configs", resources, look, request_timeout)

    def describe_consumer_groups(
        self, names: list[str], *, request_timeout: float = 60.0
    ) -> dict[str, Future[Any]]:
        """State and assignments."""

        def look(name: str) -> Any:
            group = self.broker.group(name)
            members = [
                SimpleNamespace(assignment=SimpleNamespace(topic_partitions=sorted(lanes)))
                for lanes in group.assignment.values()
            ]
            return SimpleNamespace(state=_STATES[group.state], members=members)

        return self._each("describe_consumer_groups", names, look, request_timeout)

    def delete_records(
        self, partitions: list[TopicPartition], *, request_timeout: float = 60.0
    ) -> dict[TopicPartition, Future[Found]]:
        """Begins in the background: the worker does not wait for it."""
        futures: dict[TopicPartition, Future[Found]] = {one: Future() for one in partitions}

        def delete() -> None:
            for one, future in futures.items():
                try:
                    low = self.broker.log(one.topic, one.partition).delete_before(one.offset)
                except Refused as refused:
                    future.set_exception(failure(refused.code))
                else:
                    self.world.note(f"broker: {one.topic} {one.partition} begins at {low} now")
                    future.set_result(Found(low_watermark=low))

        if self.network.weather.away_until <= self.world.now:
            self.world.at(self.world.latency(), delete)
        return futures

    def _each(
        self,
        label: str,
        keys: list[K],
        look: Callable[[K], T],
        timeout: float,
        no_answer: T | None = None,
    ) -> dict[K, Future[T]]:
        """One request for all keys; each has its own answer.

        Where the connection breaks, it is `no_answer`, or there is another try if that is None.
        """
        futures: dict[K, Future[T]] = {key: Future() for key in keys}

        def look_at_all() -> list[tuple[Future[T], T | Refused]]:
            answers: list[tuple[Future[T], T | Refused]] = []
            for key, future in futures.items():
                try:
                    answers.append((future, look(key)))
                except Refused as refused:
                    answers.append((future, refused))
            return answers

        carry = self.network.ask if no_answer is None else self.network.send
        try:
            for future, answer in carry(label, look_at_all, self.deadline(timeout)):
                if isinstance(answer, Refused):
                    future.set_exception(failure(answer.code))
                else:
                    future.set_result(answer)
        except TimedOut:
            for future in futures.values():
                future.set_exception(timed_out(label))
        except Broken:
            assert no_answer is not None, "otherwise it is asked again"
            for future in futures.values():
                future.set_result(no_answer)
        return futures
