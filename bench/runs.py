"""One run of one system on the workload: started, warmed up, let go, watched, checked."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.procfs import peak_mb

if TYPE_CHECKING:
    from bench.systems import Place, Started, System
    from bench.topics import Topics
    from bench.workload import Sides, Workload

READY_WITHIN_S: Final = 300.0
SETTLE_S: Final = 1.0
"""Before each gun, so that what came before is not measured."""


@dataclass(frozen=True)
class Figures:
    """What one run came to."""

    records: int
    part: float
    """Of the whole workload."""
    seconds: float
    """From the commit of the input to the last committed position."""
    cpu_seconds: float
    """Of the system's own processes, in that time."""
    peak_mb: float
    expected: int
    """0 for a system that writes no output."""
    found: int

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """Processor seconds for a million records."""
        return self.cpu_seconds / self.records * 1e6


def run(
    system: System,
    place: Place,
    topics: Topics,
    workload: Workload,
    sent: tuple[Sides, Sides],
) -> Figures:
    """Raises RuntimeError for a system that ends, or writes what it should not."""
    topics.create(place.inputs, place.output, place.lanes)
    loads = [
        topics.load(list(zip(place.inputs, sides, strict=True)), place.lanes) for sides in sent
    ]
    started = system.start(place)
    try:
        wait_until_ready(started)
        for ends, let_go in loads:
            time.sleep(SETTLE_S)
            began = started.fire(let_go)
            reached_s = topics.reach(place.name, ends, started.check)
            ended = started.mark()
        peak = peak_mb(started.pids)
    finally:
        started.stop()
    found = system.found(workload, topics.read(place.output))
    topics.delete_like(place.name)
    shutil.rmtree(place.directory)
    return Figures(
        records=workload.records,
        part=system.part,
        seconds=reached_s - began.monotonic_s,
        cpu_seconds=ended.cpu_s - began.cpu_s,
        peak_mb=peak,
        expected=system.expected(workload),
        found=found,
    )


def wait_until_ready(started: Started) -> None:
    """Raises TimeoutError, or RuntimeError for a process that has ended."""
    deadline = time.monotonic() + READY_WITHIN_S
    while not started.ready():
        started.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready in time: {[log.read_text() for log in started.logs]}")
        time.sleep(0.1)
