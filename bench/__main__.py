"""The benchmark: systems side by side on one broker, in alternating rounds.

Usage: python -m bench [--records N] [--rounds N] [--only PART ...] [--no-write]
       python -m bench handoff --help
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import shutil
import sys
import tempfile
from pathlib import Path

from app.broker import start_broker
from bench import report
from bench.client import Bare
from bench.handoff import part as handoff
from bench.runs import Figures, run
from bench.spanjoin import Spanjoin
from bench.streams import FASTEST_GRACE_MS, KafkaStreams
from bench.systems import Place, System
from bench.topics import Topics
from bench.workload import Workload

REFERENCE = Bare()
SYSTEMS: tuple[System, ...] = (
    REFERENCE,
    Spanjoin(1),
    Spanjoin(2),
    KafkaStreams(1),
    KafkaStreams(2),
    KafkaStreams(1, FASTEST_GRACE_MS),
    KafkaStreams(2, FASTEST_GRACE_MS),
)


def main() -> None:
    arguments = _arguments()
    systems = [
        system
        for system in SYSTEMS
        if not arguments.only or any(part in system.name for part in arguments.only)
    ]
    workload = Workload(arguments.records, arguments.keys, arguments.lanes)
    results: report.Results = {system.name: [] for system in systems}
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        topics = Topics(broker.bootstrap_servers)
        print(f"{workload.records:,} records, {len(workload.matches):,} matches", flush=True)
        sent = workload.sent()
        gc.collect()
        gc.freeze()  # Millions of records that stay; no collection needs to look at them.
        for number in range(arguments.rounds):
            for index, system in enumerate(systems):
                name = f"bench-{number}-{index}"
                place = Place(name, directory / name, broker.bootstrap_servers, workload.lanes)
                place.directory.mkdir()
                figures = run(system, place, topics, workload, sent)
                results[system.name].append(figures)
                print(_line(number + 1, system, figures, workload), flush=True)
    reference = REFERENCE.name if REFERENCE.name in results else systems[0].name
    table = report.table(results, workload.records, reference)
    print(f"\n{table}")
    if not arguments.no_write:
        command = "make bench" + (f' ARGS="{arguments.given}"' if arguments.given else "")
        report.write(f"{report.setting(workload, arguments.rounds, command)}\n{table}")


def _line(number: int, system: System, figures: Figures, workload: Workload) -> str:
    return (
        f"round {number}: {system.name}: {workload.records / figures.seconds:,.0f} records/s, "
        f"{figures.cpu_seconds / workload.records * 1e6:.2f} CPU s per million, "
        f"{figures.peak_mb:.0f} MB, {figures.found:,} of {figures.expected:,}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--records", type=int, default=400_000, help="on both sides together")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="only systems with this in their name")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    arguments = parser.parse_args()
    defaults = vars(parser.parse_args([]))
    arguments.given = " ".join(
        f"--{name} {value}"
        for name, value in vars(arguments).items()
        if value != defaults[name] and name not in ("only", "no_write")
    )
    return arguments


if __name__ == "__main__":
    if sys.argv[1:2] == ["handoff"]:
        handoff.main(sys.argv[2:])
    else:
        main()
