"""What an end-to-end test does to a job from outside: topics, events, workers, results.

Nothing here uses the code under test, only Kafka, Avro and the command line: as its users would.
"""

from __future__ import annotations

import io
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tests.kafka.workers import Worker, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

EVENT: Final[dict[str, Any]] = {
    "type": "record", "name": "Event", "namespace": "spanjoin",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "start", "type": "long"},
        {"name": "end", "type": "long"},
        {
            "name": "kind",
            "type": {"type": "enum", "name": "Kind", "symbols": ["INSERT", "RETRACT", "WATERMARK"]},
            "default": "INSERT",
        },
        {"name": "payload", "type": ["null", "bytes"], "default": None},
    ],
}  # fmt: skip
MATCH: Final[dict[str, Any]] = {
    "type": "record", "name": "Match", "namespace": "spanjoin",
    "fields": [
        {"name": "start", "type": "long"},
        {"name": "end", "type": "long"},
        {"name": "left", "type": EVENT},
        {"name": "right", "type": "spanjoin.Event"},
    ],
}  # fmt: skip
_EVENT = fastavro.parse_schema(EVENT)
_MATCH = fastavro.parse_schema(MATCH)
HEADER: Final = b"\xc3\x01" + bytes.fromhex(
    fingerprint(to_parsing_canonical_form(EVENT), "CRC-64-AVRO")
)
QUIET: Final = {"log_level": 0}
"""A broker that is killed on purpose is nothing to print about."""


def encode(  # an event has these parts
    id: str,  # noqa: A002 - the field's name
    ts: int,
    start: int | None = None,
    end: int | None = None,
    kind: str = "INSERT",
    payload: bytes | None = None,
) -> bytes:
    """An event of the default schema in Avro's single-object encoding; an instant by default."""
    out = io.BytesIO()
    event = {
        "id": id, "ts": ts, "start": ts if start is None else start,
        "end": ts if end is None else end, "kind": kind, "payload": payload,
    }  # fmt: skip
    fastavro.schemaless_writer(out, _EVENT, event)
    return HEADER + out.getvalue()


def decode_match(value: bytes) -> dict[str, Any]:
    """The match of two events of the default schema."""
    assert value[:2] == b"\xc3\x01", value[:16]
    body = io.BytesIO(value[10:])
    match = fastavro.schemaless_reader(body, _MATCH, None)
    assert isinstance(match, dict)
    assert body.read() == b""
    return match


