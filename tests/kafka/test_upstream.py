"""Inputs written in transactions, and sides that fall silent."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kafka.avro import Event, encode, instant
from tests.kafka.harness import SETTLED_WITHIN_S
from tests.kafka.reading import QUIET
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker


class Upstream:
    """A producer of events that writes in transactions."""

    def __init__(self, kafka: Harness) -> None:
        self._kafka = kafka
        self._ends: dict[tuple[str, int], int] = {}
        self.producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "transactional.id": f"upstream-{uuid.uuid4().hex}",
                "transaction.timeout.ms": 60_000,
                **QUIET,
            }
        )
        self.producer.init_transactions(30)

    def begin(self, topic: str, *names: str, at: int = 10) -> None:
        """Open a transaction and write instants; they are in the log when this returns."""
        self.producer.begin_transaction()
        self._ends = {}
        for name in names:
            value = encode(instant(name, at))
            self.producer.produce(topic, value, b"k", 0, on_delivery=self._delivered)
        assert self.producer.flush(30) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self._ends[topic, partition] = offset + 1

    def commit(self) -> None:
        """Commit, and have the harness wait for what was written."""
        self.producer.commit_transaction(30)
        self._kafka.sent.update(self._ends)

    def abort(self) -> None:
        """Abort."""
        self.producer.abort_transaction(30)


@pytest.fixture
def upstream(kafka: Harness) -> Iterator[Upstream]:
    upstream = Upstream(kafka)
    yield upstream
    upstream.producer.purge()


def plain(kafka: Harness, topic: str, *names: str, at: int = 10) -> None:
    for name in names:
        kafka.send(topic, b"k", encode(instant(name, at)), 0)


def test_aborted_records_are_never_joined(kafka: Harness, upstream: Upstream) -> None:
    kafka.create_topics(1)
    left, right = kafka.job.left, kafka.job.right
    config = kafka.write_config()
    worker = kafka.start(config)
    plain(kafka, right, "r1")
    upstream.begin(left, "aborted 1", "aborted 2")
    upstream.abort()
    upstream.begin(left, "l1")
    upstream.commit()
    upstream.begin(left, "aborted 3")
    upstream.abort()
    kafka.settle()
    assert set(kafka.matches()) == {"L:l1|R:r1"}
    # Behind the last record only markers and aborted records are left: nothing waits.
    kafka.await_(
        lambda: [lane["left"]["lag"] for lane in lanes_of(worker.port)] == [0],
        10,
        lambda: str(lanes_of(worker.port)),
    )
    assert worker.terminate() == 0
    # A position before an aborted record is a position like any other.
    kafka.start(config)
    plain(kafka, left, "l2")
    upstream.begin(right, "aborted 4")
    upstream.abort()
    plain(kafka, right, "r2")
    kafka.settle()
    assert set(kafka.matches()) == {f"L:l{i}|R:r{j}" for i in (1, 2) for j in (1, 2)}
    assert kafka.read(kafka.job.rejects) == []


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_transaction_left_open_does_not_hold_up_the_other_side(
    kafka: Harness, upstream: Upstream, side: str
) -> None:
    kafka.create_topics(1)
    topics = [kafka.job.left, kafka.job.right]
    if side == "left":
        topics.reverse()
    free, stuck = topics
    kafka.start(kafka.write_config())
    plain(kafka, stuck, "before")
    kafka.flush()
    upstream.begin(stuck, "in it", at=20)
    plain(kafka, stuck, "behind it", at=20)
    for at in range(10, 500, 10):
        plain(kafka, free, f"f{at}", at=at)
    kafka.flush()
    del kafka.sent[stuck, 0]
    # All of the free side is taken, far ahead of the other in the time of events.
    kafka.settle()
    plain(kafka, free, "f20 late", at=20)
    kafka.settle()
    upstream.commit()
    plain(kafka, stuck, "last", at=490)
    kafka.settle()
    pairs = {
        ("f10", "before"), ("f20", "in it"), ("f20", "behind it"), ("f20 late", "in it"),
        ("f20 late", "behind it"), ("f490", "last"),
    }  # fmt: skip
    assert set(kafka.matches()) == {
        f"L:{name}|R:{other}" if side == "right" else f"L:{other}|R:{name}" for name, other in pairs
    }


def await_watermark(kafka: Harness, worker: Worker, watermark: int) -> None:
    """Wait until the lane's watermark is this one."""
    kafka.await_(
        lambda: [lane["watermark"] for lane in lanes_of(worker.port)] == [watermark],
        SETTLED_WITHIN_S,
        lambda: str(lanes_of(worker.port)),
    )


