"""What an end-to-end test does to a job from outside: topics, events, workers, results.

Nothing here uses the code under test, only Kafka, Avro and the command line: as its users would.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.kafka.agreement import assert_agrees, job_of
from tests.kafka.reading import QUIET, Cluster, Follower, Place, live
from tests.kafka.workers import SPANJOIN, Worker, eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from app.config import Config
    from tests.kafka.reading import Change

SETTLED_WITHIN_S: Final = 60.0
USAGE: Final = 2
"""The exit code of a worker that refuses its job."""
OUTPUT_PARTITIONS: Final = 3
"""Any number will do, so not that of the inputs."""
QUICK_SESSION: Final = (
    '[kafka.consumer]\n"session.timeout.ms" = 2000\n"heartbeat.interval.ms" = 200\n'
)
"""So that a killed worker is noticed soon; a given broker may not allow it."""


@dataclass
class Job:
    """The names of one job; unique, so that tests share a broker without meeting."""

    name: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.left = f"{self.name}-left"
        self.right = f"{self.name}-right"
        self.output = f"{self.name}-output"
        self.changelog = f"{self.name}-changelog"
        self.rejects = f"{self.name}-rejects"


class Harness:
    """A job on the session's broker, and everything that was started for it."""

    def __init__(
        self, bootstrap_servers: str, directory: Path, *, quick_session: bool = True
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self.quick_session = quick_session
        self.job = Job()
        self.cluster = Cluster(bootstrap_servers)
        self.workers: list[Worker] = []
        self.partitioner = "murmur2_random"
        """How a producer that is made from now on places keys; Java's default unless set."""
        self.sent: dict[Place, int] = {}
        """Where what was sent ends: the next offset of each topic's partition."""
        self.followers: list[Follower] = []
        self.unchecked: str | None = None
        """Why `spanjoin check` is not asked in the end: what a test did to the job's topics."""
        self._ran: list[tuple[Worker, Config]] = []
        """Each worker, and how its job was configured."""
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []

    def close(self) -> None:
        """End every worker that still runs, and compare what they wrote with a batch join."""
        for worker in self.workers:
            worker.end()
        try:
            if self.unchecked is None:
                for job in self._jobs().values():
                    assert_agrees(self.cluster, job)
        finally:
            self._close_clients()

    def _jobs(self) -> dict[str, Config]:
        """By name, the jobs that had workers, as the last one ran that was not refused."""
        refused = [
            (job.name, job) for worker, job in self._ran if worker.process.returncode == USAGE
        ]
        others = [
            (job.name, job) for worker, job in self._ran if worker.process.returncode != USAGE
        ]
        return dict([*refused, *others])

    def _close_clients(self) -> None:
        # A reader that is left open waits for its broker when Python ends.
        for follower in self.followers:
            follower.close()
        self.cluster.close()
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1)

    def create_topics(self, partitions: int = 1, job: Job | None = None) -> None:
        """Both inputs, kept for ever, and an output whose whole log stays to be looked at.

        Transactions are marked with the clock's time, matches with their events'. Where these are
        a segment's time apart, Kafka closes the segment after the first transaction and compacts
        it soon, and a match that was taken back at once is gone from the log.
        """
        job = job or self.job
        self.create_topic(job.left, partitions)
        self.create_topic(job.right, partitions)
        whole = {"cleanup.policy": "compact", "segment.ms": str(2**63 - 1)}
        self.create_topic(job.output, OUTPUT_PARTITIONS, whole)

    def create_topic(
        self, topic: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """One topic; old event times are kept, whatever the clock says."""
        settings = {"retention.ms": "-1", **(config or {})}
        new = NewTopic(topic, partitions, 1, config=settings)
        self.cluster.admin.create_topics([new])[topic].result(30)
        # It is acknowledged before the broker knows it.
        eventually(
            lambda: len(self.cluster.partitions(topic)) == partitions, 30, lambda: f"no {topic}"
        )

    def topic_config(self, topic: str) -> dict[str, str]:
        """The configuration that is in force for a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.cluster.admin.describe_configs([resource])[resource].result(30)
        return {name: str(entry.value) for name, entry in entries.items()}

    @property
    def producer(self) -> Producer:
        """What sends for `send`."""
        if self._producer is None:
            self._producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    "partitioner": self.partitioner,
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "message.max.bytes": 10_000_000,
                    **QUIET,
                }
            )
        return self._producer

    def send(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | None,
        partition: int = -1,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Queue one record; `flush` waits for all of them. A full queue is waited for."""
        while True:
            try:
                self.producer.produce(
                    topic,
                    key=key,
                    value=value,
                    partition=partition,
                    headers=dict(headers or {}),
                    on_delivery=self._delivered,
                )
            except BufferError:
                self.producer.poll(0.1)
            else:
                self.producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            self._failed.append(error)
        elif topic is not None and partition is not None and offset is not None:
            place = (topic, partition)
            self.sent[place] = max(self.sent.get(place, 0), offset + 1)

    def flush(self) -> None:
        """Wait until the broker has everything that was sent."""
        left = self.producer.flush(60)
        assert left == 0, f"{left} records could not be sent"
        assert self._failed == []

    def renew_producer(self) -> None:
        """One that ran while partitions were added would place keys as before for some minutes."""
        self.flush()
        self._producer = None

    def read(self, topic: str, *, committed: bool = True) -> list[Change]:
        """All records of a topic up to its present end, by partition and offset.

        With `committed`, as read_committed sees them: the end is the last stable offset.
        """
        follower = Follower(self.cluster, topic, committed=committed)
        try:
            return follower.read()
        finally:
            follower.close()

    def follow(self, topic: str) -> Follower:
        """A reader of a topic for as long as the test runs."""
        self.followers.append(Follower(self.cluster, topic))
        return self.followers[-1]

    def matches(self) -> dict[str, bytes]:
        """The live matches: the newest value of each key, without the tombstones."""
        return live(self.read(self.job.output))

    def await_matches(self, expected: Iterable[str], timeout: float = 60) -> list[Change]:
        """Wait until exactly these matches are live; returns the whole committed log."""
        wanted = set(expected)
        log: list[Change] = []

        def reached() -> bool:
            log.extend(follower.read())
            return set(live(log)) == wanted

        def difference() -> str:
            found = set(live(log))
            missing, extra = sorted(wanted - found)[:5], sorted(found - wanted)[:5]
            return f"{len(found)} of {len(wanted)} matches; missing {missing}, extra {extra}"

        self.await_(
            lambda: bool(self.cluster.partitions(self.job.output)), timeout, lambda: "no output"
        )
        follower = self.follow(self.job.output)
        self.await_(reached, timeout, difference)
        return sorted(log)

    def await_rejects(self, count: int, timeout: float = 60) -> list[Change]:
        """Wait until that many rejects stand in the job's rejects topic."""
        log: list[Change] = []

        def reached() -> bool:
            log[:] = self.read(self.job.rejects)
            return len(log) >= count

        self.await_(reached, timeout, lambda: f"{len(log)} rejects of {count}")
        return log

    def settle(
        self,
        timeout: float = SETTLED_WITHIN_S,
        ends: Mapping[Place, int] | None = None,
        job: Job | None = None,
    ) -> None:
        """Wait until a job has taken all that was sent (or `ends`), in decided transactions.

        From then on its committed output is complete: whatever is not there now will never come.
        """
        job = job or self.job
        self.flush()
        wanted = dict(ends) if ends is not None else {
            place: end for place, end in self.sent.items() if place[0] in (job.left, job.right)
        }  # fmt: skip
        self.await_(
            lambda: self.cluster.reached(job.name, wanted),
            timeout,
            lambda: f"{self.cluster.positions(job.name, wanted)} of {wanted}",
        )
        for topic in (job.output, job.rejects):
            self._await_decided(topic, timeout)

    def _await_decided(self, topic: str, timeout: float) -> None:
        def open_still() -> str:
            return f"a transaction is open in {topic}"

        self.await_(lambda: self.cluster.decided(topic), timeout, open_still)

    def await_(self, reached: Callable[[], bool], timeout: float, what: Callable[[], str]) -> None:
        """Wait for a condition, and fail at once when a worker ends meanwhile."""

        def checked() -> bool:
            for worker in self.workers:
                worker.check()
            return reached()

        eventually(checked, timeout, what)

    def write_config(
        self,
        text: str = "",
        *,
        join: Mapping[str, str | int] | None = None,
        name: str = "job.toml",
        job: Job | None = None,
    ) -> Path:
        """A configuration of a job, in plain numbers; `join` overrides [join].

        `text` is appended as it is; what stands before a line of "---" goes to the top.
        """
        job = job or self.job
        bounds: dict[str, str | int] = {
            "allowed_lateness": 10, "max_interval": 50, "max_future": "off", **(join or {}),
        }  # fmt: skip
        lines = [f"{key} = {_toml(value)}" for key, value in bounds.items()]
        path = self.directory / name
        top, _, tables = text.rpartition("---\n")
        if "unit =" not in top:
            top += 'unit = "none"\n'
        path.write_text(
            f'name = "{job.name}"\n{top}'
            f'[kafka]\n"bootstrap.servers" = "{self.bootstrap_servers}"\n'
            + (QUICK_SESSION if self.quick_session else "")
            + f'[left]\ntopic = "{job.left}"\n'
            f'[right]\ntopic = "{job.right}"\n'
            f'[output]\ntopic = "{job.output}"\n'
            "[join]\n" + "\n".join(lines) + "\n"
            f'[state]\ndir = "{self.directory / "state"}"\n' + tables
        )
        return path

    def start(
        self, config: Path, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> Worker:
        """`spanjoin run -c CONFIG ...`, each with state directory, port and log of its own."""
        return self.launch([str(SPANJOIN), "run", "-c", str(config), *arguments], environ)

    def launch(self, command: list[str], environ: Mapping[str, str] | None = None) -> Worker:
        """Any command that runs a worker."""
        number = len(self.workers) + 1
        own = {
            "SPANJOIN_STATE__DIR": str(self.directory / f"state-{number}"),
            "SPANJOIN_HTTP__PORT": str(free_port()),
            **(environ or {}),
        }
        log = self.directory / f"worker-{number}.log"
        worker = Worker(command, log, own)
        self.workers.append(worker)
        if (job := job_of(command, own)) is not None:
            self._ran.append((worker, job))
        return worker

    def await_running(self, *workers: Worker) -> None:
        """Wait until each of these workers runs lanes, and nothing but running ones."""
        for worker in workers:
            self._await_running(worker)

    def _await_running(self, worker: Worker) -> None:
        self.await_(
            lambda: bool(worker.running()) and worker.get("/readyz")[0] == 200,
            SETTLED_WITHIN_S,
            lambda: f"{worker.get('/readyz')} {worker.get('/status')}",
        )


def _toml(value: str | int) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'
