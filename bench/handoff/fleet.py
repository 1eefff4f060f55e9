"""The workers of one job, started and ended one by one, and who of them has which lane."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from app.broker.process import free_ports
from bench.kafka_streams import command as streams_command
from bench.systems import job_file
from bench.workload import LATENESS_MS

if TYPE_CHECKING:
    from pathlib import Path

    from bench.systems import Place

WAIT_S: Final = 10.0
STOP_WITHIN_S: Final = 30.0
PROBING_MS: Final = 60_000

Owners = dict[int, str]
"""Lane -> the client id of its owner."""


@dataclass(frozen=True)
class Command:
    """How one worker is started."""

    arguments: list[str]
    environ: dict[str, str]
    death: signal.Signals = signal.SIGKILL
    """The signal that makes it die without any farewell."""


class Kind(Protocol):
    """A system whose workers can be counted up and down. All write `L:<id>|R:<id>` as keys."""

    @property
    def name(self) -> str:
        """As in the table."""

    def command(self, place: Place, number: int, *, victim: bool) -> Command:
        """How to start worker `number`, each with a disk of its own.

        A victim dies with a transaction open.
        """


@dataclass(frozen=True)
class Spanjoin:
    """The project itself, all defaults: a session time-out of 6 s."""

    name: str = "spanjoin"

    def command(self, place: Place, number: int, *, victim: bool) -> Command:
        """A worker, or a program that is one up to its death."""
        program = ["bench.handoff.victim"] if victim else ["app", "run", "-c"]
        return Command(
            [sys.executable, "-m", *program, str(job_file(place))],
            {
                "SPANJOIN_STATE__DIR": str(place.directory / f"state-{number}"),
                "SPANJOIN_HTTP__PORT": str(free_ports(1)[0]),
                "SPANJOIN_LOG__FORMAT": "json",
            },
            signal.SIGUSR1 if victim else signal.SIGKILL,
        )


@dataclass(frozen=True)
class KafkaStreams:
    """One thread a process, the same session time-out and retention.

    A task with much state is warmed up on its new owner while the old one goes on, and moves in a
    later rebalance. By default two are warmed up at a time, and it is looked every ten minutes
    whether they are warm; here all of them, and every minute.
    """

    name: str = "Kafka Streams"

    def command(self, place: Place, number: int, *, victim: bool) -> Command:
        """A process; with a commit every 100 ms it has a transaction open at any time."""
        del victim
        settings = {
            "num.stream.threads": "1",
            "grace.ms": str(LATENESS_MS),
            "state.dir": str(place.directory / f"state-{number}"),
            "max.warmup.replicas": str(place.lanes),
            "probing.rebalance.interval.ms": str(PROBING_MS),
        }
        return Command(streams_command(place, settings), {})


@dataclass
class Worker:
    """One process."""

    number: int
    log: Path
    process: subprocess.Popen[bytes]
    death: signal.Signals


@dataclass
class Fleet:
    """The workers of one job; none is left when it is closed."""

    kind: Kind
    place: Place
    workers: list[Worker] = field(default_factory=list)
    """Those that run, the longest running first."""
    logs: list[Path] = field(default_factory=list)
    _ended: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        servers = self.place.bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})

    def start(self, *, victim: bool = False) -> None:
        """One more."""
        number = len(self.logs) + 1
        command = self.kind.command(self.place, number, victim=victim)
        log = self.place.directory / f"worker-{number}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **command.environ},
                start_new_session=True,
            )
        self.logs.append(log)
        self.workers.append(Worker(number, log, process, command.death))

    def end(self, worker: Worker, how: signal.Signals) -> None:
        """Send it the signal, and go on without it."""
        self.workers.remove(worker)
        self._ended.append(worker)
        worker.process.send_signal(how)

    def owners(self) -> Owners | None:
        """Who has which lane; None while the group is between two assignments."""
        asked = self._admin.describe_consumer_groups([self.place.name])
        try:
            group = asked[self.place.name].result(WAIT_S)
        except KafkaException:
            # A broker that has just started has yet to find who coordinates the group.
            return None
        if group.state != ConsumerGroupState.STABLE:
            return None
        return {
            place.partition: member.client_id
            for member in group.members
            for place in member.assignment.topic_partitions
            if place.topic == self.place.inputs[0]
        }

    def fair(self, owners: Owners) -> bool:
        """Whether every lane has an owner, and every worker its share of them."""
        shares = Counter(owners.values()).values()
        return (
            len(owners) == self.place.lanes
            and len(shares) == len(self.workers)
            and max(shares) - min(shares) <= 1
        )

    def check(self) -> None:
        """Raise if a worker ended although nobody ended it."""
        for worker in self.workers:
            if (code := worker.process.poll()) is not None:
                text = worker.log.read_text()[-3000:]
                raise RuntimeError(f"worker {worker.number} ended with {code}: {text}")

    def close(self) -> None:
        """End all of them."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_S
        for worker in (*self.workers, *self._ended):
            try:
                worker.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
