"""The systems that are measured: how each is started, is ready, and what it writes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from app.broker.process import free_ports
from bench.workload import LATENESS_MS, MAX_INTERVAL_MS

if TYPE_CHECKING:
    from pathlib import Path

    from bench.workload import Workload

HOST: Final = "127.0.0.1"
STOP_WITHIN_S: Final = 15.0


@dataclass(frozen=True)
class Place:
    """Where one run takes place: a name of its own for group and topics, a directory."""

    name: str
    directory: Path
    bootstrap_servers: str
    lanes: int

    @property
    def inputs(self) -> tuple[str, str]:
        """The topics of left and right."""
        return f"{self.name}-left", f"{self.name}-right"

    @property
    def output(self) -> str:
        """The topic of the results."""
        return f"{self.name}-output"


class System(Protocol):
    """One line of the table."""

    @property
    def name(self) -> str:
        """As in the table."""

    def expected(self, workload: Workload) -> int:
        """How many records it must write."""

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """How many of them it wrote, each counted once."""

    def start(self, place: Place) -> Started:
        """Start its processes; they find an input that nobody can read yet."""


@dataclass
class Started:
    """The processes of one run; they end with it."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def ready(self) -> bool:
        """Whether only input is missing now."""
        raise NotImplementedError

    def launch(self, command: list[str], log: Path, environ: dict[str, str] | None = None) -> None:
        """Start one process."""
        with log.open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environ or {})},
                    start_new_session=True,
                )
            )
        self.logs.append(log)

    @property
    def pids(self) -> list[int]:
        """The processes whose time and memory count."""
        return [process.pid for process in self.processes]

    def check(self) -> None:
        """Raise if a process has ended."""
        for process, log in zip(self.processes, self.logs, strict=True):
            if process.poll() is not None:
                raise RuntimeError(f"ended with {process.returncode}: {log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the processes in good order, or by force."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def job_file(place: Place) -> Path:
    """The configuration of a job, all defaults."""
    left, right = place.inputs
    path = place.directory / f"{place.name}.toml"
    path.write_text(
        f'name = "{place.name}"\n'
        f'[kafka]\n"bootstrap.servers" = "{place.bootstrap_servers}"\n'
        f'[left]\ntopic = "{left}"\n[right]\ntopic = "{right}"\n'
        f'[output]\ntopic = "{place.output}"\n'
        f"[join]\nallowed_lateness = {LATENESS_MS}\nmax_interval = {MAX_INTERVAL_MS}\n"
    )
    return path


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

    @property
    def name(self) -> str:
        """As in the table."""
        return f"spanjoin, {self.workers} worker{'s' if self.workers > 1 else ''}"

    def expected(self, workload: Workload) -> int:
        """All matches."""
        return len(workload.matches)

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """The matches found."""
        keys = [key for key, _ in output]
        found = set(keys)
        if len(found) != len(keys):
            raise RuntimeError(f"{len(keys) - len(found)} matches were written twice")
        if surplus := found - workload.matches:
            raise RuntimeError(f"{len(surplus)} matches are none, such as {surplus.pop()!r}")
        return len(found)

    def start(self, place: Place) -> Started:
        """Start the workers."""
        config = job_file(place)
        started = _StartedSpanjoin(ports=free_ports(self.workers), lanes=place.lanes)
        for number, port in enumerate(started.ports):
            started.launch(
                [sys.executable, "-m", "app", "run", "-c", str(config)],
                place.directory / f"{place.name}-{number}.log",
                {
                    "SPANJOIN_STATE__DIR": str(place.directory / f"{place.name}-state-{number}"),
                    "SPANJOIN_HTTP__PORT": str(port),
                },
            )
        return started


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
