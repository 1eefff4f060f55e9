"""How the cost of a record grows: join and store without Kafka, each point in its own process.

Usage: python -m bench curves [--rounds N] [--size SHARE] [--only PART ...] [--no-write]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from bench import report as common
from bench.curves import report
from bench.curves.table import CURVES, EXPIRY, Curve
from bench.targets import Target
from bench.targets import table as targets_table

if TYPE_CHECKING:
    from bench.curves.events import Setting

PART: Final = "make bench ARGS=curves"
PICTURES: Final = common.RESULTS.parent / "pictures"


def main(given: list[str]) -> None:
    """The command; `given` are its arguments."""
    arguments = _arguments(given)
    texts, targets = [], []
    for curve in CURVES:
        if arguments.only and not any(part in curve.file for part in arguments.only):
            continue
        points = _rounds(curve, arguments.rounds, arguments.size)
        texts.append(report.section(curve, points))
        if curve.bound is not None:
            cost = report.costs_of(curve, points)[0]
            grown = cost[-1][1] / cost[0][1]
            targets.append(Target(f"{curve.title}: cost", grown, curve.bound, at_least=False))
        _save(curve.file, report.picture(curve, points), arguments)
    if not arguments.only or "expiry" in arguments.only:
        turns = [
            turn
            for _ in range(arguments.rounds)
            for turn in _measure(_sized(EXPIRY, arguments.size))["turns"]
        ]
        texts.append(report.expiry_section(turns))
        _save("expiry", report.expiry_picture(turns[: len(turns) // arguments.rounds]), arguments)
    text = "\n\n".join([*texts, targets_table(targets)])
    print(f"\n{text}")
    if not arguments.no_write:
        command = common.command(["curves", *given])
        common.write(f"{_setting(arguments, command)}\n{text}", PART)


def _rounds(curve: Curve, rounds: int, size: float) -> report.Points:
    """All points in turn, so many times."""
    found: report.Points = defaultdict(list)
    for number in range(rounds):
        for name, line in curve.lines.items():
            for x, setting in line.items():
                point = _measure(_sized(setting, size))
                found[name, x].append(point)
                print(
                    f"round {number + 1}: {curve.title} {name} {x:,g}: {point['us']:.2f} us a "
                    f"record, {point['matches']:.2f} matches, {point['rows']:,} rows",
                    flush=True,
                )
    return found


def _sized(setting: Setting, size: float) -> Setting:
    return replace(setting, records=int(setting.records * size))


def _measure(setting: Setting) -> report.Point:
    done = subprocess.run(
        [sys.executable, "-m", "bench.curves.point", json.dumps(asdict(setting))],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    point: report.Point = json.loads(done.stdout)
    return point


def _save(file: str, picture: str, arguments: argparse.Namespace) -> None:
    if not arguments.no_write:
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / f"{file}.svg").write_text(picture)


def _setting(arguments: argparse.Namespace, command: str) -> str:
    return (
        f"{common.environment()}"
        f"- Join and store without Kafka: what a worker does with a batch from the decoder to "
        f"the store's write, by the same functions. Processor time, RocksDB's threads included; "
        f"each point in a process of its own, {arguments.rounds} rounds, medians; the whiskers are "
        f"the least and the greatest.\n"
        f"- Command: `{command}`\n"
    )


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench curves", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=float, default=1.0, help="share of the records to measure")
    parser.add_argument("--only", action="append", help="only curves with this in their file name")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args(given)
