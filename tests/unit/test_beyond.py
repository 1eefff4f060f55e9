"""A position that an input is said not to have: gone for good, or not there yet."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import app.beyond
from app.beyond import Beyond
from app.errors import UsageError
from rebalance.lanes import DOUBTED_MS, Extent
from schemas.records import Side
from tests.unit.test_process import running

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = Side.RIGHT, 0
POSITION = 17
DOUBTED_S = DOUBTED_MS / 1000


class Job:
    """A worker with one lane whose right side was refused by the broker that it reads from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(app.beyond, "time", clock)
        self.extent = Extent(0, POSITION)
        self.looks = 0
        self.flows: list[tuple[Side, int, int]] = []
        self.threads = self.authority = self.inputs = self
        self.running = {0: running()}
        self.running[0].expected[Side.RIGHT] = POSITION
        self.config = SimpleNamespace(side=lambda side: SimpleNamespace(topic=side.name.lower()))
        self.out_of_range = {PLACE: "Offset out of range"}
        self.beyond = Beyond(cast("Any", self))

    def submit(self, question: Callable[..., Any], *about: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(question(*about))
        return answer

    def look_again(self) -> None:
        self.looks += 1

    def inputs_of(self, _lane: int) -> tuple[Extent, Extent]:
        return Extent(0, 0), self.extent

    def flow(self, side: Side, lane: int, position: int) -> None:
        self.out_of_range.pop((side, lane), None)
        self.flows.append((side, lane, position))

    def steps(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            self.beyond.step()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job(monkeypatch)
    made.authority = cast("Any", SimpleNamespace(look_again=made.look_again, inputs=made.inputs_of))
    return made


def test_nothing_is_asked_where_nothing_was_refused(job: Job) -> None:
    job.out_of_range.clear()
    job.steps(10)
    assert job.looks == 0


def test_a_position_that_is_there_after_all_is_sought(job: Job) -> None:
    job.steps(0.5)
    assert job.flows == [(*PLACE, POSITION)]
    assert job.looks == 1, "whoever refused may not be whom to ask"
    job.steps(10)
    assert job.flows == [(*PLACE, POSITION)]


def test_a_beginning_past_the_position_stops_at_once(job: Job) -> None:
    job.extent = Extent(POSITION + 1, 90)
    with pytest.raises(UsageError, match="right partition 0 no longer holds the position"):
        job.steps(0.5)


def test_an_end_before_the_position_stops_if_it_stays(job: Job) -> None:
    job.extent = Extent(0, POSITION - 1)
    job.steps(DOUBTED_S)
    with pytest.raises(UsageError, match=r"Offset out of range.*spanjoin reset"):
        job.steps(1)
    assert job.flows == []


def test_an_end_before_the_position_that_passes_stops_nothing(job: Job) -> None:
    job.extent = Extent(0, POSITION - 1)
    job.steps(DOUBTED_S - 1)
    job.extent = Extent(0, POSITION + 1)
    job.steps(0.5)
    assert job.flows == [(*PLACE, POSITION)]
    # What happens an hour later is another matter.
    job.out_of_range[PLACE] = "again"
    job.extent = Extent(0, POSITION - 1)
    job.now += 3600
    job.steps(DOUBTED_S - 1)
    assert job.flows == [(*PLACE, POSITION)]


def test_what_was_sought_for_another_reason_is_doubted_anew(job: Job) -> None:
    """As after a rebalance: a second time of old news, later, is not the first one going on."""
    job.extent = Extent(0, POSITION - 1)
    job.steps(1)
    job.flow(*PLACE, POSITION)
    job.steps(3600)
    job.out_of_range[PLACE] = "again"
    job.steps(DOUBTED_S - 1)
    with pytest.raises(UsageError):
        job.steps(2)


def test_an_answer_of_before_is_not_one_of_now(job: Job) -> None:
    answer: Future[Any] = Future()
    job.submit = lambda *_: answer  # type: ignore[method-assign]
    job.steps(1)
    job.flow(*PLACE, POSITION)
    job.steps(1)
    answer.set_result((Extent(0, 0), Extent(POSITION + 1, 90)))
    del job.submit
    job.out_of_range[PLACE] = "again"
    job.steps(1)
    assert job.looks == 1


@pytest.mark.parametrize("held", [True, False])
def test_a_side_that_is_to_rest_is_left_alone(job: Job, *, held: bool) -> None:
    flag = job.running[0].held if held else job.running[0].unread
    flag[Side.RIGHT] = True
    job.steps(1)
    assert (job.flows, job.out_of_range) == ([], {})


def test_a_lane_that_was_taken_over_meanwhile_is_not_judged(job: Job) -> None:
    job.extent = Extent(POSITION + 1, 90)
    job.beyond.step()
    job.running[0] = running()
    job.steps(1)
    assert (job.flows, job.out_of_range) == ([], {})


def test_a_lane_that_left_is_forgotten(job: Job) -> None:
    job.running.clear()
    job.steps(1)
    assert (job.looks, job.out_of_range) == (0, {})
