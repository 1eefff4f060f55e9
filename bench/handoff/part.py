"""How fast lanes change their owner, and what the others feel of it.

Usage: python -m bench handoff [--rate N] [--rounds N] [--only PART ...] [--no-write]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.broker import start_broker
from bench import report as common
from bench.handoff import report
from bench.handoff.fleet import KafkaStreams, Kind, Spanjoin
from bench.handoff.sessions import HISTORY_S, saturated, steady
from bench.systems import Place
from bench.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS: Final[tuple[tuple[Kind, int], ...]] = ((Spanjoin(), 1_500_000), (KafkaStreams(), 4_000_000))
"""Each with as many events as keep it busy while one move is looked at."""
WRITTEN_AT: Final = {"message.timestamp.type": "LogAppendTime"}
PART: Final = "make bench ARGS=handoff"


def main(given: list[str]) -> None:
    """The command; `given` are its arguments."""
    arguments = _arguments(given)
    for ending in (signal.SIGTERM, signal.SIGINT):
        # Also where it was started with SIGINT ignored: the processes it started end with it.
        signal.signal(ending, signal.default_int_handler)
    kinds = [
        (kind, events)
        for kind, events in KINDS
        if not arguments.only or any(part in kind.name for part in arguments.only)
    ]
    calm: report.Sessions = {kind.name: [] for kind, _ in kinds}
    busy: report.Sessions = {kind.name: [] for kind, _ in kinds}
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spanjoin-bench-"))
        if not arguments.keep:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        broker = stack.enter_context(start_broker(say=print))
        topics = Topics(broker.bootstrap_servers)
        for number in range(arguments.rounds):
            for index, (kind, events) in enumerate(kinds):
                with placed(topics, directory, f"calm-{number}-{index}", arguments.lanes) as place:
                    print(f"round {number + 1}: {kind.name}, {arguments.rate:,} events/s")
                    calm[kind.name].append(steady(kind, place, arguments.rate, _say))
                if arguments.calm:
                    continue
                with placed(topics, directory, f"busy-{number}-{index}", arguments.lanes) as place:
                    print(f"round {number + 1}: {kind.name}, with all it can take")
                    session = saturated(kind, place, arguments.rate, events, _say)
                    busy[kind.name].append(session)
    tables = report.tables(calm, busy)
    print(f"\n{tables}")
    if not arguments.no_write:
        command = common.command(["handoff", *given])
        common.write(f"{_setting(arguments, command)}\n{tables}", PART)


@contextlib.contextmanager
def placed(topics: Topics, directory: Path, name: str, lanes: int) -> Iterator[Place]:
    """A job's name, directory and topics; its topics go at the end."""
    place = Place(name, directory / name, topics.bootstrap_servers, lanes)
    place.directory.mkdir()
    topics.create(place.inputs, place.output, place.lanes, WRITTEN_AT)
    yield place
    topics.delete_like(name)


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


def _setting(arguments: argparse.Namespace, command: str) -> str:
    return (
        f"{common.environment()}"
        f"- Workload: {arguments.rate:,} events/s, {HISTORY_S} s of them before, {arguments.lanes} "
        f"partitions, 2 or 3 workers (processes of one thread). {arguments.rounds} rounds, the "
        f"systems in turn in each.\n"
        f"- Command: `{command}`\n"
    )


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench handoff", description=__doc__)
    parser.add_argument("--rate", type=int, default=5_000, help="events a second, both sides")
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="only systems with this in their name")
    parser.add_argument("--calm", action="store_true", help="nothing with all they can take")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    parser.add_argument("--keep", action="store_true", help="leave logs and state behind")
    return parser.parse_args(given)
