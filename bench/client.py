"""The Kafka client alone as rows of the table: what any application in Python must spend."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.systems import Place, Started, job_file

if TYPE_CHECKING:
    from bench.workload import Workload


@dataclass
class _StartedBare(Started):
    def ready(self) -> bool:
        """It has said so."""
        return "ready" in self.logs[0].read_text()


@dataclass(frozen=True)
class Bare:
    """The Kafka client alone, with decoding and one produce."""

    name: str = "the client alone: consume, decode, produce one"

    def expected(self, workload: Workload) -> int:
        """Every record."""
        return workload.records

    def found(self, _workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """Every record."""
        return len(output)

    def start(self, place: Place) -> Started:
        """Start it."""
        started = _StartedBare()
        started.launch(
            [sys.executable, "-m", "bench.bare", str(job_file(place))],
            place.directory / f"{place.name}.log",
        )
        return started