class Change(NamedTuple):
    """One record of a topic, as a consumer sees it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


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

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self.job = Job()
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
        self.workers: list[Worker] = []
        self._producer: Producer | None = None

    def close(self) -> None:
        """End every worker that still runs."""
        for worker in self.workers:
            worker.end()

    def create_topics(self, partitions: int = 1, right_partitions: int | None = None) -> None:
        """Both inputs, kept for ever."""
        right = partitions if right_partitions is None else right_partitions
        self.create_topic(self.job.left, partitions)
        self.create_topic(self.job.right, right)

    def create_topic(
        self, topic: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """One topic; old event times are kept, whatever the clock says."""
        settings = {"retention.ms": "-1", **(config or {})}
        future = self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic]
        future.result(30)

    def topic_config(self, topic: str) -> dict[str, str]:
        """The configuration that is in force for a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result(30)
        return {name: str(entry.value) for name, entry in entries.items()}

    @property
    def producer(self) -> Producer:
        """A producer that places keys as Java's default partitioner does."""
        if self._producer is None:
            self._producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    "partitioner": "murmur2_random",
                    "enable.idempotence": True,
                    "linger.ms": 5,
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
                    topic, key=key, value=value, partition=partition, headers=dict(headers or {})
                )
            except BufferError:
                self.producer.poll(0.1)
            else:
                self.producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until the broker has everything that was sent."""
        left = self.producer.flush(60)
        assert left == 0, f"{left} records could not be sent"

    def read(self, topic: str, *, committed: bool = True) -> list[Change]:
        """All records of a topic up to its present end, by partition and offset.

        With `committed`, as read_committed sees them: the end is the last stable offset.
        """
        metadata = self.admin.list_topics(topic, timeout=30).topics[topic]
        if metadata.error is not None:
            return []
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": f"read-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 10,
                **QUIET,
            }
        )
        try:
            return _read_to_end(consumer, topic, sorted(metadata.partitions))
        finally:
            consumer.close()

    def matches(self) -> dict[str, bytes]:
        """The live matches: the newest value of each key, without the tombstones."""
        return live(self.read(self.job.output))

    def await_matches(self, expected: Iterable[str], timeout: float = 60) -> list[Change]:
        """Wait until exactly these matches are live; returns the whole committed log."""
        wanted = set(expected)
        log: list[Change] = []

        def reached() -> bool:
            log[:] = self.read(self.job.output)
            return set(live(log)) == wanted

        def difference() -> str:
            found = set(live(log))
            missing, extra = sorted(wanted - found)[:5], sorted(found - wanted)[:5]
            return f"{len(found)} of {len(wanted)} matches; missing {missing}, extra {extra}"

        self._await(reached, timeout, difference)
        return log

    def await_rejects(self, count: int, timeout: float = 60) -> list[Change]:
        """Wait until that many rejects stand in the job's rejects topic."""
        log: list[Change] = []

        def reached() -> bool:
            log[:] = self.read(self.job.rejects)
            return len(log) >= count

        self._await(reached, timeout, lambda: f"{len(log)} rejects of {count}")
        return log

    def _await(self, reached: Callable[[], bool], timeout: float, what: Callable[[], str]) -> None:
        def checked() -> bool:
            for worker in self.workers:
                worker.check()
            return reached()

        eventually(checked, timeout, what)

    def write_config(self, text: str = "", name: str = "job.toml", **join: str | int) -> Path:
        """A configuration of this job; `join` overrides [join], `text` is appended as it is."""
        bounds: dict[str, str | int] = {
            "allowed_lateness": "10s", "max_interval": "12h", "max_future": "off", **join,
        }  # fmt: skip
        lines = [f"{key} = {_toml(value)}" for key, value in bounds.items()]
        path = self.directory / name
        path.write_text(
            f'name = "{self.job.name}"\n'
            f'[kafka]\n"bootstrap.servers" = "{self.bootstrap_servers}"\n'
            f'[left]\ntopic = "{self.job.left}"\n'
            f'[right]\ntopic = "{self.job.right}"\n'
            f'[output]\ntopic = "{self.job.output}"\n'
            "[join]\n" + "\n".join(lines) + "\n"
            f'[state]\ndir = "{self.directory / "state"}"\n'
            "[http]\nport = 0\n" + text
        )
        return path

    def start(
        self, config: Path, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> Worker:
        """`spanjoin run -c CONFIG ...`, each with a state directory and a log file of its own."""
        number = len(self.workers) + 1
        own = {"SPANJOIN_STATE__DIR": str(self.directory / f"state-{number}"), **(environ or {})}
        log = self.directory / f"worker-{number}.log"
        worker = Worker(["run", "-c", str(config), *arguments], log, own)
        self.workers.append(worker)
        return worker


def live(log: Iterable[Change]) -> dict[str, bytes]:
    """What a compacted topic holds after this log."""
    newest: dict[str, bytes] = {}
    for change in log:
        assert change.key is not None
        if change.value is None:
            newest.pop(change.key.decode(), None)
        else:
            newest[change.key.decode()] = change.value
    return newest


def _toml(value: str | int) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'


def _read_to_end(consumer: Consumer, topic: str, partitions: list[int]) -> list[Change]:
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    waiting = set(partitions)
    changes: list[Change] = []
    deadline = time.monotonic() + 60
    while waiting:
        assert time.monotonic() < deadline, f"{topic}: no end in sight of {sorted(waiting)}"
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                changes.append(_change(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(_number(message.partition()))
            else:
                assert error.retriable(), error
    return sorted(changes)


def _change(message: Message) -> Change:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Change(
        _number(message.partition()),
        _number(message.offset()),
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        {name: _bytes(value) or b"" for name, value in pairs},
    )


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
