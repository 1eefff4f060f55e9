"""Schedules of a takeover that need a sleep at one certain place."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rebalance.lanes import Extent, Lane
from rebalance.phases import Phase, Signal
from rebalance.restore import Audit
from rebalance.takeover import Replayed, Takeovers
from schemas.records import Side
from state.checkpoint import encode_turn
from state.disk import StoreLocked
from state.keys import parse_rows
from state.resources import Resources
from state.store import LaneStore
from state.warm import warm_bytes
from tests.unit.executors import Later
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
    told_end: int = -1
    known: int | None = None
    """Where it ends for a broker that was cut off from the others."""

    @property
    def end(self) -> int:
        return len(self.records) if self.known is None else self.known

    def append(self, left_position: int, sequence: int) -> None:
        checkpoint = replace(CHECKPOINT, left_position=left_position, sequence=sequence)
        self.records += encode_turn(checkpoint, {}, {}, 1_000_000)

    def write(self, turn: Turn) -> None:
        self.records += turn.encode()

    def assign(self, lane: int, offset: int) -> None:
        self.read_to, self.told_end = offset, -1

    def unassign(self, lane: int) -> None:
        pass

    def look_again(self) -> None:
        pass

    def read(self, limit: int) -> Replayed:
        if self.read_to > self.end:
            return Replayed([], [0])
        items: list[tuple[int, int, bytes | None]] = [
            (0, offset, self.records[offset]) for offset in range(self.read_to, self.end)
        ]
        self.read_to = self.end
        if self.told_end != self.end:
            self.told_end = self.end
            items.append((0, self.end, None))
        return Replayed(items, [])


@dataclass
class Broker:
    """The broker's word on that changelog and on inputs that grow."""

    log: Changelog
    input_end: int = 9
    stored_left: int = 0

    def look_again(self) -> None:
        pass

    def changelog(self, lane: int) -> Extent:
        return Extent(0, self.log.end)

    def stable(self, lane: int) -> int:
        return self.log.end

    def tail(self, lane: int, start: int, end: int) -> list[Stamp]:
        return []

    def fence(self, writer: str) -> None:
        pass

    def stored(self, lane: int) -> tuple[int | None, int | None]:
        return self.stored_left, 0

    def inputs(self, lane: int) -> tuple[Extent, Extent]:
        return Extent(0, self.input_end), Extent(0, self.input_end)


class AtOnce(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def takeover(
    log: Changelog,
    broker: Broker,
    directory: Path,
    windows_bytes_max: int = 1 << 20,
    threads: Executor | None = None,
) -> tuple[Takeovers, Lane]:
    lane = Lane(0, directory)
    takeovers = Takeovers(
        lanes={0: lane},
        reader=log,
        authority=broker,
        threads=threads or AtOnce(),
        resources=Resources(1 << 20, 1 << 20),
        layout=LAYOUT,
        topics=("left", "right"),
        windows_bytes_max=windows_bytes_max,
        own=lambda: frozenset({"me"}),
        observe=lambda *_told, **_details: None,
    )
    return takeovers, lane


def one_turn() -> Changelog:
    log = Changelog()
    log.append(left_position=0, sequence=1)
    return log


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


@pytest.mark.parametrize(
    ("kept", "more", "audited"),
    [
        pytest.param(20, 0, False, id="large and kept"),
        pytest.param(20, 5, False, id="large, and a little newer"),
        pytest.param(20, 30, True, id="mostly built now"),
        pytest.param(10, 0, True, id="small"),
        pytest.param(0, 20, True, id="built now"),
    ],
)
def test_a_large_store_that_was_kept_is_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, more: int, *, audited: bool
) -> None:
    monkeypatch.setattr("rebalance.takeover.AUDIT_ROWS_MAX", 10)
    log, paper = Changelog(), Paper()
    for first, count in ((0, kept), (kept, more)):
        if not count:
            continue
        log.write(paper.turn(dict(row(number) for number in range(first, first + count))))
        takeovers, lane = takeover(log, Broker(log, input_end=99), tmp_path / "lane-0")
        ready: list[Lane] = []
        for _ in range(9):
            ready = ready or takeovers.step()
        assert ready == [lane]
        lane.opened.close()
    if not more:
        takeovers, lane = takeover(log, Broker(log, input_end=99), tmp_path / "lane-0")
        for _ in range(9):
            takeovers.step()
        lane.opened.close()
    assert lane.audited is audited


