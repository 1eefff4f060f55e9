"""The vendor's Consumer as the worker uses it: what it has fetched, and the news of the group.

What librdkafka does, as seen on a real broker: records are fetched ahead, and thrown away at a
pause, a seek, an unassign; a partition's end is told once each time it is reached, and not at all
while the position is beyond it; a position that is not in the log is an error event. What becomes
of a position that is the beginning or the end is in `positions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Message, TopicPartition

from tests.simulation.client import Client, failure, timed_out
from tests.simulation.membership import Membership, Move
from tests.simulation.network import RETRY_S, Refused, TimedOut
from tests.simulation.positions import NOTHING, Position, State
from tests.simulation.world import Task, current

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.coordinator import Place
    from tests.simulation.log import Entry

Callback = Any
IDLE_S: Final = 0.2
"""How much longer than told an idle call may take: a slow machine, and a cheap simulation."""
FETCHED_MAX: Final = 8
"""Records that one fetch brings from one partition."""


class Consumer(Client):
    """A consumer, of a group or on its own."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._committed = self.config.get("isolation.level", "read_committed") == "read_committed"
        self._assigned: dict[Place, Position] = {}
        self._positions: dict[Place, Position] = {}
        """Those of partitions that are not assigned any more, too."""
        self._paused: set[Place] = set()
        self._membership: Membership | None = None
        self._callbacks: dict[Move, Callback] = {}
        self._topic = ""
        self._closed = False
        self._polling: Task | None = None
        """The thread that polls at the moment."""
        self._outage = 0.0
        """The end of the newest outage that this client has met."""
        self._label = f"consume {self.config.get('client.id', '')}".replace(self.process.name, "")
        """What it is called as a place to be hit at: `consume -restore` is the changelog's."""

    # --- the group ------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback = None,
        on_revoke: Callback = None,
        on_lost: Callback = None,
    ) -> None:
        """Join the group, in the background; the second time: once more, after this rebalance."""
        (self._topic,) = topics
        self._callbacks = {
            Move.ASSIGN: on_assign,
            Move.REVOKE: on_revoke,
            Move.LOST: on_lost or on_revoke,
        }
        if self._membership is None:
            self._membership = Membership(self, self._topic)
        else:
            self._membership.join_again()

    def unsubscribe(self) -> None:
        """Put no subscription off any more; the group is left by `close`."""
        if self._membership is not None:
            self._membership.forget_subscription()

    def consumer_group_metadata(self) -> bytes:
        """Generation and member as the background thread knows them now.

        Calls of one consumer wait for each other, but for those in a callback of the same thread.
        """
        while self._polling not in {None, current()}:
            self.world.sleep(0.001)
        generation, member = -1, ""
        if self._membership is not None:
            generation, member = self._membership.generation, self._membership.name
        group = str(self.config["group.id"]).encode()
        number = generation.to_bytes(4, "little", signed=True)
        return b"CGMDv2:" + number + group + b"\0" + member.encode() + b"\0\1"

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """The group's stored offsets; one that is undecided is asked for until time is up."""
        places = [(one.topic, one.partition) for one in partitions]
        deadline = self.deadline(timeout)

        def look() -> list[int] | None:
            past = self.process.past
            if past is not None and past.offsets is not None:
                return [past.offsets.get(place, NOTHING) for place in places]
            offsets = self.broker.group(str(self.config["group.id"])).offsets
            if self._committed and any(offsets.unstable(place) for place in places):
                return None
            return [offsets.stored.get(place, NOTHING) for place in places]

        while self.world.now < deadline:
            try:
                found = self.network.ask("committed", look, deadline)
            except TimedOut:
                break
            if found is not None:
                return [
                    TopicPartition(*place, offset)
                    for place, offset in zip(places, found, strict=True)
                ]
            self.world.sleep(RETRY_S)
        raise timed_out("committed")

    def _serve_moves(self) -> None:
        """Rebalance callbacks: inside a poll, on its thread, one after the other."""
        membership = self._membership
        while membership is not None and membership.moves:
            move, lanes = membership.next_move()
            partitions = [TopicPartition(self._topic, lane) for lane in sorted(lanes)]
            callback = self._callbacks[move]
            self.world.note(f"{self.process.name}: on_{move.value} {sorted(lanes)}")
            if callback is not None:
                callback(self, partitions)
            if move is Move.ASSIGN and callback is None:
                self.incremental_assign(partitions)
            elif callback is None:
                self.incremental_unassign(partitions)
            membership.served(move, lanes)

    # --- positions ------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these, and nothing else."""
        self.unassign()
        self.incremental_assign(partitions)

    def unassign(self) -> None:
        """Read nothing."""
        for assigned in self._assigned.values():
            assigned.end()
        self._assigned = {}

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these as well."""
        for one in partitions:
            place = (one.topic, one.partition)
            if place in self._assigned:
                text = f"{one.topic} [{one.partition}] is already part of the current assignment"
                raise failure(KafkaError._CONFLICT, text)
            position = self._positions.get(place)
            if position is None:
                position = Position(place, self.process, self.broker, self._committed)
                self._positions[place] = position
            position.begin(one.offset)
            self._assigned[place] = position

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these no longer."""
        for one in partitions:
            if (one.topic, one.partition) not in self._assigned:
                raise failure(KafkaError._INVALID_ARG, "Can't subtract from empty assignment")
        for one in partitions:
            self._assigned.pop((one.topic, one.partition)).end()

    def assignment(self) -> list[TopicPartition]:
        """What is read."""
        return [TopicPartition(*place, one.next) for place, one in self._assigned.items()]

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Do not fetch these; what was fetched is thrown away."""
        for one in partitions:
            place = (one.topic, one.partition)
            self._paused.add(place)
            if (assigned := self._assigned.get(place)) is not None:
                assigned.pause()

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Fetch these again."""
        for one in partitions:
            place = (one.topic, one.partition)
            self._paused.discard(place)
            if (assigned := self._assigned.get(place)) is not None:
                assigned.resume()

    def seek(self, partition: TopicPartition) -> None:
        """Read a partition from another offset; not one that is stopped, as its log lacks it."""
        assigned = self._assigned.get((partition.topic, partition.partition))
        if assigned is None or assigned.failed:
            text = f"Failed to seek to offset {partition.offset}: Local: Erroneous state"
            raise failure(KafkaError._STATE, text)
        if self.process.deaf.get(self._label):
            del self.process.deaf[self._label]
        assigned.seek(partition.offset)

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """A question to the leaders, of which nobody wants the answer."""
        self.world.step("offsets for times")
        return partitions

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Of the last fetch if cached; else the end as this reader's isolation has it."""
        place = (partition.topic, partition.partition)
        if cached:
            assigned = self._assigned.get(place)
            return (NOTHING, NOTHING) if assigned is None else (0, assigned.high)
        log = self.broker.log(*place)
        self.world.step("watermarks")
        extent = log.extent(self.process.past)
        return extent.start, extent.end(committed=self._committed)

    # --- records --------------------------------------------------------------------------------

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """What is there, at most so many; waits for the first. Callbacks run in here."""
        self._polling = current()
        try:
            return self._consume(num_messages, timeout)
        finally:
            self._polling = None

    def _consume(self, num_messages: int, timeout: float) -> list[Message]:
        self._alive()
        if timeout > 0 or self.world.random.random() < 0.25:
            self.world.step(self._label)
        self._alive()
        messages = self._take(num_messages)
        if not messages and timeout > 0:
            self.world.sleep(timeout + IDLE_S * self.world.random.random())
            self._alive()
            messages = self._take(num_messages)
        return messages

    def poll(self, timeout: float = -1) -> Message | None:
        """One record or event."""
        messages = self.consume(1, timeout)
        return messages[0] if messages else None

    def close(self) -> None:
        """Give everything up, and leave."""
        membership = self._membership
        if membership is not None:
            self._serve_moves()
            membership.give_up()
            self._serve_moves()
            membership.leave()
        self._closed = True

    def _alive(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")
        if self._membership is not None:
            self._membership.polled = self.world.now
            self._tell_trouble()
            self._serve_moves()

    def _tell_trouble(self) -> None:
        """All connections are lost: that is told once an outage. One that hangs keeps them."""
        away = self.network.weather.away_until
        if self.world.now < away != self._outage:
            self._outage = away
            told = self.config.get("error_cb")
            if told is not None and self.world.random.random() < 0.5:
                told(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def _take(self, count: int) -> list[Message]:
        """From what was fetched; fetches before or after, so that it may be old news."""
        membership = self._membership
        events = membership.events if membership is not None else []
        messages, events[:] = list(events), []
        if self.world.random.random() < 0.7:
            self._fetch()
        for place, assigned in self._assigned.items():
            while assigned.fetched and len(messages) < count and place not in self._paused:
                message = assigned.fetched.popleft()
                if message.error() is None:
                    offset = message.offset()
                    assert offset is not None, "a record has an offset"
                    assigned.hand(offset)
                messages.append(message)
        self._fetch()
        return messages

    def _fetch(self) -> None:
        """One fetch of everything that is wanted; nothing while the broker is away."""
        deaf = self._label in self.process.deaf
        if deaf or self.network.weather.away_until > self.world.now:
            return
        for place, assigned in self._assigned.items():
            if place not in self._paused and len(assigned.fetched) < FETCHED_MAX:
                self._fetch_one(place, assigned)

    def _fetch_one(self, place: Place, assigned: Position) -> None:
        if assigned.failed or assigned.state is not State.READING:
            return
        try:
            log = self.broker.log(*place)
            count = self.world.random.randint(1, FETCHED_MAX)
            found, assigned.fetched_to = log.read(
                assigned.fetched_to, count, committed=self._committed, past=self.process.past
            )
        except Refused as refused:
            assigned.failed = True
            error = KafkaError(KafkaError._AUTO_OFFSET_RESET, f"offset reset: {refused.code}")
            assigned.fetched.append(Message(*place, assigned.fetched_to, error=error))
            return
        extent = log.extent(self.process.past)
        assigned.low, assigned.high = extent.start, extent.high
        assigned.fetched.extend(_message(place, offset, entry) for offset, entry in found)
        end = extent.end(committed=self._committed)
        if assigned.fetched_to == end != assigned.told_end:
            assigned.told_end = end
            error = KafkaError(KafkaError._PARTITION_EOF)
            assigned.fetched.append(Message(*place, end, error=error))


def _message(place: Place, offset: int, entry: Entry) -> Message:
    return Message(
        *place,
        offset,
        entry.key,
        entry.value,
        headers=list(entry.headers),
        timestamp=(1, entry.timestamp),
    )
