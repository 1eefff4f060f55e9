"""The demo's job: loads, joins, kills a worker half-way and starts it again, until all is read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.live import Live

from app.broker.process import free_ports
from app.demo import data, show
from app.demo.follow import MatchLog
from app.demo.processes import Processes, Worker
from app.errors import EXIT_DONE, Crash
from app.kafka.cluster import Cluster

if TYPE_CHECKING:
    import subprocess

    from rich.console import Console

    from app.config import Config

PARTITIONS: Final = 4
"""So that each of the three airports has a lane of its own."""
KILL_AT: Final = 0.5
"""Part of the input that was read when a worker is killed."""
DOWN_S: Final = 3.0
"""How long the killed worker stays away."""
STALLED_S: Final = 60.0
"""Many times what a takeover needs."""
STATUS_EVERY_S: Final = 0.5
LINE_EVERY_S: Final = 5.0


@dataclass
class Killing:
    """The worker that is killed once, and when."""

    worker: Worker
    killed_at: float | None = None
    started: bool = False
    back: bool = False
    """Started again, and it answers: from here on it can be stopped in good order."""


class Job:
    """The running job: its workers and loaders, and what is known of them."""

    def __init__(
        self,
        console: Console,
        config: Config,
        streams: data.Streams,
        processes: Processes,
        workers: int,
    ) -> None:
        """Nothing is started yet; `config` lies in the directory where everything goes."""
        self._console = console
        self._streams = streams
        self.config = config
        self.log_path = config.path.parent / "matches.tsv"
        self.progress = show.Progress(streams.flight_rows + streams.weather_rows)
        self._processes = processes
        ports = free_ports(workers)
        self._workers = [Worker(processes, number, port) for number, port in enumerate(ports, 1)]
        self._killing = Killing(self._workers[-1])
        self._loading: dict[str, subprocess.Popen[bytes]] = {}
        self._asked = 0.0
        self._told = 0.0
        self._moved = time.monotonic()
        self.log: MatchLog | None = None

    def close(self) -> None:
        """Close the log; the processes are ended by whoever made them."""
        if self.log is not None:
            self.log.close()

    def run(self) -> float:
        """Load, join, kill, restart, until all is read; returns the seconds this took."""
        self._processes.run("topics.log", ["topics", "--partitions", str(PARTITIONS)])
        cluster = Cluster(self.config)
        self.log = MatchLog(self.config, PARTITIONS, self.log_path)
        for worker in self._workers:
            worker.start()
        self.progress.began = time.monotonic()
        for side, path in (("left", self._streams.flights), ("right", self._streams.weather)):
            arguments = ["load", str(path), "--side", side, "--key", data.KEY]
            self._loading[f"load-{side}.log"] = self._processes.start(f"load-{side}.log", arguments)
        with Live(
            console=self._console, auto_refresh=False, transient=True,
            get_renderable=lambda: show.live_view(self.progress),
        ) as live:  # fmt: skip
            ended = time.monotonic()
            while self.progress.read < self.progress.total or not self._killing.back:
                self.log.follow()
                self._look()
                live.refresh()
                if self.progress.read < self.progress.total:
                    ended = time.monotonic()
        self._stop()
        self.log.finish(cluster)
        return ended - self.progress.began

    def _look(self) -> None:
        """Ask everybody how it goes, a few times a second."""
        now = time.monotonic()
        if now - self._asked < STATUS_EVERY_S:
            return
        self._asked = now
        assert self.log is not None
        for log, process in self._loading.items():
            self._processes.check(log, process.poll())
        before = self.progress.read
        for worker in self._workers:
            if worker.keep_running():
                self._console.print(f"{worker.name} asked to be started again")
            status = worker.status()
            if status is None:
                self.progress.silent(worker.name)
            else:
                self.progress.heard(worker.name, status)
        self.progress.matched, self.progress.retracted = self.log.inserts, self.log.tombstones
        if self.progress.read > before:
            self._moved = now
        elif now - self._moved > STALLED_S:
            logs = "; ".join(f"{worker.name}: {worker.tail()}" for worker in self._workers)
            raise Crash(f"nothing was read for {STALLED_S:.0f} s; {logs}")
        self._kill_once(now)
        if not self._console.is_terminal and now - self._told > LINE_EVERY_S:
            self._told = now
            self._console.print(show.figures_line(self.progress, now - self.progress.began))

    def _kill_once(self, now: float) -> None:
        killing = self._killing
        if killing.killed_at is None:
            if self.progress.read >= KILL_AT * self.progress.total:
                killing.killed_at = now
                pid = killing.worker.kill()
                share = self.progress.read / self.progress.total
                self._console.print(f"SIGKILL to {killing.worker.name} (pid {pid}) at {share:.0%}")
        elif killing.started:
            killing.back = killing.back or killing.worker.status() is not None
        elif now - killing.killed_at > DOWN_S:
            killing.started = True
            killing.worker.start()
            self._console.print(f"{killing.worker.name} is started again")

    def _stop(self) -> None:
        for worker in self._workers:
            code = worker.stop()
            if code != EXIT_DONE:
                raise Crash(f"{worker.name} ended with {code} after SIGTERM")
