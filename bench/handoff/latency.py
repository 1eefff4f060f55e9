"""How soon a result can be read, under a steady load that two workers can well take.

Usage: python -m bench latency [--rate N] [--rounds N] [--warm-up S] [--no-write]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from app.broker import start_broker
from bench import report as common
from bench import targets
from bench.handoff import moves
from bench.handoff.figures import quantile
from bench.handoff.fleet import Fleet, KafkaStreams, Kind, Spanjoin
from bench.handoff.moves import Trial
from bench.handoff.part import placed
from bench.handoff.sessions import loading
from bench.handoff.stamps import now_us
from bench.handoff.watch import Watch
from bench.targets import Target
from bench.topics import Topics

if TYPE_CHECKING:
    from bench.systems import Place

KINDS: Final[tuple[Kind, ...]] = (Spanjoin(), KafkaStreams())
HISTORY_S: Final = 10
SEEN_S: Final = 20
SHARES: Final = (0.5, 0.9, 0.99)
AIMS_MS: Final = {0.5: 30.0, 0.99: 100.0}
PART: Final = "make bench ARGS=latency"

Latencies = dict[str, list[list[float]]]
"""System -> by round, its latencies in milliseconds at each of SHARES."""


def main(given: list[str]) -> None:
    """The command; `given` are its arguments."""
    arguments = _arguments(given)
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.default_int_handler)
    found: Latencies = {kind.name: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        topics = Topics(broker.bootstrap_servers)
        for number in range(arguments.rounds):
            for index, kind in enumerate(KINDS):
                name = f"latency-{number}-{index}"
                with placed(topics, directory, name, arguments.lanes) as place:
                    # The broker's code is compiled while the first of all runs.
                    warm_up_s = arguments.warm_up * (1 if number or index else 2)
                    latencies = session(kind, place, arguments.rate, warm_up_s)
                found[kind.name].append([quantile(latencies, share) for share in SHARES])
                print(f"round {number + 1}: {kind.name}: {_said(found[kind.name][-1])}", flush=True)
    text = f"{_table(found)}\n\n{targets.table(_targets(found))}"
    print(f"\n{text}")
    if not arguments.no_write:
        command = common.command(["latency", *given])
        common.write(f"{_setting(arguments, command)}\n{text}", PART)


def session(kind: Kind, place: Place, rate: int, warm_up_s: float) -> list[float]:
    """For every result of some seconds, the time from sending its later row to its being seen."""
    fleet = Fleet(kind, place)
    with contextlib.closing(fleet), loading(place, rate, HISTORY_S * rate):
        fleet.start()
        fleet.start()
        with Watch(place.bootstrap_servers, place.output, place.lanes) as watch:
            Trial(fleet, watch, lambda: moves.keeping_up(watch)).settle()
            time.sleep(warm_up_s)
            since = now_us()
            time.sleep(SEEN_S)
            return [
                (seen_us - sent_us) / 1000
                for seens, sents in zip(watch.seen_us, watch.sent_us, strict=True)
                for seen_us, sent_us in zip(seens, sents, strict=False)
                if seen_us >= since
            ]


def _said(latencies: list[float]) -> str:
    return ", ".join(
        f"p{share * 100:.0f} {found:.0f} ms" for share, found in zip(SHARES, latencies, strict=True)
    )


def _medians(rounds: list[list[float]]) -> list[float]:
    return [median(column) for column in zip(*rounds, strict=True)]


def _table(found: Latencies) -> str:
    names = " | ".join(f"p{share * 100:.0f} ms" for share in SHARES)
    lines = [f"| from sent to visible | {names} | p50 of each round |", "|---|---:|---:|---:|---:|"]
    for system, rounds in found.items():
        cells = " | ".join(f"{one:.0f}" for one in _medians(rounds))
        each = ", ".join(f"{one[0]:.0f}" for one in rounds)
        lines.append(f"| {system} | {cells} | {each} |")
    return "\n".join(lines)


def _targets(found: Latencies) -> list[Target]:
    ours, theirs = (_medians(found[kind.name]) for kind in KINDS)
    aims = []
    for share, own, other in zip(SHARES, ours, theirs, strict=True):
        if share in AIMS_MS:
            name = f"p{share * 100:.0f}"
            aims += [
                Target(name, own, AIMS_MS[share], at_least=False, unit="ms"),
                Target(f"{name} / Kafka Streams'", own / other, 1.0, at_least=False),
            ]
    return aims


def _setting(arguments: argparse.Namespace, command: str) -> str:
    return (
        f"{common.environment()}"
        f"- Workload: {arguments.rate:,} events/s on {arguments.lanes} partitions, 2 workers "
        f"(processes of one thread); {arguments.warm_up} s to warm up, {SEEN_S} s are looked at. "
        f"{arguments.rounds} rounds, the systems in turn in each; medians of the rounds.\n"
        f"- Command: `{command}`\n"
    )


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=5_000, help="events a second, both sides")
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=30, help="seconds, after it has caught up")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args(given)
