"""The demo from its start to its exit code.

A broker, two streams of a year's data, two workers, one of which is killed half-way; at the end
the whole committed log of matches is compared with what a database says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live

from app.broker import start_broker
from app.broker.process import free_ports
from app.config import Config, load_config
from app.demo import compare, data, show
from app.demo.follow import LOAD_SQL, MatchLog
from app.demo.processes import Processes, Worker, make_directory
from app.errors import EXIT_CRASH, EXIT_DONE, Crash
from app.formats import make_codec
from app.kafka.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from app.broker import Broker

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
CONFIG: Final = Path(__file__).with_name("job.toml")
SAMPLES: Final = 5

_AIRPORT_CLOCK_SQL: Final = (
    "select strftime(timezone('America/New_York', make_timestamptz($ms * 1000)), '%H:%M')"
)


def run_demo(*, workers: int = 2, keep: bool = False) -> int:
    """Run it; returns 0 if the output is exactly the database's answer, else 1.

    `keep` leaves the directory with logs, configuration and the log of matches, and says where.

    Raises:
        SpanjoinError: it could not be run to its end.
    """
    console = Console(highlight=False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_sigterm_as_interrupt())
        directory = make_directory([CONFIG, data.FLIGHT_SCHEMA, data.WEATHER_SCHEMA], "demo")
        if keep:
            console.print(f"everything stays in {directory}")
        else:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker, tables, streams = _prepare(console, directory, stack)
        job = _Job(console, directory, broker, streams, workers)
        stack.callback(job.close)
        seconds = job.run()
        return _judge(console, job, tables, seconds)


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Clean up on SIGTERM just as on Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prepare(
    console: Console, directory: Path, stack: contextlib.ExitStack
) -> tuple[Broker, duckdb.DuckDBPyConnection, data.Streams]:
    """The broker starts while the data are read."""
    with console.status("starting Kafka, reading the data"), ThreadPoolExecutor(1) as helper:
        starting = helper.submit(start_broker, say=console.print)
        try:
            tables = stack.enter_context(data.open_tables())
            streams = data.write_streams(tables, directory)
        finally:
            # Whatever happened to the data: a broker that came up must be stopped again.
            broker = stack.enter_context(starting.result())
    console.print(
        f"Kafka runs at {broker.bootstrap_servers}; {streams.flight_rows:,} flight records, "
        f"{streams.weather_rows:,} hours of weather"
    )
    return broker, tables, streams


@dataclass
class _Killing:
    """The worker that is killed once, and when."""

    worker: Worker
    killed_at: float | None = None
    back: bool = False


class _Job:
    """The running job: its processes, and what is known of them."""

    def __init__(
        self,
        console: Console,
        directory: Path,
        broker: Broker,
        streams: data.Streams,
        workers: int,
    ) -> None:
        environ = {"SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        if not broker.owned:
            # Somebody else's broker may have such topics already.
            environ |= _own_names(uuid.uuid4().hex[:8])
        path = directory / CONFIG.name
        self._console = console
        self._streams = streams
        self.config: Config = load_config(path, {**os.environ, **environ})
        self.log_path = directory / "matches.tsv"
        self.progress = show.Progress(streams.flight_rows + streams.weather_rows)
        self._processes = Processes(path, environ)
        ports = free_ports(workers)
        self._workers = [
            Worker(self._processes, number, port) for number, port in enumerate(ports, 1)
        ]
        self._killing = _Killing(self._workers[-1])
        self._loading: dict[str, Any] = {}
        self._asked = 0.0
        self._told = 0.0
        self._moved = time.monotonic()
        self.log: MatchLog | None = None

    def close(self) -> None:
        """End everything that was started."""
        if self.log is not None:
            self.log.close()
        self._processes.close()

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
            while self.progress.read < self.progress.total or not self._killing.back:
                self.log.follow()
                self._look()
                live.refresh()
        seconds = time.monotonic() - self.progress.began
        self._stop()
        self.log.finish(cluster)
        return seconds

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
            raise Crash(
                f"nothing was read for {STALLED_S:.0f} s; logs are in {self.log_path.parent}"
            )
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
        elif not killing.back and now - killing.killed_at > DOWN_S:
            killing.back = True
            killing.worker.start()
            self._console.print(f"{killing.worker.name} is started again")

    def _stop(self) -> None:
        for worker in self._workers:
            code = worker.stop()
            if code != EXIT_DONE:
                raise Crash(f"{worker.name} ended with {code} after SIGTERM")


def _own_names(suffix: str) -> dict[str, str]:
    names = {"NAME": "flights-weather", "LEFT__TOPIC": "flights", "RIGHT__TOPIC": "weather",
             "OUTPUT__TOPIC": "flights-weather"}  # fmt: skip
    return {f"SPANJOIN_{key}": f"{name}-{suffix}" for key, name in names.items()}


def _judge(console: Console, job: _Job, tables: duckdb.DuckDBPyConnection, seconds: float) -> int:
    assert job.log is not None
    with console.status("DuckDB joins the same data"):
        compare.expect(tables)
        tables.execute(LOAD_SQL, {"path": str(job.log_path)})
        comparison = compare.compare(tables)
    codec = make_codec(job.config)
    console.print("a few of the matches:")
    for value in job.log.samples[:SAMPLES]:
        match = codec.decode_match(value)
        console.print("  " + show.match_line(match, _local_times(tables, match["left"])))
    console.print(show.comparison_view(comparison))
    console.print(
        f"{job.progress.total:,} records joined in {seconds:.1f} s, kill included: "
        f"{job.progress.total / seconds:,.0f} records/s in, "
        f"{job.log.inserts / seconds:,.0f} matches/s out"
    )
    if not comparison.agrees:
        for line in compare.differences(tables):
            console.print(line)
        console.print("[bold red]the output is not what SQL says[/]")
        return EXIT_CRASH
    console.print("[bold green]every match exactly once, none missing, none extra[/]")
    return EXIT_DONE


def _local_times(tables: duckdb.DuckDBPyConnection, flight: dict[str, Any]) -> tuple[str, str]:
    """Departure and arrival by the clock of New York."""
    times = [
        str(tables.execute(_AIRPORT_CLOCK_SQL, {"ms": flight[name]}).fetchall()[0][0])
        for name in ("departure", "arrival")
    ]
    return times[0], times[1]