def reasons(kafka: Harness) -> list[tuple[bytes, bytes]]:
    return [(one.headers["reason"], one.headers["offset"]) for one in kafka.read(kafka.job.rejects)]


def test_a_silent_side_is_not_waited_for_where_that_is_wanted(kafka: Harness) -> None:
    kafka.create_topics(1)
    left, right = kafka.job.left, kafka.job.right
    config = kafka.write_config(join={"idle_timeout": "1s"})
    worker = kafka.start(config)
    plain(kafka, left, "l1000", at=1000)
    # The right side never spoke.
    await_watermark(kafka, worker, 1000)
    plain(kafka, left, "late", at=989)
    kafka.settle()
    assert reasons(kafka) == [(b"late", b"1")]
    # It speaks, behind the watermark, which stays where it is.
    plain(kafka, right, "late", at=989)
    plain(kafka, right, "r990", at=990)
    kafka.send(right, b"k", encode(Event("r1000", 990, 990, 1000)), 0)
    kafka.settle()
    assert reasons(kafka) == [(b"late", b"1"), (b"late", b"0")]
    plain(kafka, left, "late", at=989)
    plain(kafka, left, "l990", at=990)
    kafka.settle()
    expected = {"L:l1000|R:r1000", "L:l990|R:r990", "L:l990|R:r1000"}
    assert set(kafka.matches()) == expected
    assert len(reasons(kafka)) == 3
    # Both silent: nothing moves; the left one speaks and the right one is idle still.
    plain(kafka, left, "l2000", at=2000)
    await_watermark(kafka, worker, 2000)
    worker.kill()
    plain(kafka, right, "late", at=1989)
    kafka.start(config)
    kafka.settle()
    assert set(kafka.matches()) == expected
    assert len(reasons(kafka)) == 4


def test_a_side_with_an_open_transaction_is_not_silent(kafka: Harness, upstream: Upstream) -> None:
    kafka.create_topics(1)
    left, right = kafka.job.left, kafka.job.right
    worker = kafka.start(kafka.write_config(join={"idle_timeout": "500ms"}))
    kafka.await_running(worker)
    upstream.begin(right, "r10")
    # Long after the timeout the left side is not ahead of a row that nobody may see yet.
    for number in range(20):
        plain(kafka, left, f"ahead{number}", at=1000 + number)
        kafka.settle()
    plain(kafka, left, "l10", at=10)
    kafka.settle()
    assert [lane["watermark"] for lane in lanes_of(worker.port)] == [None]
    upstream.commit()
    kafka.settle()
    assert set(kafka.matches()) == {"L:l10|R:r10"}
    await_watermark(kafka, worker, 10)


def test_offsets_that_stay_undecided_hold_up_no_takeover(
    kafka: Harness, upstream: Upstream
) -> None:
    """Somebody's transaction holds the group's offsets; its name is in no changelog."""
    kafka.create_topics(1)
    left, right = kafka.job.left, kafka.job.right
    config = kafka.write_config()
    worker = kafka.start(config)
    plain(kafka, left, "l1")
    plain(kafka, right, "r1")
    kafka.settle()
    assert worker.terminate() == 0
    nobody = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka.job.name})
    upstream.producer.begin_transaction()
    upstream.producer.send_offsets_to_transaction(
        [TopicPartition(left, 0, 1)], nobody.consumer_group_metadata(), 30
    )
    nobody.close()
    worker = kafka.start(config)
    plain(kafka, left, "l2")
    kafka.flush()
    kafka.await_matches(["L:l1|R:r1", "L:l2|R:r1"], 30)
    assert worker.terminate() == 0
    assert "offsets are undecided" in worker.tail()
    upstream.abort()
    kafka.settle()
    last = kafka.start(config)
    kafka.await_running(last)
    assert "offsets are undecided" not in last.tail()
