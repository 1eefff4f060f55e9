"""Records and matches that wait for a schema: nothing is changed meanwhile, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import app.intake
from app.intake import Intake
from app.kafka.inputs import Batch, Polled
from app.process import plan_turn
from schemas.codec import Unresolved
from schemas.records import Side
from tests.lane import Lane, event, match_value, settings_of
from tests.unit.test_process import BOTH, MOMENT, push, running

if TYPE_CHECKING:
    from schemas.records import Fault, Parts


def never(*_: object) -> bytes:
    raise Unresolved(pairs=[(1, 2)])


def test_a_turn_that_waits_changes_nothing() -> None:
    lane = Lane(settings_of(10, 50))
    lane.left(event("l1", 0, 20), event("l2", 5, 9))
    settings, rights = lane.settings, [event("r1", 0, 8), event("r2", 6, 7)]
    lane.settings = settings._replace(match_value=never)
    for _ in range(3):
        with pytest.raises(Unresolved):
            lane.right(*rights)
    lane.settings = settings
    effects = lane.right(*rights)
    assert sorted(name for name, _, _ in effects.matches) == [
        b"L:l1|R:r1", b"L:l1|R:r2", b"L:l2|R:r1", b"L:l2|R:r2",
    ]  # fmt: skip
    assert effects.counts.duplicates == 0
    assert lane.directory == lane.recomputed_directory()


def test_its_records_wait_in_their_order() -> None:
    lane = running()
    lane.settings = lane.settings._replace(match_value=never)
    push(lane, Side.LEFT, event("l1", 0, 20), event("l2", 5, 9))
    push(lane, Side.RIGHT, event("r1", 0, 8))
    for _ in range(2):
        with pytest.raises(Unresolved):
            plan_turn(lane, MOMENT, BOTH)
    lane.settings = lane.settings._replace(match_value=match_value)
    plan = plan_turn(lane, MOMENT, BOTH)
    assert plan is not None
    assert (plan.checkpoint.left_position, plan.checkpoint.right_position) == (102, 101)
    assert plan.effects is not None
    assert [name for name, _, _ in plan.effects.matches] == [b"L:l1|R:r1", b"L:l2|R:r1"]


@dataclass
class Inputs:
    calls: list[tuple[object, ...]] = field(default_factory=list)
    asleep: bool = False

    def flow(self, side: Side, lane: int, position: int) -> None:
        self.calls.append(("flow", side, lane, position))

    def hold(self, side: Side, lane: int) -> None:
        self.calls.append(("hold", side, lane))


@dataclass
class Idleness:
    heard_of: list[Side] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def heard(self, side: Side, _lane: int) -> None:
        self.heard_of.append(side)

    def ended(self, _side: Side, _lane: int, offset: int) -> None:
        self.ends.append(offset)


class Codec:
    """Knows the schemas of so many values of a batch."""

    known = 0

    def decode_batch(self, _side: Side, values: list[bytes]) -> list[Parts | Fault]:
        found: list[Parts | Fault] = [(9, 0, "a", 0, 0, value) for value in values]
        if self.known < len(values):
            unresolved = Unresolved(schemas=[7])
            unresolved.decoded = found[: self.known]
            raise unresolved
        return found


class Suspicion:
    def look(self, _side: Side, _parts: object) -> None:
        """It has none."""


def polled(*offsets: int) -> Polled:
    count = len(offsets)
    batch = Batch(list(offsets), [b"k"] * count, [b"v"] * count, [None] * count)
    return Polled({(Side.LEFT, 0): batch}, {(Side.LEFT, 0): offsets[-1] + 1})


class Waiting:
    """An intake of one lane, over a codec that knows nothing at first."""

    def __init__(self) -> None:
        self.lane, self.inputs, self.idleness, self.codec = running(), Inputs(), Idleness(), Codec()
        self.asked: list[Unresolved] = []
        config = cast("Any", SimpleNamespace(turn=SimpleNamespace(max_records=1)))
        self.intake = Intake(
            config, cast("Any", self.codec), cast("Any", self.inputs), cast("Any", self.idleness),
            {0: self.lane}, cast("Any", Suspicion()), self.asked.append,
        )  # fmt: skip


def test_records_of_an_unknown_schema_are_read_again_later() -> None:
    waiting = Waiting()
    lane, inputs = waiting.lane, waiting.inputs
    waiting.intake.accept(polled(0, 1), now=None)
    assert [asked.schemas for asked in waiting.asked] == [{7}]
    assert inputs.calls == [("hold", Side.LEFT, 0)]
    assert (lane.expected, lane.inbox.waiting(Side.LEFT)) == ([0, 0], 0)
    # Its end is not reached, and it is not idle: it has records that nobody has read.
    assert (lane.drained, waiting.idleness.ends) == ([False, False], [])
    assert waiting.idleness.heard_of == [Side.LEFT]
    waiting.intake.flow(lane)
    assert len(inputs.calls) == 1
    # What the client had fetched beyond them is of no use.
    waiting.codec.known = 9
    waiting.intake.accept(polled(2, 3), now=None)
    assert (lane.expected, lane.inbox.waiting(Side.LEFT)) == ([0, 0], 0)
    waiting.intake.resume()
    assert inputs.calls[1:] == [("flow", Side.LEFT, 0, 0)]
    waiting.intake.accept(polled(0, 1), now=None)
    assert (lane.expected, lane.inbox.waiting(Side.LEFT)) == ([2, 0], 2)
    assert waiting.idleness.ends == [2]


def test_records_before_an_unknown_schema_are_taken() -> None:
    waiting = Waiting()
    lane, waiting.codec.known = waiting.lane, 2
    waiting.intake.accept(polled(4, 6, 9, 10), now=None)
    assert (lane.expected, lane.inbox.waiting(Side.LEFT)) == ([7, 0], 2)
    assert (lane.drained, lane.unread) == ([False, False], [True, False])
    waiting.intake.resume()
    # The client begins at the position, but may give what is known once more.
    waiting.intake.accept(polled(6, 9, 10), now=None)
    assert (lane.expected, lane.inbox.waiting(Side.LEFT)) == ([10, 0], 3)
    waiting.intake.resume()
    assert waiting.inputs.calls == [
        ("hold", Side.LEFT, 0), ("flow", Side.LEFT, 0, 7),
        ("hold", Side.LEFT, 0), ("flow", Side.LEFT, 0, 10),
    ]  # fmt: skip


def test_a_side_that_is_held_as_well_goes_on_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting()
    waiting.intake.accept(polled(0, 1), now=None)
    waiting.lane.held[Side.LEFT], waiting.lane.waits = True, True
    waiting.lane.inbox.push(Side.LEFT, [(n, b"k", (9, 0, "a", 0, 0, b"v"), None) for n in (0, 1)])
    monkeypatch.setattr(app.intake, "HELD_MIN", 4)
    waiting.intake.resume()
    assert (waiting.lane.waits, waiting.lane.held[Side.LEFT]) == (False, True)
    assert len(waiting.inputs.calls) == 1
    waiting.lane.inbox.take(5, (True, True), 0)
    waiting.intake.resume()
    assert waiting.inputs.calls[1:] == [("flow", Side.LEFT, 0, 0)]
