"""The project itself as a row of the table: one process a worker."""

from __future__ import annotations

import http.client
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.broker.process import free_ports
from bench.systems import Place, Started, distinct_matches, job_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.workload import Workload

HOST: Final = "127.0.0.1"


@dataclass
class _StartedSpanjoin(Started):
    ports: list[int] = field(default_factory=list)
    lanes: int = 0

    def ready(self) -> bool:
        """Every lane runs, and every worker has its share."""
        running = [_running_lanes(port) for port in self.ports]
        fair = self.lanes // len(self.ports)
        return sum(running) == self.lanes and min(running) >= fair


def _running_lanes(port: int) -> int:
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", "/status")
        status = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0
    finally:
        connection.close()
    return sum(lane["phase"] == "running" for lane in status["lanes"])


@dataclass(frozen=True)
class Spanjoin:
    """The project itself, with so many workers."""

    workers: int
    part: float = 1.0

    @property
    def name(self) -> str:
        """As in the table."""
        return f"spanjoin, {self.workers} worker{'s' if self.workers > 1 else ''}"

    def expected(self, workload: Workload) -> int:
        """All matches."""
        return len(workload.matches)

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """The matches found."""
        return distinct_matches(workload, output)

    def start(self, place: Place, environ: Mapping[str, str] | None = None) -> Started:
        """Start the workers; `environ` may change the configuration."""
        config = job_file(place)
        started = _StartedSpanjoin(ports=free_ports(self.workers), lanes=place.lanes)
        for number, port in enumerate(started.ports):
            started.launch(
                [sys.executable, "-m", "app", "run", "-c", str(config)],
                place.directory / f"{place.name}-{number}.log",
                {
                    **(environ or {}),
                    "SPANJOIN_STATE__DIR": str(place.directory / f"{place.name}-state-{number}"),
                    "SPANJOIN_HTTP__PORT": str(port),
                },
            )
        return started
