"""What a measured system is: where it runs, its processes, and how its results are counted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from bench.procfs import cpu_seconds
from bench.workload import LATENESS_MS, MAX_INTERVAL_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.workload import Workload

STOP_WITHIN_S: Final = 15.0


@dataclass(frozen=True)
class Place:
    """Where one run takes place: a name of its own for group and topics, a directory."""

    name: str
    directory: Path
    bootstrap_servers: str
    lanes: int
    lateness_ms: int = LATENESS_MS

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

    @property
    def part(self) -> float:
        """How much of the workload it is given; less than 1 for one that is very slow."""

    def expected(self, workload: Workload) -> int:
        """How many records it must write."""

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """How many of them it wrote, each counted once."""

    def start(self, place: Place) -> Started:
        """Start its processes; they find an input that nobody can read yet."""


class Mark(NamedTuple):
    """A moment of a run."""

    monotonic_s: float
    cpu_s: float
    """Processor time of all its processes until then."""


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

    def fire(self, let_go: Callable[[], None]) -> Mark:
        """Make the input visible; returns how things were at that moment."""
        mark = self.mark()
        let_go()
        return mark

    def mark(self) -> Mark:
        """The time, and what it has used until now."""
        return Mark(time.monotonic(), cpu_seconds(self.pids))

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
        f"[join]\nallowed_lateness = {place.lateness_ms}\nmax_interval = {MAX_INTERVAL_MS}\n"
    )
    return path


def distinct_matches(workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
    """How many of the expected matches are there. Raises for one twice, and for one too many."""
    keys = [key for key, _ in output]
    found = set(keys)
    if len(found) != len(keys):
        raise RuntimeError(f"{len(keys) - len(found)} matches were written twice")
    if surplus := found - workload.matches:
        raise RuntimeError(f"{len(surplus)} matches are none, such as {surplus.pop()!r}")
    return len(found)