@pytest.mark.parametrize("signal", [Signal.REVOKED, Signal.LOST])
def test_a_store_is_closed_that_was_being_opened_when_its_lane_left(
    tmp_path: Path, signal: Signal
) -> None:
    log, threads = one_turn(), Later()
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0", threads=threads)
    takeovers.step()
    assert (lane.phase, lane.store) == (Phase.ASSIGNED, None), "nothing waits for the disk"
    takeovers.forget(lane)
    lane.signal(signal)
    close = lane.closer()
    assert close is not None, "the thread is about to open it"
    threads.work()
    with pytest.raises(StoreLocked):
        LaneStore.open(lane.directory, takeovers.resources)
    close()
    LaneStore.open(lane.directory, takeovers.resources).close()


def test_a_store_is_opened_once_where_the_lane_starts_over_meanwhile(tmp_path: Path) -> None:
    log, threads = one_turn(), Later()
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0", threads=threads)
    takeovers.step()
    takeovers.restart(lane, Signal.RENEWED)
    takeovers.step()
    threads.work()
    takeovers.step()
    assert lane.phase is not Phase.ASSIGNED
    lane.opened.close()


def test_a_store_is_not_opened_before_its_former_self_is_closed(tmp_path: Path) -> None:
    log, threads = one_turn(), Later()
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0", threads=threads)
    lane.closing = Future()
    takeovers.step()
    threads.work()
    assert not lane.directory.exists()
    lane.closing.set_result(None)
    takeovers.step()
    threads.work()
    takeovers.step()
    assert lane.phase is not Phase.ASSIGNED
    lane.opened.close()


def test_a_store_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    directory = tmp_path / "lane-0"
    directory.mkdir()
    (directory / "CURRENT").write_text("nothing of ours")
    log = one_turn()
    told: list[str] = []
    takeovers, lane = takeover(log, Broker(log), directory)

    def observe(lane: Lane, event: str, **_details: object) -> None:
        told.append(event)

    takeovers.observe = observe
    step_to(takeovers, lane, Phase.FENCING)
    assert told[:2] == ["wipe", "restore"]
    lane.opened.close()


def test_a_lane_is_not_claimed_while_its_tail_is_being_ended(tmp_path: Path) -> None:
    """The thread may not see a turn of our own next producer in it."""
    log, threads = one_turn(), Later()
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0", threads=threads)
    takeovers.step()
    threads.work()
    held: Future[None] = Future()
    lane.ending = held
    for _ in range(9):
        takeovers.step()
        threads.work()
    assert lane.phase is Phase.RESTORING
    takeovers.restart(lane, Signal.RENEWED)
    takeovers.step()
    assert lane.ending is held, "one is enough"
    held.set_result(None)
    ready: list[Lane] = []
    for _ in range(9):
        ready = ready or takeovers.step()
        threads.work()
    assert ready == [lane]
    lane.opened.close()


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_store_that_was_made_anew_is_read_whatever_came_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, rebuilt: bool
) -> None:
    audits: list[LaneStore] = []

    def audit(store: LaneStore, *, warm: bool) -> Audit:
        audits.append(store)
        return Audit(store, warm=warm)

    monkeypatch.setattr("rebalance.takeover.Audit", audit)
    log, paper = Changelog(), Paper()
    log.write(paper.turn(dict(row(number) for number in range(20))))
    broker = Broker(log, input_end=99)
    takeovers, lane = takeover(log, broker, tmp_path / "lane-0", warm_bytes(1, 0))
    lane.rebuilt = rebuilt
    ready: list[Lane] = []
    for _ in range(9):
        ready = ready or takeovers.step()
    assert ready == [lane]
    assert len(audits) == rebuilt
    lane.opened.close()
