"""Schedules by hand, of failures that meet: in a transaction, beside a turn that is joined ahead.

Each is run with a few seeds, which choose at which passage it begins, what is in the inputs and how
long everything takes. Worker 0 is struck first; most often worker 1 takes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import app.worker
from app.process import resumed
from schemas.records import JoinType
from tests.simulation.options import Blow, Options
from tests.simulation.simulation import simulate

if TYPE_CHECKING:
    from app.join import LaneState
    from app.process import Running

SEEDS: Final = 6
TRACE_LINES: Final = 60

SCHEDULES: Final[dict[str, tuple[Blow, ...]]] = {
    "fenced while it joins ahead": (Blow(0, "turn.begun", "bump"), Blow(0, "join", "fence")),
    "fenced twice, in two turns in a row": (
        Blow(0, "turn.flushed", "fence"), Blow(0, "turn.logged", "fence"),
    ),
    "expelled while it joins ahead": (Blow(0, "turn.begun", "expel"),),
    "expelled and back before the transaction ends": (
        Blow(0, "turn.begun", "expel"), Blow(0, "turn.logged", "nap"),
    ),
    "nobody learns of a commit beside which a turn was joined": (Blow(0, "turn.offsets", "lose"),),
    "nobody learns of a commit, and of the next claim": (
        Blow(0, "turn.offsets", "lose"), Blow(0, "claim.offsets", "lose"),
    ),
    "killed with a turn committed, not stored, and one joined ahead": (
        Blow(0, "turn.committed", "crash"),
    ),
    "asleep in a commit with a turn joined ahead; both owners killed after": (
        Blow(0, "turn.offsets", "sleep"), Blow(1, "claim.committed", "crash"),
    ),
    "asleep longer than its transaction may be open, then expelled": (
        Blow(0, "turn.logged", "long sleep"), Blow(0, "renewed", "expel"),
    ),
    "asleep where it joins; the next owner sleeps in its claim": (
        Blow(0, "join", "sleep"), Blow(1, "claim.offsets", "sleep"),
    ),
    "two claimants, each asleep in its claim": (
        Blow(0, "join", "expel"), Blow(1, "claim.logged", "sleep"),
        Blow(0, "claim.logged", "sleep"),
    ),
    "a release that fails beside a turn joined ahead": (
        Blow(0, "turn.offsets", "stop"), Blow(0, "release.logged", "fence"),
    ),
    "a release that nobody learns of; the next owner is killed": (
        Blow(0, "turn.stored", "stop"), Blow(0, "release.offsets", "lose"),
        Blow(1, "fenced", "crash"),
    ),
    "the broker goes while a turn is joined ahead, and again in the renewal": (
        Blow(0, "join", "away"), Blow(0, "renewed", "away"),
    ),
    "the broker goes in a commit, and the worker is killed when it is back": (
        Blow(0, "turn.offsets", "away"), Blow(0, "fenced", "crash"),
    ),
    "a renewal in a renewal": (
        Blow(0, "turn.logged", "fence"), Blow(0, "claim.logged", "fence"),
        Blow(0, "claim.logged", "fence"),
    ),
    "a disk that is full after a turn was joined ahead": (
        Blow(0, "turn.committed", "full"), Blow(1, "restore", "nap"),
    ),
    "a side goes deaf beside a turn joined ahead": (
        Blow(0, "join", "deaf"), Blow(0, "turn.offsets", "bump"),
    ),
    "the reader of the changelog goes deaf in a takeover": (
        Blow(0, "turn.logged", "expel"), Blow(1, "restore", "deaf for good"),
    ),
    "a lane comes, and all that is said of it is old": (
        Blow(0, "turn.stored", "remember"), Blow(0, "turn.stored", "expel"),
        Blow(1, "assigned", "cut off"),
    ),
    "a lane comes, and its changelog is old": (
        Blow(0, "turn.stored", "remember logs"), Blow(0, "turn.stored", "expel"),
        Blow(1, "assigned", "cut off"),
    ),
    "old news after a fence, in a renewal over a newer store": (
        Blow(0, "turn.begun", "remember logs"), Blow(0, "turn.stored", "fence"),
        Blow(0, "turn.logged", "fence"), Blow(0, "renewed", "cut off"),
    ),
    "old news of inputs that were read further": (
        Blow(0, "turn.begun", "remember logs"), Blow(0, "turn.stored", "nap"),
        Blow(0, "turn.stored", "cut off"), Blow(0, "turn.begun", "bump"),
    ),
    "old news of a tail that was cut": (
        Blow(0, "consume ", "bump"), Blow(0, "claim.logged", "remember logs"),
        Blow(0, "turn.stored", "nap"), Blow(0, "turn.stored", "nap"),
        Blow(0, "turn.logged", "fence"), Blow(0, "renewed", "cut off"),
        Blow(0, "consume -tail", "away"),
    ),
    "the reader goes deaf once a lane is fenced, and the other worker is stopped": (
        Blow(0, "turn.offsets", "stop"), Blow(1, "fence", "deaf for good"),
    ),
}  # fmt: skip


def play(seed: int, schedule: tuple[Blow, ...], *, workers: int = 2, lanes: int = 2) -> str | None:
    """What went wrong, with the end of the trace."""

    def change(options: Options) -> None:
        options.schedule = schedule
        options.workers, options.lanes, options.events = workers, lanes, 22
        options.faults, options.trouble_s = (), 10.0
        options.late_end = options.lose_end = options.lose_request = options.lose_answer = 0.0
        # An outer join does not join ahead.
        options.join = JoinType.INNER if seed % 3 else options.join

    outcome = simulate(seed, change)
    if outcome.failure is None:
        return None
    trace = "\n".join(outcome.trace[-TRACE_LINES:])
    return f"seed {seed}: {outcome.options}\n{trace}\n{outcome.failure!r}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_changes_nothing(name: str) -> None:
    for seed in range(SEEDS):
        failure = play(seed, SCHEDULES[name])
        assert failure is None, failure


def test_memory_is_kept_over_a_claim_that_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_on: list[bool] = []

    def noting(kept: Running | None, *about: Any) -> LaneState:
        state = resumed(kept, *about)
        kept_on.append(kept is not None and state is kept.state)
        return state

    monkeypatch.setattr(app.worker, "resumed", noting)
    failure = play(0, SCHEDULES["a renewal in a renewal"], workers=1, lanes=1)
    assert failure is None, failure
    assert kept_on == [False, True, True, True]
