"""One run of one system on the workload: started, let go, watched, checked."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.procfs import cpu_seconds, peak_mb

if TYPE_CHECKING:
    from bench.systems import Place, Started, System
    from bench.topics import Topics
    from bench.workload import Sent, Workload

READY_WITHIN_S: Final = 300.0
SETTLE_S: Final = 1.0
"""Between being ready and the gun, so that what a start leaves behind is not measured."""


@dataclass(frozen=True)
class Figures:
    """What one run came to."""

    seconds: float
    """From the commit of the input to the last committed position."""
    cpu_seconds: float
    """Of the system's own processes, in that time."""
    peak_mb: float
    expected: int
    found: int


def run(
    system: System,
    place: Place,
    topics: Topics,
    workload: Workload,
    sent: tuple[list[Sent], list[Sent]],
) -> Figures:
    """Raises RuntimeError for a system that ends, or writes what it should not."""
    topics.create(place.inputs, place.output, place.lanes)
    let_go = topics.load(list(zip(place.inputs, sent, strict=True)))
    ends = topics.ends(place.inputs, place.lanes)
    started = system.start(place)
    try:
        _wait_until_ready(started)
        cpu_before, began = cpu_seconds(started.pids), time.monotonic()
        let_go()
        ended = topics.reach(place.name, ends, started.check)
        cpu_after, peak = cpu_seconds(started.pids), peak_mb(started.pids)
    finally:
        started.stop()
    found = system.found(workload, topics.read(place.output))
    topics.delete_like(place.name)
    shutil.rmtree(place.directory)
    return Figures(
        seconds=ended - began,
        cpu_seconds=cpu_after - cpu_before,
        peak_mb=peak,
        expected=system.expected(workload),
        found=found,
    )


def _wait_until_ready(started: Started) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not started.ready():
        started.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready in time: {[log.read_text() for log in started.logs]}")
        time.sleep(0.1)
    time.sleep(SETTLE_S)
