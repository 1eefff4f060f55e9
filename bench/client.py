"""The Kafka client alone as rows of the table: what any application in Python must spend."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.bare import Work
from bench.systems import Place, Started, job_file

if TYPE_CHECKING:
    from bench.workload import Workload

_DOES = {
    Work.CONSUME: "consume",
    Work.DECODE: "consume, decode",
    Work.PRODUCE: "consume, decode, produce one in transactions",
}


@dataclass
class _StartedClient(Started):
    def ready(self) -> bool:
        """It has said so."""
        return "ready" in self.logs[0].read_text()


@dataclass(frozen=True)
class Client:
    """The Kafka client with nothing behind it, doing so much of what a join must do."""

    work: Work
    part: float = 1.0

    @property
    def name(self) -> str:
        """As in the table."""
        return f"the client alone: {_DOES[self.work]}"

    def expected(self, workload: Workload) -> int:
        """Every record, if it writes any."""
        return workload.warm_up + workload.records if self.work is Work.PRODUCE else 0

    def found(self, _workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """Every record."""
        return sum(key.startswith(b"key-") for key, _ in output)

    def start(self, place: Place) -> Started:
        """Start it."""
        started = _StartedClient()
        started.launch(
            [sys.executable, "-m", "bench.bare", str(job_file(place)), self.work],
            place.directory / f"{place.name}.log",
        )
        return started
