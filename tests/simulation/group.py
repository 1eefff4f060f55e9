"""A consumer group of the classic protocol, and the offsets that it has stored.

The broker's side only: generations, sessions, the barrier that every member must come to. Who gets
what is decided by the leader, a client (`assignor`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from tests.simulation.network import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.coordinator import Place
    from tests.simulation.world import World

LOOK_S: Final = 0.2
"""How often sessions are looked at."""


class State(Enum):
    """Where the group stands in its rebalance."""

    EMPTY = "empty"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


@dataclass(slots=True)
class Round:
    """What the leader is told when all have joined."""

    generation: int
    leader: str
    owned: dict[str, frozenset[int]]
    """By member, the lanes that it says it still has."""


@dataclass(slots=True)
class Member:
    """One member as the broker sees it."""

    name: str
    session_s: float
    rebalance_s: float
    heard: float
    owned: frozenset[int] = frozenset()
    joined: Callable[[Round], None] | None = None
    """Answers its JoinGroup."""
    synced: Callable[[frozenset[int] | None], None] | None = None
    """Answers its SyncGroup; with None where the next rebalance has begun."""


@dataclass(slots=True)
class Offsets:
    """The offsets that a group has stored."""

    stored: dict[Place, int] = field(default_factory=dict)
    pending: dict[int, dict[Place, int]] = field(default_factory=dict)
    """By producer id, offsets of an undecided transaction."""
    _sent: dict[tuple[int, Place], int] = field(default_factory=dict)
    """When they were: of two that are committed the one that was sent last counts."""
    _newest: dict[Place, int] = field(default_factory=dict)
    _count: int = 0

    def send(self, producer: int, offsets: dict[Place, int]) -> None:
        """Keep them until they are decided."""
        self._count += 1
        self.pending.setdefault(producer, {}).update(offsets)
        self._sent |= {(producer, place): self._count for place in offsets}

    def decide(self, producer: int, *, commit: bool) -> None:
        """What this one has sent counts, or is forgotten."""
        for place, offset in self.pending.pop(producer, {}).items():
            sent = self._sent.pop((producer, place))
            if commit and sent > self._newest.get(place, 0):
                self.stored[place], self._newest[place] = offset, sent

    def unstable(self, place: Place) -> bool:
        """Whether an undecided transaction holds the place's offset."""
        return any(place in offsets for offsets in self.pending.values())


