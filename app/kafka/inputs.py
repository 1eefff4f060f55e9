"""Both inputs of the lanes: the left topic is subscribed to, the right one follows.

Subscribing to one topic only keeps both halves of a lane together under any assignor, and so
allows a sticky one. Invariant: rebalance callbacks run inside `poll` alone, on the thread that
also reads the group metadata; no transaction is open then.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from app.errors import Fenced, Renew
from app.kafka.clients import FOUND_WITHIN_S, look_up, report, with_defaults
from app.kafka.failures import TROUBLES, error_of, of_consumer
from app.kafka.membership import read_membership
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.config import Config

Fetched = Any
"""The client's Message. Its stubs say that offset and partition may be None, which holds for
messages that were never sent, not for fetched ones; and they know nothing of its columns."""


class Batch(NamedTuple):
    """Records of one side of one lane, in log order, as columns.

    A column is made by one call that goes over all messages: half the cost of a tuple for each.
    """

    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    messages: list[Fetched]
    """The client's own, for what is seldom needed."""


_partition: Final[Callable[[Fetched], Any]] = Message.partition
_offset: Final[Callable[[Fetched], Any]] = Message.offset
_log: Final = structlog.get_logger()
WOKEN_WITHIN_S: Final = 0.1
"""The question alone wakes; more than its answer takes is not waited for."""
_NOWHERE: Final = OFFSET_BEGINNING
"""Where a left partition is assigned until a seek says where it begins; paused meanwhile, but the
client may have fetched before it is told. The group's offsets may not exist, and any number may be
out of the range of an input that is trimmed, which would stop the job for nothing.

It must not be the end, however. The client asks the broker where the beginning or the end is:

1. The question is sent; the broker is slow.
2. The lane is taken over meanwhile, and a seek goes to its position.
3. The answer comes and is outdated: the client asks again, half a second later.
4. It goes on from the second answer. Was that the end, all in between is never read."""

