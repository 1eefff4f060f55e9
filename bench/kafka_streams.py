"""Kafka Streams as rows of the table: the application in streams/, built here through Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.broker.jars import find_java
from bench.avro import EVENT_SCHEMA
from bench.systems import Mark, Place, Started, distinct_matches
from bench.workload import LATENESS_MS, REACH_MS
from schemas.avro_codec import MARKER, fingerprint
from schemas.match_schema import match_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.workload import Workload

SOURCES: Final = Path(__file__).with_name("streams")
TARGET: Final = SOURCES / "target"
CLASS_PATH: Final = f"{TARGET / 'streams.jar'}:{TARGET / 'libraries'}/*"
MAIN: Final = "spanjoin.bench.IntervalJoin"
SIZES: Final = "spanjoin.bench.TopicSizes"
BUILD_TIMEOUT_S: Final = 600.0
HEAP_MB: Final = 1024
JAVA_OPTIONS: Final = (
    # Its state is in RocksDB, outside the heap; all of the heap from the start costs it nothing.
    f"-Xms{HEAP_MB}m",
    f"-Xmx{HEAP_MB}m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
GATE_SETTLE_S: Final = 0.1
PREFETCH_S: Final = 1.0
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
FASTEST_GRACE_MS: Final = 40 * 60_000
"""The larger the grace, the rarer is a change of RocksDB segments."""


@cache
def build() -> str:
    """Compile the application where it is older than its sources; returns the `java` to run it.

    Raises RuntimeError where there is no Java or Maven, or Maven fails.
    """
    java, maven = find_java(os.environ), shutil.which("mvn")
    if java is None or maven is None:
        raise RuntimeError("Kafka Streams needs Java 17 or newer and Maven (`mvn`) on PATH")
    jar = TARGET / "streams.jar"
    sources = [SOURCES / "pom.xml", *SOURCES.glob("src/**/*.java")]
    if not jar.exists() or jar.stat().st_mtime < max(one.stat().st_mtime for one in sources):
        print("building the Kafka Streams application through Maven", flush=True)
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(SOURCES / "pom.xml"), "clean", "package"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"Maven: {done.stdout[-2000:]}")
    return java


def java_version() -> str:
    """What runs it and the broker."""
    java = find_java(os.environ)
    if java is None:
        return "none"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return said.split('"')[1] if '"' in said else "unknown"


def command(place: Place, settings: dict[str, str]) -> list[str]:
    """The command line of one process; `settings` are arguments of it (see IntervalJoin.java).

    They must have `state.dir` and `grace.ms`; each may be one of this benchmark's own, which it
    then replaces.
    """
    left, right = place.inputs
    own = {
        "application.id": place.name,
        "bootstrap.servers": place.bootstrap_servers,
        "left": left,
        "right": right,
        "output": place.output,
        "reach.ms": str(REACH_MS),
        "match.header": match_header(),
        "session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        **settings,
    }
    arguments = [f"{name}={value}" for name, value in own.items()]
    return [build(), *JAVA_OPTIONS, "-cp", CLASS_PATH, MAIN, *arguments]


def topic_sizes(bootstrap_servers: str) -> dict[str, int]:
    """Bytes of every topic on the brokers' disks."""
    done = subprocess.run(
        [build(), JAVA_OPTIONS[-1], "-cp", CLASS_PATH, SIZES, bootstrap_servers],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {topic: int(size) for topic, size in lines}


def match_header() -> str:
    """What stands before every match, in hexadecimal."""
    return (MARKER + fingerprint(match_schema(EVENT_SCHEMA, EVENT_SCHEMA))).hex()


@dataclass
class _StartedStreams(Started):
    """Held at its gate whenever input becomes visible, until it has seen some of both sides.

    What it knows of a side's end is as old as its last fetch. Without the gate it takes the side
    that it sees first alone, ahead of the other by more than the grace, and matches are lost.
    """

    lanes: int = 0
    gate: Path = Path()

    def fire(self, let_go: Callable[[], None]) -> Mark:
        """Let it see the input, then open the gate: what it fetched before that is its gain."""
        self.gate.unlink(missing_ok=True)
        time.sleep(GATE_SETTLE_S)
        let_go()
        time.sleep(PREFETCH_S)
        mark = self.mark()
        self.gate.touch()
        return mark

    def ready(self) -> bool:
        """Every process runs, and together they have every task."""
        return sum(map(running_tasks, self.logs)) == self.lanes


def running_tasks(log: Path) -> int:
    """How many tasks the process with this log has, 0 while it is not running."""
    tasks = 0
    for line in log.read_text().splitlines():
        if line.startswith("STATE "):
            tasks = 0
        elif line.startswith("TASKS "):
            tasks = len(line.split()) - 2
    return tasks


@dataclass(frozen=True)
class KafkaStreams:
    """One process with so many threads; `grace_ms` is how late a record may come."""

    threads: int
    grace_ms: int = LATENESS_MS
    part: float = 1.0

    @property
    def name(self) -> str:
        """As in the table."""
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        retention = "same retention" if self.grace_ms == LATENESS_MS else "fastest setting"
        return f"Kafka Streams, {threads}, {retention}"

    def expected(self, workload: Workload) -> int:
        """All matches."""
        return len(workload.matches)

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """The matches found."""
        return distinct_matches(workload, output)

    def start(self, place: Place) -> Started:
        """Start the process."""
        started = _StartedStreams(lanes=place.lanes, gate=place.directory / "gate")
        settings = {
            "gate": str(started.gate),
            "num.stream.threads": str(self.threads),
            "grace.ms": str(self.grace_ms),
            "state.dir": str(place.directory / "streams-state"),
        }
        started.launch(command(place, settings), place.directory / f"{place.name}.log")
        return started