class Group:
    """One group; its members call from their own background threads."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.offsets = Offsets()
        self.state = State.EMPTY
        self.generation = 0
        self.members: dict[str, Member] = {}
        self._world = world
        self.assignment: dict[str, frozenset[int]] = {}
        self._deadline = 0.0
        self._names = 0
        world.at(LOOK_S, self._look)

    def join(
        self,
        name: str,
        timeouts: tuple[float, float],
        owned: frozenset[int],
        joined: Callable[[Round], None],
    ) -> str:
        """JoinGroup: returns the member's name; `joined` is called when all are there."""
        if name and name not in self.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if not name:
            self._names += 1
            name = f"member-{self._names}"
            self.members[name] = Member(name, *timeouts, heard=self._world.now)
        member = self.members[name]
        member.heard = self._world.now
        member.owned, member.joined, member.synced = owned, joined, None
        if self.state is not State.PREPARING:
            self._prepare(f"{name} joins")
        self._world.at(0.0, self._complete)
        return name

    def sync(
        self,
        name: str,
        generation: int,
        assignment: dict[str, frozenset[int]] | None,
        synced: Callable[[frozenset[int] | None], None],
    ) -> None:
        """SyncGroup: the leader's brings the assignment, everybody's is answered by it."""
        self._check(name, generation)
        if self.state is State.PREPARING:
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)
        self.members[name].synced = synced
        self.members[name].heard = self._world.now
        if assignment is not None and self.state is State.COMPLETING:
            self.state = State.STABLE
            self.assignment = assignment
            self._world.note(f"group: generation {generation} is {_readable(assignment)}")
        if self.state is State.STABLE:
            for member in self.members.values():
                if member.synced is not None:
                    answer, member.synced = member.synced, None
                    answer(self.assignment.get(member.name, frozenset()))

    def heartbeat(self, name: str, generation: int) -> None:
        """Heartbeat."""
        self._check(name, generation)
        self.members[name].heard = self._world.now
        if self.state is State.PREPARING:
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)

    def leave(self, name: str) -> None:
        """LeaveGroup, or the end of a session."""
        if self.members.pop(name, None) is not None:
            if not self.members:
                self.generation += 1
                self.state = State.EMPTY
            elif self.state is not State.PREPARING:
                self._prepare(f"{name} is gone")
            self._complete()

    def bump(self) -> None:
        """A generation for nothing, as when somebody joins and leaves at once."""
        if self.state is State.STABLE:
            self._prepare("for nothing")

    def check_offsets(self, name: str, generation: int) -> None:
        """What TxnOffsetCommit checks: nothing at all where it is given nothing to check."""
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or name:
            self._check(name, generation)

    def _check(self, name: str, generation: int) -> None:
        if name not in self.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if generation != self.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION)

    def _prepare(self, why: str) -> None:
        self._world.note(f"group: rebalance, {why}")
        self.state = State.PREPARING
        for member in self.members.values():
            if member.synced is not None:
                answer, member.synced = member.synced, None
                answer(None)
        self._deadline = self._world.now + max(
            member.rebalance_s for member in self.members.values()
        )

    def _complete(self) -> None:
        """Go on with the next generation once every member has come, or its time is up."""
        if self.state is not State.PREPARING:
            return
        if any(member.joined is None for member in self.members.values()):
            if self._world.now < self._deadline:
                return
            for member in [one for one in self.members.values() if one.joined is None]:
                self._world.note(f"group: {member.name} did not come to the rebalance")
                del self.members[member.name]
        self.generation += 1
        self.state = State.COMPLETING if self.members else State.EMPTY
        owned = {member.name: member.owned for member in self.members.values()}
        for member in list(self.members.values()):
            assert member.joined is not None
            answer, member.joined = member.joined, None
            member.heard = self._world.now
            answer(Round(self.generation, next(iter(self.members)), owned))

    def _look(self) -> None:
        """Expel members that were not heard for a session."""
        now = self._world.now
        for member in list(self.members.values()):
            if member.joined is None and now - member.heard > member.session_s:
                self._world.note(f"group: the session of {member.name} has expired")
                self.leave(member.name)
        self._complete()
        self._world.at(LOOK_S, self._look)


def _readable(assignment: dict[str, frozenset[int]]) -> str:
    return ", ".join(f"{name}: {sorted(lanes)}" for name, lanes in assignment.items())


def assignor(
    turn: Round, lanes: range, choose: Callable[[list[str]], str]
) -> dict[str, frozenset[int]]:
    """Cooperative and sticky: as balanced as possible, and nothing that somebody else still has.

    What moves is given up by its owner first, and given to the next one in a further round.
    """
    owners: dict[int, list[str]] = {}
    for name, owned in turn.owned.items():
        for lane in owned:
            owners.setdefault(lane, []).append(name)
    # Two that both think they own a lane: neither may go on with it.
    kept = {lane: names[0] for lane, names in owners.items() if len(names) == 1}
    target: dict[str, list[int]] = {name: [] for name in turn.owned}
    for lane, name in sorted(kept.items()):
        target[name].append(lane)
    for lane in lanes:
        if lane not in kept:
            fewest = min(map(len, target.values()))
            target[choose([name for name in target if len(target[name]) == fewest])].append(lane)
    while True:
        fewest, most = (bound(map(len, target.values())) for bound in (min, max))
        if most - fewest <= 1:
            break
        giver = choose([name for name in target if len(target[name]) == most])
        taker = choose([name for name in target if len(target[name]) == fewest])
        target[taker].append(target[giver].pop())
    return {
        name: frozenset(
            lane for lane in given if not any(owner != name for owner in owners.get(lane, ()))
        )
        for name, given in target.items()
    }