_CONSUMER: Final[dict[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
_DEFAULTS: Final[dict[str, str | int | bool]] = {
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
    "max.poll.interval.ms": 30_000,
    "queued.max.messages.kbytes": 8_192,
    "queued.min.messages": 5_000,
}
"""A limit in bytes counts payloads, and a message takes several times what a small one carries: so
there is one in messages, too. It is of each partition, and more are asked for below it."""
_CLASSIC: Final[dict[str, str | int | bool]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 200,
}


class Moves(Protocol):
    """Told of rebalances, inside `poll`; must not raise and must return within milliseconds."""

    def assigned(self, lanes: list[int]) -> None:
        """These lanes are ours from now on."""

    def revoked(self, lanes: list[int]) -> None:
        """Last moment of ownership: write the releases."""

    def lost(self, lanes: list[int]) -> None:
        """Ownership ended some time ago: drop everything, write nothing."""

    def unsettled(self) -> bool:
        """Whether the group, which has given us nothing, goes through another rebalance."""

    def away(self) -> None:
        """No broker can be reached, for however short a time."""


@dataclass(slots=True)
class Polled:
    """What one poll of both sides brought, by (side, lane)."""

    records: dict[tuple[Side, int], Batch] = field(default_factory=dict)
    ends: dict[tuple[Side, int], int] = field(default_factory=dict)
    """(side, lane) whose newest signal is the partition's end, and the offset of it."""


def consumer_properties(config: Config, client_id: str) -> dict[str, str | int | bool]:
    """Properties of the left consumer: defaults, the user's, and what must not be changed."""
    user = config.consumer_properties()
    classic = user.get("group.protocol", "classic") == "classic"
    return {
        **_DEFAULTS,
        **(_CLASSIC if classic else {}),
        **user,
        **_CONSUMER,
        # `spanjoin status` finds the owner of a lane among the group's members by it.
        "client.id": client_id,
        "group.id": config.name,
    }


class Inputs:
    """The consumers of a worker. Raises SpanjoinError out of `poll` only."""

    def __init__(self, config: Config, client_id: str, moves: Moves) -> None:
        self._topics = (config.left.topic, config.right.topic)
        self._moves = moves
        properties = consumer_properties(config, client_id)
        self._classic = properties.get("group.protocol", "classic") == "classic"
        self._newcomer = self._classic
        """Whether the group has not told us anything since we came."""
        self._gave_up = False
        """Whether the rebalance that is being told has taken lanes from us."""
        self._closing = False
        self.asleep = False
        """Whether the client has paused the lanes that stay, for a rebalance that is told by now.

        Its fetcher has nothing to fetch meanwhile, and falls asleep for up to a second; when they
        go on nobody wakes it, see `wake`.
        """
        self._consumers = (
            Consumer({**with_defaults(properties), "error_cb": self._on_trouble}),
            Consumer(
                {**with_defaults(properties), "client.id": f"{client_id}-right", "error_cb": report}
            ),
        )
        look_up(self._consumers[Side.RIGHT], self._topics[Side.RIGHT])
        self.unreachable = False
        """Whether every connection was lost, and nobody has seen a broker answer since."""
        self.emptied = (0, 0)
        """By side, how many polls took all that its client had fetched."""
        self.out_of_range: dict[tuple[Side, int], str] = {}
        """(side, lane) whose position the log does not have, and the client's words. Nothing more
        of it comes until it is sought anew."""
        self._failure: BaseException | None = None
        self._following: set[int] = set()

    def subscribe(self) -> None:
        """Join the group; in the callback of an assignment: join it again at once.

        Lanes move to a newcomer in two rebalances: in the first one their owners are told to give
        them up, and from there to the end of the second one they are nobody's. It would take a
        second, as the client asks to join once a second only: the owners do so at once when they
        have given up something, but all others have just asked, and the group waits for them. A
        client that is told to subscribe while it is in a rebalance puts that off to the end of it,
        and then joins at once (`rd_kafka_trigger_waiting_subscribe_maybe`).
        """
        self._consumers[Side.LEFT].subscribe(
            [self._topics[Side.LEFT]],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def poll(self, limit: int, wait_s: float) -> Polled:
        """Take up to `limit` records of each side, waiting for the first left one only.

        Raises Fenced where the group threw the consumer out for good, and what a rebalance callback
        met.
        """
        polled = Polled()
        left, right = self._consumers
        try:
            lefts = left.consume(1, wait_s) if wait_s > 0 else []
            lefts += left.consume(limit, 0)
            rights = right.consume(limit, 0) if self._following else []
        except TROUBLES as error:
            raise Fenced(f"a consumer cannot go on: {error}") from None
        if self._failure is not None:
            raise self._failure
        took_all = (len(lefts) < limit, len(rights) < limit)
        self.emptied = (self.emptied[0] + took_all[0], self.emptied[1] + took_all[1])
        self._sort(Side.LEFT, lefts, polled)
        self._sort(Side.RIGHT, rights, polled)
        return polled

    def metadata(self) -> bytes:
        """Group metadata for the transaction that is about to commit: read right before use.

        Raises Renew when we are no member at the moment: the broker takes offsets with an empty
        membership from anybody.
        """
        metadata = self._consumers[Side.LEFT].consumer_group_metadata()
        membership = read_membership(metadata)
        if not membership.valid:
            raise Renew(f"not a member of the group now: {membership}")
        return bytes(metadata)

    def member(self) -> bool:
        """Whether the group counts us in at the moment."""
        return read_membership(self._consumers[Side.LEFT].consumer_group_metadata()).valid

    def lost(self, side: Side) -> bool:
        """Whether the side's client finds no broker that it could ask, see `app.kafka.replaced`."""
        return not look_up(self._consumers[side], self._topics[side], FOUND_WITHIN_S)

    def start(self, lane: int, positions: tuple[int, int]) -> None:
        """Let a claimed lane flow, from these positions."""
        self._consumers[Side.RIGHT].incremental_assign(
            [TopicPartition(self._topics[Side.RIGHT], lane, positions[Side.RIGHT])]
        )
        self._following.add(lane)
        self.flow(Side.LEFT, lane, positions[Side.LEFT])

    def stop(self, lane: int) -> None:
        """Let a lane rest: it is released, lost, or starts over."""
        if lane in self._following:
            self._following.discard(lane)
            right = [TopicPartition(self._topics[Side.RIGHT], lane)]
            # The client remembers a pause beyond the assignment it was made in: a lane that comes
            # back to this worker would wait for its right side for ever.
            self._consumers[Side.RIGHT].resume(right)
            self._consumers[Side.RIGHT].incremental_unassign(right)

    def hold(self, side: Side, lane: int) -> None:
        """Stop fetching one side of a lane; what was fetched ahead is thrown away."""
        self._consumers[side].pause([TopicPartition(self._topics[side], lane)])

    def flow(self, side: Side, lane: int, position: int) -> None:
        """Fetch one side of a lane, from this position on.

        The second seek wakes the client's fetcher: where all partitions were paused, a resume
        alone leaves it asleep for up to a second. The first one is there so that nothing is fetched
        from where a left partition was assigned.
        """
        at, consumer = TopicPartition(self._topics[side], lane, position), self._consumers[side]
        self.out_of_range.pop((side, lane), None)
        try:
            consumer.seek(at)
            consumer.resume([at])
            consumer.seek(at)
        except KafkaException as error:
            if error_of(error).code() != KafkaError._STATE:  # noqa: SLF001 - its public name
                raise
            # The log did not have its position: the client has stopped it, and seeks nothing that
            # is stopped. It begins anew with another assignment. The pause would outlive that.
            consumer.resume([at])
            consumer.incremental_unassign([at])
            consumer.incremental_assign([at])

    def wake(self, lanes: list[int]) -> None:
        """Have the left side of these fetched on at once, after a rebalance that was told.

        A seek does not wake a broker's thread, unless it makes a partition active that was not
        (`rd_kafka_toppar_set_fetch_state`). Any question to the leader does, whatever the answer.
        """
        self.asleep = False
        places = [TopicPartition(self._topics[Side.LEFT], lane, OFFSET_END) for lane in lanes]
        if places:
            with contextlib.suppress(KafkaException):
                self._consumers[Side.LEFT].offsets_for_times(places, timeout=WOKEN_WITHIN_S)

    def high_watermark(self, side: Side, lane: int) -> int:
        """The high watermark of the last fetch, without asking the broker; -1 if none yet."""
        _, high = self._consumers[side].get_watermark_offsets(
            TopicPartition(self._topics[side], lane), cached=True
        )
        return high

    def close(self) -> None:
        """Leave the group; may hang in the client, so call it from a thread that may be left.

        A client that still has a subscription in the end aborts the process (an assertion in
        `rd_kafka_cgrp_destroy_final`), so one that was put off is taken back, and there is none
        anew in the callbacks that the client calls while it closes.
        """
        self._closing = True
        self._consumers[Side.LEFT].unsubscribe()
        for consumer in self._consumers:
            consumer.close()

    def _sort(self, side: Side, messages: list[Fetched], polled: Polled) -> None:
        if any(map(Message.error, messages)):
            messages = self._without_events(side, messages, polled)
        messages.sort(key=_partition)  # Stable: each stays in log order.
        lanes = list(map(_partition, messages))
        at = 0
        while at < len(messages):
            after = bisect_right(lanes, lanes[at], at)
            run = messages[at:after]
            polled.records[side, lanes[at]] = Batch(
                offsets=list(map(_offset, run)),
                keys=list(map(Message.key, run)),
                values=list(map(Message.value, run)),
                messages=run,
            )
            at = after

    def _without_events(self, side: Side, messages: list[Fetched], polled: Polled) -> list[Fetched]:
        """The records among these; an end counts if no record of its lane came after it."""
        records = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._on_event(side, message, error, polled)
            else:
                records.append(message)
                polled.ends.pop((side, message.partition()), None)
        return records

    def _on_event(self, side: Side, message: Fetched, error: KafkaError, polled: Polled) -> None:
        lane = message.partition()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
            polled.ends[side, lane] = message.offset()
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - likewise
            self.out_of_range[side, lane] = error.str()
            return
        failure = of_consumer(error)
        if failure is not None:
            raise failure
        _log.warning("input", side=side.name.lower(), lane=lane, error=error.str())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._classic and not partitions and not self._gave_up:
            self._guard(self._hasten)
        self._newcomer = self._gave_up = False
        self.asleep = True
        at = [TopicPartition(p.topic, p.partition, _NOWHERE) for p in partitions]
        self._guard(lambda: consumer.incremental_assign(at))
        self._guard(lambda: consumer.pause(at))
        self._guard(lambda: self._moves.assigned([p.partition for p in partitions]))

    def _hasten(self) -> None:
        """Take part in the next rebalance at once, if there is one: who has lanes had better know.

        Else each rebalance would bring another one, and whoever commits just then starts over.
        """
        if not self._closing and (self._newcomer or self._moves.unsettled()):
            self.subscribe()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gave_up = self.asleep = True  # The client joins again by itself.
        self._guard(lambda: self._moves.revoked([p.partition for p in partitions]))
        self._guard(lambda: consumer.incremental_unassign(partitions))

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._newcomer = self._classic
        self._guard(lambda: self._moves.lost([p.partition for p in partitions]))
        self._guard(lambda: consumer.incremental_unassign(partitions))

    def _on_trouble(self, error: KafkaError) -> None:
        report(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its public name
            self.unreachable = True
            self._guard(self._moves.away)

    def _guard(self, call: Callable[[], object]) -> None:
        """Run part of a callback; what it raises is kept and raised after the poll.

        An exception out of a callback destroys the fetched batch while the positions have advanced.
        """
        try:
            call()
        except Exception as error:  # noqa: BLE001 (whatever it is, it must wait)
            self._failure = self._failure or error
