"""Questions to the broker that a takeover rests on. They block, so they run on helper threads.

Invariant: a question is asked again until the broker answers it or the worker stops; a broker that
is away is waited for, never taken for an answer. In particular a missing offset is "never
committed" only when the broker said so.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from app.errors import Fenced, Retry
from app.kafka.answers import STALE_LEADERS, answer_of, offset_of
from app.kafka.calls import Calls
from app.kafka.changelog import read_tail
from app.kafka.clients import for_admin, with_defaults
from app.kafka.failures import error_of, of_request
from app.kafka.fences import Fences
from app.kafka.group import GroupState
from app.kafka.limits import Limits
from app.kafka.offsets import REQUEST_TIMEOUT_S, GroupOffsets
from app.kafka.replaced import Replaced
from rebalance.lanes import Extent
from schemas.records import Side
from state.checkpoint import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from threading import Event

    from app.config import Config
    from rebalance.fence import Stamp

T = TypeVar("T")
Ends = dict[tuple[Side, int], tuple[int, int]]
"""By (side, lane): last stable offset and high watermark."""
Listed = list[list[int]]
"""By question and partition, an offset."""
Seen = dict[str, tuple[str, int] | None]
"""By topic: id and partition count."""
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # no types there
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # no types there
FENCE_TIMEOUT_S: Final = 20.0
_PAUSE_S: Final = 0.02
_PAUSE_S_MAX: Final = 0.5
LOOK_AGAIN_S: Final = 0.5
"""Between two questions of which the first one got an answer that cannot be."""
_ANY_SIZE: Final = 2**31
"""More bytes than a record can have."""
_COMPLAIN_EVERY_S: Final = 10.0

_log: Final = structlog.get_logger()


class Authority:
    """The broker's word. One per worker; thread-safe; `stopping` ends all waiting."""

    def __init__(
        self, config: Config, client_id: str, stopping: Event, calls: Calls | None = None
    ) -> None:
        self._config = config
        self._client_id = client_id
        self._stopping = stopping
        self.calls = Calls() if calls is None else calls
        # Futures of a client that is garbage-collected fail: this handle lives as long as we do.
        self._admin = Replaced(self._new_admin)
        self._group = GroupState(self._new_admin, config.name)
        self._offsets = GroupOffsets(config, client_id)
        self._topics = (config.left.topic, config.right.topic)
        self._fences = Fences(self._init)

    def _new_admin(self) -> AdminClient:
        properties = for_admin(self._config.admin_properties())
        return AdminClient({"client.id": f"{self._client_id}-admin", **properties})

    def look_again(self) -> None:
        """After an answer that cannot be: wait a little, and learn anew who leads the partitions.

        A broker that was cut off from the others may have given it, of what it knew then.
        """
        self._stopping.wait(LOOK_AGAIN_S)
        self._look_for_leaders()

    def changelog(self, lane: int) -> Extent:
        """Log start and high watermark of the lane's changelog."""
        topics = (self._config.changelog_topic,)
        return self._asked("changelog", lambda: self._extents(topics, lane))[0]

    def stable(self, lane: int) -> int:
        """The changelog's last stable offset."""
        return self._asked(
            "last stable offset",
            lambda: self._offset(
                self._config.changelog_topic,
                lane,
                _LATEST,
                IsolationLevel.READ_COMMITTED,
            ),
        )

    def tail(self, lane: int, start: int, end: int) -> list[Stamp] | None:
        """Stamps of all changelog records in [start, end), decided or not.

        None: the log does not have this place, or not any more.
        """
        return self._asked(
            "changelog tail", lambda: read_tail(self._config, self._client_id, lane, start, end)
        )

    def fence(self, writer: str) -> None:
        """End what a transactional id may have open; returns once it is decided and marked.

        A throw-away producer of the same name does it: its `init_transactions` makes the
        coordinator abort an open transaction, or finish a prepared one, before it answers. Once is
        enough for ever, as no name is ever used by a second producer; two at once would abort each
        other's.
        """
        self._asked(f"fencing {writer}", lambda: self._fences.once(writer))

    def stored(self, lane: int) -> tuple[int | None, int | None]:
        """The group's offsets of both inputs; waits for undecided ones, as long as that may help.

        All former owners must be fenced, and the changelog's end be asked for after it.
        """
        return self._asked("stored offsets", lambda: self._offsets.stored(lane))

    def inputs(self, lane: int) -> tuple[Extent, Extent]:
        """Extents of both inputs' partitions."""
        left, right = self._asked("input ends", lambda: self._extents(self._topics, lane))
        return left, right

    def ends(self, places: list[tuple[Side, int]]) -> Ends:
        """Last stable offset and high watermark of input partitions."""
        return self._asked("input ends", lambda: self._ends(places))

    def layout(self, span: int) -> Layout:
        """What the state is made with today: the configured bounds and the topics' ids."""
        config = self._config
        ids = self._asked("topic ids", self._topic_ids)
        return Layout(
            unit=config.unit,
            lateness=config.lateness,
            max_interval=config.max_interval,
            span=span,
            changelog_id=ids[config.changelog_topic],
            left_id=ids[config.left.topic],
            right_id=ids[config.right.topic],
            join_type=config.join.type,
        )

    def seen(self) -> Seen:
        """Id and partition count of both inputs now, None for a topic that is not there.

        Raises Retry while the broker does not answer.
        """
        try:
            self._await_settled()
        except KafkaException as error:
            if error_of(error).code() in STALE_LEADERS:
                self._look_for_leaders()
            raise of_request(error) from error
        seen: Seen = {}
        for name, future in self._described(list(self._topics)).items():
            try:
                found = _result(future)
                seen[name] = (str(found.topic_id), len(found.partitions))
            except KafkaException as error:
                if error_of(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise of_request(error) from error
                seen[name] = None
        return seen

    def limits(self) -> Limits:
        """Largest record each topic we write to takes, in bytes; the client's own limit counts."""
        return self._asked("topic limits", self._limits)

    def limits_now(self) -> Limits:
        """The same, asked once. Raises Retry while the broker does not answer."""
        try:
            return self._limits()
        except KafkaException as error:
            raise of_request(error) from error

    def unsettled(self, lanes: int) -> bool:
        """Whether the group is about to share out its so many lanes again; does not wait long."""
        return self._group.unsettled(lanes)

    def truncate(self, offsets: Mapping[int, int]) -> None:
        """Delete the changelog below these offsets, by lane; does not wait.

        A failure is harmless: only committed knowledge asks, so a stale owner asks for less.
        """
        wanted = [
            TopicPartition(self._config.changelog_topic, lane, offset)
            for lane, offset in offsets.items()
        ]
        if wanted:
            for future in self._admin.newest.delete_records(wanted).values():
                future.add_done_callback(_ignore)

    def _asked(self, what: str, question: Callable[[], T]) -> T:
        """Ask until there is an answer; raises Fenced when the worker stops meanwhile."""
        complained = time.monotonic()
        while not self._stopping.is_set():
            try:
                with self.calls.under_way(what):
                    return question()
            except KafkaException as error:
                answer = of_request(error)
                if not isinstance(answer, Retry):
                    raise answer from error
                reason = error_of(error).str()
                if error_of(error).code() in STALE_LEADERS:
                    self._look_for_leaders()
            except Retry as retry:
                reason = str(retry)
            if time.monotonic() - complained > _COMPLAIN_EVERY_S:
                complained = time.monotonic()
                _log.warning("waiting for the broker", what=what, reason=reason)
            self._stopping.wait(_PAUSE_S)
        raise Fenced(f"stopped while waiting for the broker ({what})")

    def _look_for_leaders(self) -> None:
        """Make the client learn the partitions' leaders anew; see `STALE_LEADERS`."""
        with contextlib.suppress(KafkaException):
            # Of all topics: asked about one that was deleted, a broker may create it again.
            self._admin.asked(lambda admin: admin.list_topics(timeout=REQUEST_TIMEOUT_S))

    def _listed(self, *wanted: tuple[list[TopicPartition], OffsetSpec, IsolationLevel]) -> Listed:
        """An offset of each partition, for each of the questions; all are asked at once.

        Raises KafkaException where one of them is missing.
        """

        def answers(admin: AdminClient) -> Listed:
            asked = [
                admin.list_offsets(
                    dict.fromkeys(places, spec),
                    isolation_level=isolation,
                    request_timeout=REQUEST_TIMEOUT_S,
                )
                for places, spec, isolation in wanted
            ]
            return [
                [offset_of(_result(futures[place])) for place in places]
                for futures, (places, _, _) in zip(asked, wanted, strict=True)
            ]

        return self._admin.asked(answers)

    def _offset(self, topic: str, lane: int, spec: OffsetSpec, isolation: IsolationLevel) -> int:
        ((offset,),) = self._listed(([TopicPartition(topic, lane)], spec, isolation))
        return offset

    def _extents(self, topics: tuple[str, ...], lane: int) -> list[Extent]:
        """First and next offset of a lane's partitions."""
        places = [TopicPartition(topic, lane) for topic in topics]
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        firsts, ends = self._listed(
            (places, _EARLIEST, uncommitted), (places, _LATEST, uncommitted)
        )
        return [Extent(*found) for found in zip(firsts, ends, strict=True)]

    def _ends(self, places: list[tuple[Side, int]]) -> Ends:
        """The high watermark is asked for last: equal figures then mean that all was decided."""
        wanted = [TopicPartition(self._topics[side], lane) for side, lane in places]
        stable, high = self._listed(
            (wanted, _LATEST, IsolationLevel.READ_COMMITTED),
            (wanted, _LATEST, IsolationLevel.READ_UNCOMMITTED),
        )
        return dict(zip(places, zip(stable, high, strict=True), strict=True))

    def _init(self, writer: str) -> None:
        """Let one producer after the other ask for the name, until one of them is given it.

        The first one makes the coordinator end what is open, which takes it some milliseconds; it
        is told to come again, and the client does so after half a second. A new one asks at once.
        """
        deadline = time.monotonic() + FENCE_TIMEOUT_S
        pause_s = _PAUSE_S
        while not self._init_once(writer, deadline):
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def _init_once(self, writer: str, deadline: float) -> bool:
        """Whether a producer was given the name; not as long as a transaction of it is ending.

        Raises KafkaException, also where that was not decided in time.
        """
        producer = Producer(
            {
                "client.id": f"{self._client_id}-fence",
                "retry.backoff.ms": 1,
                **with_defaults(self._config.producer_properties()),
                "transactional.id": writer,
            }
        )
        while True:
            try:
                producer.init_transactions(_PAUSE_S)
            except KafkaException as error:
                code = error_of(error).code()
                if time.monotonic() > deadline or self._stopping.is_set():
                    raise
                if code == KafkaError.CONCURRENT_TRANSACTIONS:
                    return False
                if code != KafkaError._TIMED_OUT:  # noqa: SLF001 (its public name)
                    raise
            else:
                return True

    def _await_settled(self) -> None:
        """Ask something harmless first; raises KafkaException, Retry where it is not answered.

        A broker that is still starting knows of no brokers. Asked to describe topics, the client
        takes that answer for a defect, and ends the process.
        """
        self._offset(self._config.changelog_topic, 0, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def _described(self, names: list[str]) -> dict[str, Future[Any]]:
        """Once it has answered something harmless, see above."""
        return self._admin.newest.describe_topics(
            TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S
        )

    def _topic_ids(self) -> dict[str, str]:
        self._await_settled()
        found = self._described([*self._topics, self._config.changelog_topic])
        return {name: str(_result(future).topic_id) for name, future in found.items()}

    def _limits(self) -> Limits:
        config = self._config
        topics = (config.output.topic, config.changelog_topic, config.rejects_topic)
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]

        def sizes(admin: AdminClient) -> dict[str, int]:
            futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
            return {
                resource.name: int(_result(future)["max.message.bytes"].value)
                for resource, future in futures.items()
            }

        by_name = self._admin.asked(sizes)
        client = int(config.producer_properties().get("message.max.bytes", _ANY_SIZE))
        return Limits(*(min(by_name[topic], client) for topic in topics))


def _result(future: Future[Any]) -> Any:  # noqa: ANN401 (the vendor's)
    """A request's answer; raises KafkaException, Retry when it does not come."""
    try:
        return answer_of(future, REQUEST_TIMEOUT_S + 5)
    except TimeoutError as error:
        raise Retry("no answer in time") from error


def _ignore(future: Future[object]) -> None:
    future.exception()
