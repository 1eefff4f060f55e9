"""The producer of transactions, where its client fails in ways of its own: it is thrown away."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from structlog.testing import capture_logs

from app import ends
from app.broker import ENVIRONMENT_NAME, start_broker
from app.ends import Ends
from app.errors import Renew, Retry
from app.kafka import transactions
from app.kafka.limits import Limits
from app.kafka.transactions import LaneWrite, Topics, Transactions
from app.steps import nobody
from tests.kafka.harness import Harness
from tests.kafka.proxy import TXN_OFFSET_COMMIT, proxied_broker
from tests.kafka.victims import fence
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from app.kafka.transactions import Prepared
    from app.steps import Reached

LIMITS: Final = Limits(1_000_000, 1_000_000, 1_000_000)
OUTPUT: Final = [(b"id", b"match", 1)]
CALL_TIMEOUT_S: Final = 3.0
"""Shorter than a worker's, as it has to pass."""
ATTEMPTS_MAX: Final = 5
LEFT_AFTER_S: Final = 4.0
"""Above the budgets of a second, and less than the broker leaves a transaction open."""
CHANGELOG: Final = [b"turn"] * 100


def producer_of(kafka: Harness, reached: Reached = nobody, **more: str) -> Transactions:
    job = kafka.job
    topics = Topics(job.left, job.right, job.output, job.changelog, job.rejects)
    servers: dict[str, str | int | bool] = {"bootstrap.servers": kafka.bootstrap_servers}
    return Transactions(
        job.name, {**servers, "retry.backoff.ms": 1, **more}, topics, LIMITS, reached
    )


def prepared(made: Transactions) -> Prepared:
    """A producer in use, as soon as there is a coordinator."""
    found: list[Prepared] = []

    def ready() -> bool:
        with suppress(Retry):
            found.append(made.prepare())
        return bool(found)

    eventually(ready, 60, lambda: "no coordinator")
    made.install(*found[0])
    return found[0]


def unasked() -> bytes:
    """Group metadata that nobody comes to ask for."""
    raise AssertionError("the offsets were to be sent")


@pytest.mark.timeout(180)
def test_a_producer_that_was_told_of_no_brokers_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike other clients it does not bootstrap anew: its next transaction fails, in time.

    The broker answers, and lists none, for half of the time; see `tests/kafka/test_outage.py`.
    """
    monkeypatch.setattr(transactions, "CALL_TIMEOUT_S", CALL_TIMEOUT_S)
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_NAME}
    fenced = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "4000"}
    with start_broker(fenced, environ=environ) as broker, capture_logs() as told:
        kafka = Harness(broker.bootstrap_servers, tmp_path)
        try:
            eventually(lambda: _created(kafka), 60, lambda: "no topic")
            made = producer_of(kafka, debug="metadata")
            _, producer, _ = prepared(made)

            def of_none() -> bool:
                with suppress(KafkaException):
                    producer.list_topics(kafka.job.output, 1)
                producer.poll(0.1)
                return any(": 0 brokers," in line.get("said", "") for line in told)

            eventually(of_none, 60, lambda: "always told of a broker")
            began = time.monotonic()
            with pytest.raises(Renew, match="did not take all records in time"):
                made.end(made.begin("turn", [LaneWrite(0, (1, 1), matches=OUTPUT)]), unasked)
            assert time.monotonic() - began < 2 * CALL_TIMEOUT_S
            made.retire()
            _, producer, _ = prepared(made)
            producer.begin_transaction()
            producer.produce(kafka.job.output, b"of the next one", b"id")
            producer.commit_transaction(60)
            # Its marker may come a moment later.
            eventually(lambda: bool(kafka.matches()), 30, lambda: "nothing is committed")
            assert kafka.matches() == {"id": b"of the next one"}
        finally:
            kafka.close()


@pytest.mark.timeout(180)
def test_offsets_that_do_not_come_back_are_given_up_and_not_committed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is gone while they are on their way: the call waits for it, whatever its time."""
    monkeypatch.setattr(transactions, "CALL_TIMEOUT_S", 1.0)
    monkeypatch.setattr(ends, "LEFT_AFTER_S", LEFT_AFTER_S)
    with proxied_broker() as (proxy, address):
        kafka = Harness(address, tmp_path)
        consumer = Consumer({"bootstrap.servers": address, "group.id": kafka.job.name})
        try:
            kafka.create_topics(1)
            kafka.create_topic(kafka.job.changelog, 1)
            passed: list[str] = []
            made = producer_of(kafka, passed.append)
            prepared(made)
            metadata = consumer.consumer_group_metadata()
            begun = made.begin("turn", [LaneWrite(0, (1, 1), lambda: CHANGELOG, OUTPUT)])
            one = Ends(lambda: ThreadPoolExecutor(1))
            returned = threading.Event()

            def end() -> None:
                try:
                    made.end(begun, lambda: metadata)
                finally:
                    returned.set()

            proxy.cut_at(TXN_OFFSET_COMMIT)
            with pytest.raises(Renew, match="does not come back"):
                one.run(end)
            assert passed[-1] == "turn.logged"
            assert not returned.is_set(), "the client's call keeps to its time"
            retired = made.retire()
            assert not retired.ended
            proxy.come_back()
            # In time: the broker still has the transaction open.
            assert returned.wait(60)
            fence(kafka, retired.writer)
            eventually(lambda: kafka.cluster.decided(kafka.job.output), 60, lambda: "open")
            assert kafka.matches() == {}
            assert passed[-1] == "turn.logged"
        finally:
            consumer.close()
            kafka.close()


def _created(kafka: Harness) -> bool:
    with suppress(KafkaException):
        kafka.create_topic(kafka.job.output, 1)
    return kafka.job.output in kafka.cluster.admin.list_topics(timeout=5).topics


def _catching(offsets: list[int]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery report that meets an exception, and answers it."""

    def delivered(_error: KafkaError | None, _message: Message) -> None:
        with suppress(ValueError):
            offsets.append(int("none"))

    return delivered


def test_a_fenced_producer_is_replaced_whatever_its_call_raises(
    kafka: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports are called on top of the exception that a flush is about to raise, and spoil it."""
    job = kafka.job
    for topic in (job.output, job.changelog):
        kafka.create_topic(topic, 1)
    raised: list[type] = []
    failure = Transactions._failure

    def noted(self: Transactions, live: object, trouble: object) -> Exception:
        raised.append(type(trouble))
        return failure(self, live, trouble)  # type: ignore[arg-type] # as it came

    monkeypatch.setattr(Transactions, "_failure", noted)
    monkeypatch.setattr(transactions, "noting", _catching)

    def fence_in_the_midst(step: str) -> None:
        if step == "turn.flushed":
            fence(kafka, made.writer)

    made = producer_of(kafka, fence_in_the_midst)
    write = LaneWrite(0, (1, 1), changelog=lambda: CHANGELOG, matches=OUTPUT)
    # Now and then the report comes too late to do any harm.
    while len(raised) < ATTEMPTS_MAX and raised[-1:] in ([], [KafkaException]):
        prepared(made)
        with pytest.raises(Renew):
            made.end(made.begin("turn", [write]), unasked)
        made.retire()
    assert raised[-1] in {SystemError, KafkaError}, raised
    assert kafka.read(job.output) == kafka.read(job.changelog) == []
