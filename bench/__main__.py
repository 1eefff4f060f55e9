"""The benchmark: systems side by side on one broker, in alternating rounds.

Usage: python -m bench [--records N] [--rounds N] [--only PART ...] [--no-write]
       python -m bench curves|handoff|lanes|latency|restore --help
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.broker import start_broker
from bench import lanes, report, targets
from bench.curves import part as curves
from bench.handoff import latency
from bench.handoff import part as handoff
from bench.restore import part as restore
from bench.rows import SYSTEMS
from bench.runs import Figures, run
from bench.systems import Place, System
from bench.topics import Topics
from bench.workload import AGO_MS, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.workload import Sides


def main() -> None:
    arguments = _arguments()
    systems = [
        system
        for system in SYSTEMS
        if not arguments.only or any(part in system.name for part in arguments.only)
    ]
    workload = _workload(arguments)
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        place = Place("bench", directory, broker.bootstrap_servers, workload.lanes)
        results = _rounds(systems, place, workload, arguments.rounds)
    text = f"{report.table(results)}\n\n### Targets\n\n{targets.table(targets.throughput(results))}"
    print(f"\n{text}")
    if not arguments.no_write:
        command = report.command(arguments.given.split())
        setting = report.setting(workload, arguments.rounds, command)
        report.write(f"{setting}\n{text}")


def _workload(arguments: argparse.Namespace) -> Workload:
    total = arguments.records + arguments.warm_up
    return Workload(
        arguments.records,
        arguments.keys,
        arguments.lanes,
        arguments.warm_up,
        begin_ms=int(time.time() * 1000) - total - AGO_MS,
    )


def _rounds(
    systems: Sequence[System], place: Place, workload: Workload, rounds: int
) -> targets.Results:
    """Every system in turn, so many times."""
    loads: dict[float, tuple[Workload, tuple[Sides, Sides]]] = {}
    for part in {system.part for system in systems}:
        some = replace(workload, records=int(workload.records * part))
        print(f"{some.records:,} records, {len(some.matches):,} matches", flush=True)
        loads[part] = some, some.sent()
    gc.collect()
    gc.freeze()  # Millions of records that stay; no collection needs to look at them.
    topics = Topics(place.bootstrap_servers)
    results: targets.Results = {system.name: [] for system in systems}
    for number in range(rounds):
        for index, system in enumerate(systems):
            name = f"{place.name}-{number}-{index}"
            here = replace(place, name=name, directory=place.directory / name)
            here.directory.mkdir()
            figures = run(system, here, topics, *loads[system.part])
            results[system.name].append(figures)
            print(_line(number + 1, system, figures), flush=True)
    return results


def _line(number: int, system: System, figures: Figures) -> str:
    return (
        f"round {number}: {system.name}: {figures.rate:,.0f} records/s, "
        f"{figures.cpu_per_million:.2f} CPU s per million, "
        f"{figures.peak_mb:.0f} MB, {figures.found:,} of {figures.expected:,}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="on both sides together")
    parser.add_argument("--warm-up", type=int, default=200_000, help="records before those")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="only systems with this in their name")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    arguments = parser.parse_args()
    defaults = vars(parser.parse_args([]))
    arguments.given = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(arguments).items()
        if value != defaults[name] and name not in ("only", "no_write")
    )
    return arguments


if __name__ == "__main__":
    parts = {
        "curves": curves.main,
        "handoff": handoff.main,
        "lanes": lanes.main,
        "latency": latency.main,
        "restore": restore.main,
    }
    if part := parts.get(" ".join(sys.argv[1:2])):
        part(sys.argv[2:])
    else:
        main()
