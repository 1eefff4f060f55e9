"""Schedules of a takeover that need a sleep at one certain place."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rebalance.lanes import Extent, Lane, Mismatch
from rebalance.phases import Phase, Signal
from rebalance.takeover import Replayed, Takeovers
from schemas.records import Side
from state.checkpoint import encode_turn
from state.keys import parse_rows
from state.store import Resources
from state.warm import warm_bytes
from tests.unit.stored import CHECKPOINT, LAYOUT, Paper, row

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance.fence import Stamp
    from tests.unit.stored import Turn


@dataclass
class Changelog:
    """A changelog of one lane; what was appended comes with the next read, then its end."""

    records: list[bytes] = field(default_factory=list)
    read_to: int = 0

    def append(self, left_position: int, sequence: int) -> None:
        checkpoint = replace(CHECKPOINT, left_position=left_position, sequence=sequence)
        self.records += encode_turn(checkpoint, {}, {}, 1_000_000)

    def write(self, turn: Turn) -> None:
        self.records += turn.encode()

    def assign(self, lane: int, offset: int) -> None:
        self.read_to = offset

    def unassign(self, lane: int) -> None:
        pass

    def read(self, limit: int) -> Replayed:
        items: list[tuple[int, int, bytes | None]] = [
            (0, offset, self.records[offset]) for offset in range(self.read_to, len(self.records))
        ]
        self.read_to = len(self.records)
        return Replayed([*items, (0, self.read_to, None)], [])


@dataclass
class Broker:
    """The broker's word on that changelog and on inputs that grow."""

    log: Changelog
    input_end: int = 9

    def changelog(self, lane: int) -> Extent:
        return Extent(0, len(self.log.records))

    def stable(self, lane: int) -> int:
        return len(self.log.records)

    def tail(self, lane: int, start: int, end: int) -> list[Stamp]:
        return []

    def fence(self, writer: str) -> None:
        pass

    def stored(self, lane: int) -> tuple[int | None, int | None]:
        return 0, 0

    def inputs(self, lane: int) -> tuple[Extent, Extent]:
        return Extent(0, self.input_end), Extent(0, self.input_end)


class AtOnce(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def takeover(
    log: Changelog, broker: Broker, directory: Path, windows_bytes_max: int = 1 << 20
) -> tuple[Takeovers, Lane]:
    lane = Lane(0, directory)
    takeovers = Takeovers(
        lanes={0: lane},
        reader=log,
        authority=broker,
        threads=AtOnce(),
        resources=Resources(1 << 20, 1 << 20),
        layout=LAYOUT,
        topics=("left", "right"),
        windows_bytes_max=windows_bytes_max,
        own=lambda: frozenset({"me"}),
        observe=lambda *_told, **_details: None,
    )
    return takeovers, lane


def step_to(takeovers: Takeovers, lane: Lane, phase: Phase) -> None:
    for _ in range(9):
        if lane.phase is phase:
            return
        assert takeovers.step() == []
    raise AssertionError(f"the lane is {lane.phase}")


def test_a_bound_that_was_read_before_a_sleep_stops_nothing(tmp_path: Path) -> None:
    log = Changelog()
    log.append(left_position=5, sequence=1)
    broker = Broker(log)
    takeovers, lane = takeover(log, broker, tmp_path / "lane-0")
    step_to(takeovers, lane, Phase.FENCING)
    # Asleep for longer than the session: another owner takes what has come in meanwhile.
    log.append(left_position=17, sequence=2)
    assert takeovers.step() == []
    assert lane.phase is Phase.RESTORING, "the bound is read again, after the next poll"
    # Still the owner, as it turns out: then the new bound is as good as any.
    broker.input_end = 17
    ready: list[Lane] = []
    for _ in range(9):
        ready = ready or takeovers.step()
    assert ready == [lane]
    lane.opened.close()


def test_an_input_that_ends_before_the_position_does_stop(tmp_path: Path) -> None:
    log = Changelog()
    log.append(left_position=17, sequence=1)
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0")
    step_to(takeovers, lane, Phase.FENCING)
    with pytest.raises(Mismatch, match="ends at offset 9, before the position 17"):
        takeovers.step()
    lane.opened.close()


@pytest.mark.parametrize(("rows_memory", "filled"), [(100, True), (10, False)])
def test_a_lane_begins_with_the_windows_of_all_rows_that_fit(
    tmp_path: Path, rows_memory: int, *, filled: bool
) -> None:
    log, paper = Changelog(), Paper()
    log.write(paper.turn(dict(row(number, key=b"%d" % (number % 3)) for number in range(20))))
    log.write(paper.turn(dict(row(number, bucket=1) for number in range(20, 30))))
    broker = Broker(log, input_end=30)
    memory = warm_bytes(rows_memory, 0)
    takeovers, lane = takeover(log, broker, tmp_path / "lane-0", memory)
    step_to(takeovers, lane, Phase.FENCING)
    # The first bound came too early: what was looked at before more was written does not count.
    log.write(paper.turn(dict(row(number, key=b"late") for number in range(30, 36))))
    broker.input_end = 36
    ready: list[Lane] = []
    for _ in range(9):
        ready = ready or takeovers.step()
    assert ready == [lane]
    assert (lane.warm is not None) is filled
    if lane.warm is not None:
        found = {
            (side, key, *each)
            for key, window in lane.warm.table.items()
            for side in Side
            for each in window[side].values()
        }
        assert found == {
            (side, key, *each) for _, side, key, each in parse_rows(paper.rows.items())
        }
        assert len(found) == 36
    lane.signal(Signal.CLAIMED)
    assert lane.warm is None, "they belong to the lane's turns now"
    lane.opened.close()
