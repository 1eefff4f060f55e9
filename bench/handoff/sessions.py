"""One job of one system from its start to its end: under a steady load, or with all it can take."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.handoff import moves, report, steps
from bench.handoff.fleet import Fleet
from bench.handoff.moves import Trial
from bench.handoff.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.handoff.fleet import Kind
    from bench.handoff.moves import Move
    from bench.systems import Place

HISTORY_S: Final = 60
"""As much as is remembered, and some more: the state no longer grows after that."""
WARM_S: Final = 8
"""At full speed, before a move is looked at."""


@dataclass(frozen=True)
class Session:
    """What was seen of one job."""

    moves: list[Move]


def steady(kind: Kind, place: Place, rate: int, say: Callable[[str], None]) -> Session:
    """Two workers under a steady load; others join, end and are killed."""
    fleet = Fleet(kind, place)
    found: list[Move] = []
    with contextlib.closing(fleet), loading(place, rate, HISTORY_S * rate):
        fleet.start()
        fleet.start()
        with Watch(place.bootstrap_servers, place.output, place.lanes) as watch:
            trial = Trial(fleet, watch, lambda: moves.keeping_up(watch))
            trial.settle()
            for move in (
                trial.join,
                trial.leave,
                trial.join,
                trial.kill,
                lambda: trial.join(victim=True),
                trial.kill_in_transaction,
            ):
                found.append(move())
                say(report.line(found[-1]))
    say(steps.breakdown(fleet.logs))
    return Session(found)


def saturated(
    kind: Kind, place: Place, rate: int, events: int, say: Callable[[str], None]
) -> Session:
    """Three workers with more input than they can take; one ends."""
    fleet = Fleet(kind, place)
    with contextlib.closing(fleet), loading(place, rate, events, "burst"):
        for _ in range(3):
            fleet.start()
        with Watch(place.bootstrap_servers, place.output, place.lanes) as watch:
            trial = Trial(fleet, watch, lambda: moves.going_on(watch))
            trial.settle()
            time.sleep(WARM_S)
            move = trial.leave()
            say(report.line(move))
    say(steps.breakdown(fleet.logs))
    return Session([move])


@contextlib.contextmanager
def loading(place: Place, rate: int, history: int, *extra: str) -> Iterator[None]:
    """A load that has sent its history, and goes on until this is left, unless it is a burst."""
    left, right = place.inputs
    numbers = [str(place.lanes), str(rate), str(history)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "bench.handoff.load", place.bootstrap_servers),
            *(left, right, *numbers, *extra),
        ],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None, "its output is a pipe"
    try:
        if not process.stdout.readline():
            raise RuntimeError("the load ended by itself")
        yield
    finally:
        process.terminate()
        process.wait()
