"""How soon a large state is there again, and what it takes in memory, on disk and in Kafka.

Usage: python -m bench restore [--rows N] [--rounds N] [--no-write]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.broker import start_broker
from bench import report as common
from bench.kafka_streams import topic_sizes
from bench.procfs import peak_mb
from bench.restore import report
from bench.restore.kinds import KafkaStreams, Kind, Spanjoin
from bench.runs import wait_until_ready
from bench.systems import Place
from bench.targets import table as targets_table
from bench.topics import Topics
from bench.workload import AGO_MS, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.systems import Started

KINDS: Final[tuple[Kind, ...]] = (Spanjoin(), KafkaStreams())
PART: Final = "make bench ARGS=restore"
ROWS_PER_KEY: Final = 5
SETTLE_S: Final = 3.0


def main(given: list[str]) -> None:
    """The command; `given` are its arguments."""
    arguments = _arguments(given)
    rows: int = arguments.rows
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        topics = Topics(broker.bootstrap_servers)
        workload = Workload(
            rows,
            keys=max(rows // ROWS_PER_KEY, 1),
            lanes=arguments.lanes,
            begin_ms=int(time.time() * 1000) - rows - AGO_MS,
        )
        places = [
            Place(f"held-{number}", directory / f"held-{number}", topics.bootstrap_servers,
                  workload.lanes, lateness_ms=2 * rows)
            for number in range(len(KINDS))
        ]  # fmt: skip
        figures: list[report.Figures] = []
        for kind, place in zip(KINDS, places, strict=True):
            place.directory.mkdir()
            figures.append(_fill(kind, place, topics, workload))
        for number in range(arguments.rounds):
            for kind, place, found in zip(KINDS, places, figures, strict=True):
                print(f"round {number + 1}: {kind.name}", flush=True)
                _restarts(kind, place, found)
    text = f"{report.table(KINDS, figures, rows)}\n\n{targets_table(report.targets(figures, rows))}"
    print(f"\n{text}")
    if not arguments.no_write:
        command = common.command(["restore", *given])
        common.write(f"{_setting(arguments, command)}\n{text}", PART)


def _fill(kind: Kind, place: Place, topics: Topics, workload: Workload) -> report.Figures:
    """Have it take every row, then end it; all rows stay live."""
    print(f"filling {kind.name} with {workload.records:,} rows", flush=True)
    topics.create(place.inputs, place.output, place.lanes)
    _, sides = workload.sent()
    ends, let_go = topics.load(list(zip(place.inputs, sides, strict=True)), place.lanes)
    started = kind.start(place)
    try:
        wait_until_ready(started)
        began = started.fire(let_go)
        reached_s = topics.reach(place.name, ends, started.check)
        time.sleep(SETTLE_S)
        peak = peak_mb(started.pids)
    finally:
        started.stop()
    sizes = topic_sizes(place.bootstrap_servers)
    return report.Figures(
        fill_s=reached_s - began.monotonic_s,
        fill_peak_mb=peak,
        disk_bytes=sum(map(_size, _states(place))),
        changelog_bytes=sum(
            size
            for topic, size in sizes.items()
            if topic.startswith(place.name) and topic.endswith("-changelog")
        ),
    )


def _restarts(kind: Kind, place: Place, figures: report.Figures) -> None:
    """With an empty disk, then twice with its own: after an end in order, and after a kill."""
    for state in _states(place):
        shutil.rmtree(state)
    with _running(kind, place) as started:
        figures.cold_s.append(kind.restored(started.logs[0]))
        figures.cold_peak_mb.append(peak_mb(started.pids))
    with _running(kind, place) as started:
        figures.warm_s.append(kind.held(started.logs[0]))
        for process in started.processes:
            process.send_signal(signal.SIGKILL)
    with _running(kind, place) as started:
        figures.killed_s.append(kind.held(started.logs[0]))


@contextlib.contextmanager
def _running(kind: Kind, place: Place) -> Iterator[Started]:
    started = kind.start(place)
    try:
        wait_until_ready(started)
        yield started
    finally:
        started.stop()


def _states(place: Place) -> list[Path]:
    return [path for path in place.directory.glob("*state*") if path.is_dir()]


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _setting(arguments: argparse.Namespace, command: str) -> str:
    return (
        f"{common.environment()}"
        f"- State: {arguments.rows:,} live rows of about 96 bytes, {ROWS_PER_KEY} a key, "
        f"{arguments.lanes} partitions; one worker, one thread. {arguments.rounds} rounds of "
        f"restarts, the systems in turn in each; medians.\n"
        f"- Command: `{command}`\n"
    )


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench restore", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="live rows of both sides")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args(given)
