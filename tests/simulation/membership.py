"""The client's side of a classic, cooperative group: what librdkafka does in the background.

It joins, sends heartbeats and learns generations on its own; what that means for the lanes waits
as moves until the application polls. It does not join again while a move waits.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message

from tests.simulation.group import Round, assignor
from tests.simulation.network import Flight, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.consumer import Consumer


class Move(Enum):
    """What a callback tells."""

    ASSIGN = "assign"
    REVOKE = "revoke"
    LOST = "lost"


class Membership:
    """One consumer's membership."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.generation = -1
        self.name = ""
        self.moves: deque[tuple[Move, frozenset[int]]] = deque()
        self.events: list[Message] = []
        self.polled = consumer.world.now
        self._world = consumer.world
        self._process = consumer.process
        self._process.membership = self
        self._network = consumer.network
        self._group = consumer.broker.group(str(consumer.config["group.id"]))
        self._lanes = range(len(consumer.broker.topics[topic].logs))
        self._session_s = consumer.ms("session.timeout.ms", 45_000)
        self._heartbeat_s = consumer.ms("heartbeat.interval.ms", 3_000)
        self._max_poll_s = consumer.ms("max.poll.interval.ms", 300_000)
        self._owned: frozenset[int] = frozenset()
        self._joining = False
        self._rejoin = True
        self._lost = False
        self._left = False
        self._too_slow = False
        self._answered = self._world.now
        self._later(self._beat, 0.0)

    # --- what the application's thread does -----------------------------------------------------

    def next_move(self) -> tuple[Move, frozenset[int]]:
        """The move to tell now; a revocation of what was lost meanwhile may be told as either."""
        move, lanes = self.moves[0]
        if move is Move.REVOKE and self._lost:
            move = self._world.random.choice([Move.REVOKE, Move.LOST])
        elif move is Move.LOST and self._world.random.random() < self._network.lost_as_revoked:
            move = Move.REVOKE
        return move, lanes

    def served(self, move: Move, lanes: frozenset[int]) -> None:
        """The callback has returned."""
        self.moves.popleft()
        self._owned = self._owned | lanes if move is Move.ASSIGN else self._owned - lanes
        if not self.moves:
            self._lost = False
            self._too_slow = False
            self._later(self._join_if_due, self._world.latency())

    def join_again(self) -> None:
        """As soon as what is being told now has been told."""
        assert self.moves, "the client does nothing at a subscription that is the same"
        self._rejoin = True

    def forget_subscription(self) -> None:
        """What was put off will not be done."""
        self._rejoin = False

    def give_up(self) -> None:
        """Everything is revoked: the consumer closes."""
        self._left = True
        if self._owned:
            self.moves.append((Move.REVOKE, self._owned))

    def leave(self) -> None:
        """Tell the group, if the broker is there."""
        name = self.name
        flight = Flight(lambda: self._group.leave(name))
        if name and self._network.weather.away_until <= self._world.now:
            self._world.at(self._world.latency(), flight.land)
        self.name, self.generation = "", -1

    # --- what the background thread does --------------------------------------------------------

    def _later(self, action: Callable[[], None], delay: float) -> None:
        """Do something in the background, unless the consumer has left by then."""

        def act() -> None:
            if not self._left:
                action()

        self._process.later(act, delay)

    def _arrives(self, action: Callable[[], None]) -> None:
        """A request: carried out when the broker is there, whatever becomes of its sender."""
        away = max(0.0, self._network.weather.away_until - self._world.now)
        self._world.at(away + self._world.latency(), action)

    def _beat(self) -> None:
        self._later(self._beat, self._heartbeat_s)
        now = self._world.now
        if now - self.polled > self._max_poll_s and not self._too_slow and self.name:
            self._too_slow = True
            self._world.note(f"{self._process.name}: has not polled for too long, leaves")
            error = KafkaError(KafkaError._MAX_POLL_EXCEEDED)
            self.events.append(Message(error=error))
            name = self.name
            self._arrives(lambda: self._group.leave(name))
            self._lose("", self.generation)
        elif now - self._answered > self._session_s and self.name and not self._joining:
            self._world.note(f"{self._process.name}: hears nothing from the group")
            self._lose("", self.generation)
        if self._joining and now - self._answered > self._max_poll_s:
            self._joining, self._rejoin = False, True
        if self._too_slow and now - self.polled < self._max_poll_s and not self.moves:
            self._too_slow = False
        self._join_if_due()
        if self.name and not self._joining:
            self._arrives(self._heartbeat)

    def _heartbeat(self) -> None:
        name, generation = self.name, self.generation
        try:
            self._group.heartbeat(name, generation)
        except Refused as refused:
            code = refused.code
            self._later(lambda: self._learn(code, name, generation), self._world.latency())
        else:
            self._later(self._is_answered, self._world.latency())

    def _is_answered(self) -> None:
        self._answered = self._world.now

    def _learn(self, code: int, name: str, generation: int) -> None:
        """The group's answer to a heartbeat is that something has happened."""
        self._is_answered()
        if (name, generation) != (self.name, self.generation) or self._joining:
            return
        if code == KafkaError.UNKNOWN_MEMBER_ID:
            self._world.note(f"{self._process.name}: learns that it was expelled")
            self._lose("", self.generation)
        elif code == KafkaError.ILLEGAL_GENERATION:
            self._lose(self.name, -1)
        else:
            self._rejoin = True
        self._join_if_due()

    def _lose(self, name: str, generation: int) -> None:
        self.name, self.generation = name, generation
        self._answered = self._world.now
        self._joining = False
        self._rejoin = True
        waiting = {lane for move, lanes in self.moves for lane in lanes if move is not Move.ASSIGN}
        coming = {lane for move, lanes in self.moves for lane in lanes if move is Move.ASSIGN}
        gone = (self._owned | coming) - waiting
        self._lost = bool(waiting)
        if gone:
            self.moves.append((Move.LOST, frozenset(gone)))

    def _join_if_due(self) -> None:
        if self._rejoin and not self.moves and not self._joining and not self._too_slow:
            self._joining, self._rejoin = True, False
            self._answered = self._world.now
            name, owned = self.name, self._owned
            self._arrives(lambda: self._join(name, owned))

    def _join(self, name: str, owned: frozenset[int]) -> None:
        def joined(turn: Round) -> None:
            self._later(lambda: self._joined(turn, given), self._world.latency())

        if self._left:
            return
        timeouts = (self._session_s, self._max_poll_s)
        try:
            given = self._group.join(name, timeouts, owned, joined)
        except Refused:
            self._later(self._join_refused, self._world.latency())
        else:
            self._later(lambda: self._named(given), self._world.latency())

    def _join_refused(self) -> None:
        """The group does not know us any more."""
        self._lose("", self.generation)
        self._join_if_due()

    def _named(self, name: str) -> None:
        self._answered = self._world.now
        if self._joining:
            self.name = name

    def _joined(self, turn: Round, name: str) -> None:
        self._answered = self._world.now
        if not self._joining:
            return
        self.name, self.generation = name, turn.generation
        assignment = None
        if name == turn.leader:
            assignment = assignor(turn, self._lanes, self._world.random.choice)
        self._arrives(lambda: self._sync(name, turn.generation, assignment))

    def _sync(
        self, name: str, generation: int, assignment: dict[str, frozenset[int]] | None
    ) -> None:
        def synced(lanes: frozenset[int] | None) -> None:
            self._later(lambda: self._synced(name, generation, lanes), self._world.latency())

        try:
            self._group.sync(name, generation, assignment, synced)
        except Refused as refused:
            code = refused.code
            self._later(lambda: self._sync_refused(code), self._world.latency())

    def _sync_refused(self, code: int) -> None:
        self._joining = False
        self._learn(code, self.name, self.generation)

    def _synced(self, name: str, generation: int, lanes: frozenset[int] | None) -> None:
        self._answered = self._world.now
        if (name, generation) != (self.name, self.generation):
            return
        self._joining = False
        if lanes is None:
            self._rejoin = True
            self._join_if_due()
            return
        revoked, added = self._owned - lanes, lanes - self._owned
        if revoked:
            self._rejoin = True
            self.moves.append((Move.REVOKE, revoked))
        if added or not revoked:
            self.moves.append((Move.ASSIGN, added))
