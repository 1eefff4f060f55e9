"""One worker with few and many lanes, through the broker: a transaction over all of them.

Usage: python -m bench lanes [--records N] [--rounds N] [--lanes N ...] [--no-write]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from app.broker import start_broker
from bench import report
from bench.rows import ONE
from bench.runs import Figures, run
from bench.systems import Place
from bench.targets import Target, table
from bench.topics import Topics
from bench.workload import AGO_MS, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LANES: Final = (1, 4, 16, 64)
KEYS: Final = 10_000
WARM_UP: Final = 100_000
PART: Final = "make bench ARGS=lanes"


def main(given: list[str]) -> None:
    """The command; `given` are its arguments."""
    arguments = _arguments(given)
    found: dict[int, list[Figures]] = {lanes: [] for lanes in arguments.lanes}
    begin_ms = int(time.time() * 1000) - WARM_UP - arguments.records - AGO_MS
    workload = Workload(arguments.records, KEYS, LANES[0], WARM_UP, begin_ms)
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        topics, sent = Topics(broker.bootstrap_servers), workload.sent()
        for number in range(arguments.rounds):
            for lanes, rounds in found.items():
                name = f"lanes-{number}-{lanes}"
                place = Place(name, directory / name, topics.bootstrap_servers, lanes)
                place.directory.mkdir()
                figures = run(ONE, place, topics, workload, sent)
                rounds.append(figures)
                print(
                    f"round {number + 1}: {lanes} lanes: {figures.rate:,.0f} records/s, "
                    f"{figures.cpu_per_million:.2f} CPU s per million, {figures.peak_mb:.0f} MB, "
                    f"{figures.found:,} of {figures.expected:,}",
                    flush=True,
                )
    text = f"{_table(found)}\n\n{table(_targets(found))}"
    print(f"\n{text}")
    if not arguments.no_write:
        setting = report.setting(workload, arguments.rounds, report.command(["lanes", *given]))
        report.write(f"{setting}- Partitions: as in the table.\n\n{text}", PART)


def _table(found: Mapping[int, Sequence[Figures]]) -> str:
    lines = ["| lanes | records/s | CPU s per million | peak MB |", "|---:|---:|---:|---:|"]
    for lanes, rounds in found.items():
        rate = median(one.rate for one in rounds)
        cpu = median(one.cpu_per_million for one in rounds)
        lines.append(
            f"| {lanes} | {rate:,.0f} | {cpu:.1f} | {max(o.peak_mb for o in rounds):.0f} |"
        )
    return "\n".join(lines)


def _targets(found: Mapping[int, Sequence[Figures]]) -> list[Target]:
    few, many = found[min(found)], found[max(found)]
    pairs = list(zip(few, many, strict=True))
    time_grown = median(one.rate / other.rate for one, other in pairs)
    cpu_grown = median(other.cpu_per_million / one.cpu_per_million for one, other in pairs)
    over = f"{max(found)} lanes / {min(found)}"
    return [
        Target(f"{over}: time a record", time_grown, 1.2, at_least=False),
        Target(f"{over}: CPU a record", cpu_grown, 1.2, at_least=False),
    ]


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench lanes", description=__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="on both sides together")
    parser.add_argument("--lanes", type=int, nargs="+", default=LANES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args(given)
