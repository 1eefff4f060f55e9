"""The demo from its start to its exit code.

A broker, two streams of a year's data, two workers, one of which is killed half-way; at the end
the whole committed log of matches is compared with what a database says.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from app.broker import start_broker
from app.comparison import compare, differences
from app.config import load_config
from app.demo import data, show
from app.demo.compare import expect
from app.demo.follow import LOAD_SQL
from app.demo.job import Job
from app.demo.processes import Processes, make_directory
from app.errors import EXIT_CRASH, EXIT_DONE
from app.formats import make_codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from app.broker import Broker

CONFIG: Final = Path(__file__).with_name("job.toml")
SAMPLES: Final = 5

_AIRPORT_CLOCK_SQL: Final = (
    "select strftime(timezone('America/New_York', make_timestamptz($ms * 1000)), '%H:%M')"
)


def run_demo(*, workers: int = 2, keep: bool = False, days: int | None = None) -> int:
    """Run it; returns 0 if the output is exactly the database's answer, else 1.

    `days` takes the year's first days only, for a quick look.
    `keep` leaves the directory with logs, configuration and the log of matches, and says where.

    Raises:
        SpanjoinError: it could not be run to its end.
    """
    console = Console(highlight=False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_sigterm_as_interrupt())
        directory = make_directory([CONFIG, data.FLIGHT_SCHEMA, data.WEATHER_SCHEMA], "demo")
        path = directory / CONFIG.name
        if keep:
            console.print(f"everything stays in {directory}")
        else:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker, tables, streams = _prepare(console, directory, days, stack)
        environ = _environment(broker)
        processes = Processes(path, environ, keep=keep)
        stack.callback(processes.close)
        job = Job(console, load_config(path, environ), streams, processes, workers)
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
    console: Console, directory: Path, days: int | None, stack: contextlib.ExitStack
) -> tuple[Broker, duckdb.DuckDBPyConnection, data.Streams]:
    """The broker starts while the data are read."""
    with console.status("starting Kafka, reading the data"), ThreadPoolExecutor(1) as helper:
        starting = helper.submit(start_broker, say=console.print)
        try:
            tables = stack.enter_context(data.open_tables(days))
            streams = data.write_streams(tables, directory)
        finally:
            # Whatever happened to the data: a broker that came up must be stopped again.
            broker = stack.enter_context(starting.result())
    console.print(
        f"Kafka runs at {broker.bootstrap_servers}; {streams.flight_rows:,} flight records, "
        f"{streams.weather_rows:,} hours of weather"
    )
    return broker, tables, streams


def _environment(broker: Broker) -> dict[str, str]:
    """What makes the job's configuration fit this broker."""
    environ = {"SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    if broker.owned:
        return environ
    # Somebody else's broker may have such topics already.
    suffix = uuid.uuid4().hex[:8]
    names = {
        "NAME": "flights-weather",
        "LEFT__TOPIC": "flights",
        "RIGHT__TOPIC": "weather",
        "OUTPUT__TOPIC": "flights-weather",
    }
    return environ | {f"SPANJOIN_{key}": f"{name}-{suffix}" for key, name in names.items()}


def _judge(console: Console, job: Job, tables: duckdb.DuckDBPyConnection, seconds: float) -> int:
    assert job.log is not None
    with console.status("DuckDB joins the same data"):
        expected = expect(tables)
        tables.execute(LOAD_SQL, {"path": str(job.log_path)})
        comparison = compare(tables)
    counts = "select (select count(*) from flights where flown), (select count(*) from weather)"
    flown, hours = tables.execute(counts).fetchall()[0]
    console.print(f"DuckDB: {flown:,} flown flights x {hours:,} hours = {expected:,} matches")
    codec = make_codec(job.config)
    console.print("a few of the matches:")
    for value in job.log.samples[:SAMPLES]:
        match = codec.decode_match(value)
        console.print("  " + show.match_line(match, _local_times(tables, match["left"])))
    console.print(show.comparison_view(comparison))
    console.print(
        f"{job.progress.total:,} records joined in {seconds:.1f} s, kill included: "
        f"{job.progress.total / seconds:,.0f} records/s in, "
        f"{job.log.inserts / seconds:,.0f} matches/s out",
        soft_wrap=True,
    )
    if not comparison.agrees:
        for fault, match in differences(tables):
            console.print(f"{fault}: {match}")
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
