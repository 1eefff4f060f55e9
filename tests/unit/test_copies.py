"""What becomes of a lane's store when the lane has left, and that no other is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.copies import MEASURE_EVERY_S, SETTLING_S, Copies, due
from tests.unit.executors import Later
from tests.unit.stored import open_store

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

KEPT_S = 100.0


class Worker:
    """The part of a worker that has to do with its copies."""

    def __init__(self, directory: Path, kept_max: int = 9) -> None:
        self.threads = Later()
        self.lanes: dict[int, object] = {}
        self.steps: list[str] = []
        self.copies = Copies(
            directory, self.threads, self.lanes, kept_max, KEPT_S, self.steps.append
        )

    def take(self, lane: int) -> Future[None] | None:
        self.lanes[lane] = object()
        return self.copies.take(lane)

    def leave(self, lane: int, now: float) -> None:
        store = open_store(self.copies.path(lane))
        self.lanes.pop(lane, None)
        self.copies.leave(lane, store.close, now)

    def step(self, now: float, *, joined: bool = True) -> None:
        """A look, what the threads do about it, and a look at that."""
        self.copies.step(now, joined=joined)
        self.threads.work()
        self.copies.step(now, joined=joined)


def lanes_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def make(directory: Path, *lanes: int) -> None:
    for lane in lanes:
        open_store(directory / f"lane-{lane}").close()


@pytest.mark.parametrize(
    ("kept_max", "now", "removed"),
    [(9, 105.0, []), (9, 110.0, [1]), (2, 31.0, [1]), (1, 31.0, [2, 1]), (0, 31.0, [3, 2, 1])],
)
def test_the_newest_are_kept_and_none_for_ever(
    kept_max: int, now: float, removed: list[int]
) -> None:
    assert due({1: 10.0, 2: 20.0, 3: 30.0}, now, kept_max, KEPT_S) == removed


def test_a_copy_goes_after_its_delay(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.take(1)
    worker.leave(1, 10.0)
    worker.step(10.0 + KEPT_S - 1)
    assert lanes_in(tmp_path) == {"lane-1"}
    assert [copy["lane"] for copy in worker.copies.figures(60.0)] == [1]
    worker.step(10.0 + KEPT_S)
    assert lanes_in(tmp_path) == set()
    assert worker.steps == ["stale copy removed"]
    assert worker.copies.figures(60.0) == []


def test_a_lane_that_comes_back_keeps_its_copy(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.leave(1, 10.0)
    closing = worker.take(1)
    assert closing is not None
    assert not closing.done()
    worker.step(1e6)
    assert closing.done()
    assert lanes_in(tmp_path) == {"lane-1"}


def test_a_lane_that_comes_back_too_late_waits_for_the_removal(tmp_path: Path) -> None:
    worker = Worker(tmp_path, kept_max=0)
    worker.leave(1, 10.0)
    worker.threads.work()
    worker.copies.step(11.0, joined=True)
    removing = worker.take(1)
    assert removing is not None
    assert not removing.done()
    worker.threads.work()
    assert removing.done()
    # Only now is it opened; and nothing that comes later is about the old one.
    make(tmp_path, 1)
    worker.step(1e6)
    assert lanes_in(tmp_path) == {"lane-1"}


def test_a_store_that_is_being_closed_is_left_alone(tmp_path: Path) -> None:
    worker = Worker(tmp_path, kept_max=0)
    worker.leave(1, 10.0)
    worker.copies.step(11.0, joined=True)
    assert len(worker.threads.jobs) == 2, "its closing, and a measurement"
    worker.step(12.0)
    worker.step(13.0)
    assert lanes_in(tmp_path) == set()


def test_a_lane_that_was_never_opened_leaves_nothing(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.take(1)
    worker.copies.leave(1, None, 10.0)
    assert worker.copies.stale == {}


def test_what_an_earlier_process_left_is_stale_once_the_group_has_settled(tmp_path: Path) -> None:
    make(tmp_path, 1, 2, 3)
    (tmp_path / "lock").touch()
    (tmp_path / "verify-x").mkdir()
    worker = Worker(tmp_path, kept_max=0)
    worker.step(1e6, joined=False)
    worker.take(1)
    worker.step(1e6)
    worker.take(2)
    worker.step(1e6 + SETTLING_S - 1)
    assert worker.copies.stale == {}
    worker.step(1e6 + SETTLING_S)
    assert lanes_in(tmp_path) == {"lane-1", "lane-2", "lock", "verify-x"}


def test_disk_bytes(tmp_path: Path) -> None:
    make(tmp_path, 1, 2)
    worker = Worker(tmp_path)
    worker.step(MEASURE_EVERY_S)
    assert set(worker.copies.sizes) == {1, 2}
    worker.leave(1, MEASURE_EVERY_S)
    (figures,) = worker.copies.figures(MEASURE_EVERY_S + 1)
    assert figures == {"lane": 1, "disk_bytes": worker.copies.sizes[1], "stale_ms": 1000}


def test_a_lane_that_has_just_come_is_measured_with_the_next_step(tmp_path: Path) -> None:
    make(tmp_path, 1)
    worker = Worker(tmp_path)
    worker.step(MEASURE_EVERY_S)
    worker.step(MEASURE_EVERY_S)
    make(tmp_path, 2)
    worker.step(MEASURE_EVERY_S + 1)
    assert set(worker.copies.sizes) == {1}, "in its own time"
    worker.take(2)
    worker.step(MEASURE_EVERY_S + 1)
    worker.step(MEASURE_EVERY_S + 1)
    assert set(worker.copies.sizes) == {1, 2}
