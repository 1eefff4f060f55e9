"""From what was polled to the inboxes of running lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.intake import Intake, cut_off
from app.kafka.inputs import Batch, Polled
from schemas.records import Side
from tests.unit.test_process import running

if TYPE_CHECKING:
    from app.process import Running


@dataclass
class Inputs:
    flows: list[tuple[Side, int, int]] = field(default_factory=list)
    asleep: bool = False
    woken: list[list[int]] = field(default_factory=list)

    def wake(self, lanes: list[int]) -> None:
        self.asleep = False
        self.woken.append(lanes)

    def flow(self, side: Side, lane: int, position: int) -> None:
        self.flows.append((side, lane, position))


def intake_of(lane: Running, inputs: Inputs) -> Intake:
    nothing = cast("Any", None)
    return Intake(nothing, nothing, cast("Any", inputs), nothing, {0: lane}, nothing, nothing)


def polled(*offsets: int) -> Polled:
    count = len(offsets)
    batch = Batch(list(offsets), [b"k"] * count, [b"v"] * count, [None] * count)
    return Polled({(Side.LEFT, 0): batch})


def test_a_client_that_went_back_to_the_beginning_is_sent_to_its_position() -> None:
    lane, inputs = running(), Inputs()
    lane.expected[Side.LEFT] = 100
    intake_of(lane, inputs).accept(polled(0, 1, 2), now=None)
    assert inputs.flows == [(Side.LEFT, 0, 100)]
    assert lane.expected[Side.LEFT] == 100
    assert len(lane.inbox) == 0


def test_old_records_behind_new_ones_are_no_new_ones() -> None:
    """The client gives what it had fetched before it went back, and then goes on from there."""
    lane, inputs = running(), Inputs()
    lane.expected[Side.LEFT] = 1
    batch = polled(1, 2, 3, 4, 5, 0, 1)
    batch.ends[Side.LEFT, 0] = 6
    intake_of(lane, inputs).accept(batch, now=None)
    assert inputs.flows == [(Side.LEFT, 0, 1)]
    assert lane.expected[Side.LEFT] == 1
    assert len(lane.inbox) == 0
    assert lane.drained[Side.LEFT] is False


def test_a_side_that_is_held_stays_held() -> None:
    lane, inputs = running(), Inputs()
    lane.expected[Side.LEFT], lane.held[Side.LEFT] = 100, True
    intake_of(lane, inputs).accept(polled(0, 1, 2), now=None)
    assert inputs.flows == []


@pytest.mark.parametrize("held", [False, True])
def test_a_client_that_fell_asleep_in_a_rebalance_is_woken(held: bool) -> None:
    """Behind what it gave in the same poll; the right side's client is in no group."""
    lane, inputs = running(), Inputs(asleep=True)
    intake = intake_of(lane, inputs)
    lane.unread[Side.LEFT] = True  # So nothing is taken, and nothing else moves.
    intake.accept(Polled(), now=None)
    assert inputs.woken == [[]]
    lane.unread[Side.LEFT], lane.held[Side.LEFT] = False, held
    inputs.asleep = True
    intake.accept(Polled(), now=None)
    assert inputs.woken[1:] == [[] if held else [0]]
    intake.accept(Polled(), now=None)
    assert len(inputs.woken) == 2, "once"
    assert inputs.flows == []


def test_what_is_beyond_the_end_of_reading_is_not_taken() -> None:
    batch = polled(7, 9, 12, 13)
    cut_off(batch, {(Side.LEFT, 0): 12})
    assert batch.records[Side.LEFT, 0].offsets == [7, 9]
    assert [len(column) for column in batch.records[Side.LEFT, 0]] == [2] * 4
    assert batch.ends == {(Side.LEFT, 0): 12}
    beyond = polled(12, 13)
    cut_off(beyond, {(Side.LEFT, 0): 12})
    assert (beyond.records, beyond.ends) == ({}, {(Side.LEFT, 0): 12})


def test_a_partitions_end_counts_once_all_that_is_to_be_read_is_there() -> None:
    for end, ended in ((11, {}), (12, {(Side.LEFT, 0): 12}), (15, {(Side.LEFT, 0): 15})):
        batch = polled(3, 4)
        batch.ends[Side.LEFT, 0] = end
        cut_off(batch, {(Side.LEFT, 0): 12})
        assert batch.records[Side.LEFT, 0].offsets == [3, 4]
        assert batch.ends == ended


def test_only_lanes_with_an_end_of_reading_are_wanted() -> None:
    intake = intake_of(running(), Inputs())
    assert intake.wanted([0, 1, 2]) == [0, 1, 2]
    intake.until = {(side, lane): 0 for side in Side for lane in (0, 1)}
    assert intake.wanted([0, 1, 2]) == [0, 1]


def test_a_client_that_went_back_is_not_at_its_end_for_what_it_gives_again() -> None:
    batch = polled(10, 11, 12, 0, 1)
    cut_off(batch, {(Side.LEFT, 0): 12})
    assert batch.records[Side.LEFT, 0].offsets == [10, 11]
