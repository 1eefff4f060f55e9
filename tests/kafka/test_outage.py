"""The broker dies, freezes and comes back under running workers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from app.broker import ENVIRONMENT_NAME, Broker, start_broker
from app.config import load_config
from app.kafka.authority import Authority
from app.kafka.clients import close_within, with_defaults
from bench.procfs import cpu_seconds
from tests.kafka.avro import encode, instant
from tests.kafka.harness import Harness
from tests.kafka.load import Load
from tests.kafka.proxy import proxied_broker
from tests.kafka.streams import random_stream
from tests.kafka.victims import halted, victim
from tests.kafka.workers import eventually, lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.workers import Worker

STOPPED_WITHIN_S: Final = 10
IDLE_MS: Final = 12_000
RESTARTED: Final = 75
MINUTES_S: Final = 180
CLIENTS: Final = 8
ASKERS: Final = 16
THREADS_MAX: Final = 80
"""Of a worker, half of them its clients': 45 were counted, as many after ten seconds as later."""
AWAY_S: Final = 3.0
AWAY_SHARE_MAX: Final = 0.25
"""Of a processor, while it waits for a broker: five times what was measured."""
ON_THE_WAY: Final = {"assigned", "restoring", "fencing", "installing", "running"}


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A broker that is ours to kill, also where another one was given for the other tests."""
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_NAME}
    with start_broker(environ=environ) as broker:
        yield broker


@pytest.fixture
def kafka(own_broker: Broker, tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(own_broker.bootstrap_servers, tmp_path)
    try:
        yield harness
    finally:
        harness.close()


def stop(worker: Worker) -> None:
    """SIGTERM: in good order, and soon."""
    began = time.monotonic()
    assert worker.terminate() == 0, worker.tail()
    assert time.monotonic() - began < STOPPED_WITHIN_S


def test_lanes_go_on_after_the_broker_was_killed_and_frozen(
    kafka: Harness, own_broker: Broker
) -> None:
    kafka.create_topics(6)
    config = kafka.write_config(text="[turn]\nmax_records = 200\n")
    stream = random_stream(41, 12_000, keys=300, lanes=6, step=0.02)
    stays, leaves = kafka.start(config), kafka.start(config)
    writes = victim(kafka, config, "STOP", "turn.logged")
    kafka.await_running(stays, leaves, writes)
    with Load(kafka, stream, 5) as load:
        # In the middle of a transaction of this one.
        kafka.await_(lambda: halted(writes), 60, writes.tail)
        own_broker.kill()
        writes.resume()
        kafka.await_(lambda: stays.get("/readyz")[0] == 503, 30, stays.tail)
        assert stays.get("/livez")[0] == 200, stays.log.read_text()
        used_s = cpu_seconds([stays.pid])
        time.sleep(AWAY_S)
        assert cpu_seconds([stays.pid]) - used_s < AWAY_SHARE_MAX * AWAY_S
        # Nothing can be released now, and that must not keep it.
        stop(leaves)
        own_broker.restart()
        load.await_taken(0.6)
        kafka.await_running(stays)
        kafka.await_(
            lambda: writes.process.poll() == RESTARTED or bool(writes.running()), 60, writes.tail
        )
        own_broker.pause()
        # Longer than a session, not long enough for anything to be given up.
        time.sleep(3)
        own_broker.resume()
    kafka.settle(90)
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))
    kafka.await_running(stays)
    stop(stays)


ASKING: Final = """
import sys, threading, time
from confluent_kafka.admin import AdminClient
from app.kafka.clients import for_admin
from app.kafka.group import GroupState

properties = for_admin({"bootstrap.servers": sys.argv[1]})
group = GroupState(lambda: AdminClient(properties), "group")
over = threading.Thread(target=sys.stdin.read)
over.start()
while over.is_alive():
    print("unsettled" if group.unsettled(1) else "silent", flush=True)
    time.sleep(0.05)
"""


def test_whoever_asks_about_its_group_outlives_an_outage(
    own_broker: Broker, tmp_path: Path
) -> None:
    path, command = tmp_path / "told", [sys.executable, "-c", ASKING, own_broker.bootstrap_servers]

    def told(what: str) -> None:
        eventually(lambda: path.read_text().split()[-1:] == [what], 60, path.read_text)

    with path.open("w") as out, subprocess.Popen(command, stdin=PIPE, stdout=out) as asking:
        assert asking.stdin is not None
        told("unsettled")
        own_broker.kill()
        told("silent")
        time.sleep(AWAY_S)
        own_broker.restart()
        told("unsettled")
        asking.stdin.close()
    assert asking.returncode == 0


class Told:
    """In place of a client's logger: whether it was told that there are no brokers."""

    def __init__(self) -> None:
        self.of_none = False

    def log(self, _level: int, text: str, *parts: object) -> None:
        """A line of the client's log."""
        self.of_none = self.of_none or ": 0 brokers," in text % parts


def heard_by(told: Told) -> dict[str, Any]:
    """The property that lets it hear a client."""
    return {"logger": told}


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Harness]:
    """At a broker that is fenced for half of the time: then it answers, and lists no brokers.

    Its session with the controller is shorter than the pause between two signs of life.
    """
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_NAME}
    fenced = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "4000"}
    with start_broker(fenced, environ=environ) as broker:
        kafka = Harness(broker.bootstrap_servers, tmp_path)
        try:
            for topic in (kafka.job.left, kafka.job.changelog):
                eventually(partial(_created, kafka, topic), 60, lambda: "no topic")
            yield kafka
        finally:
            kafka.close()


@pytest.mark.timeout(180)
def test_clients_that_were_told_of_no_brokers_find_them_again(forgetful: Harness) -> None:
    """Most of them: see `app.kafka.replaced`. One that cannot bootstrap anew never does."""
    topic, told = forgetful.job.left, [Told() for _ in range(CLIENTS)]
    servers = {"bootstrap.servers": forgetful.bootstrap_servers}
    talks = {**servers, "debug": "metadata", "group.id": "g"}
    consumers = [Consumer({**with_defaults(talks), **heard_by(one)}) for one in told]
    try:
        for consumer in consumers:
            consumer.assign([TopicPartition(topic, 0, 0)])

        def all_told() -> bool:
            for consumer in consumers:
                consumer.poll(0.01)
            return all(one.of_none for one in told)

        eventually(all_told, 60, lambda: f"told: {[one.of_none for one in told]}")
        eventually(partial(_produced, servers, topic), 60, lambda: "nothing is written")
        found: set[int] = set()

        def most_found() -> bool:
            found.update(
                number for number, one in enumerate(consumers) if _value(one, 0.01) == b"v"
            )
            return len(found) > CLIENTS / 2

        eventually(most_found, 60, lambda: f"only {found} of {CLIENTS} have found it")
    finally:
        for consumer in consumers:
            close_within(3, consumer.close)


@pytest.mark.timeout(180)
def test_whoever_asks_gets_an_answer_although_its_client_was_told_of_no_brokers(
    forgetful: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kafka.replaced.SILENT_S", 3)
    monkeypatch.setattr("app.kafka.authority.REQUEST_TIMEOUT_S", 1)
    config, chance = load_config(forgetful.write_config(), {}), Random(7)
    stopping = threading.Event()

    def asked(pause_s: float) -> int:
        authority = Authority(config, "asks", stopping)
        # A young client is told of none with its first answer, or with its second one.
        time.sleep(pause_s)
        return authority.stable(0)

    with ThreadPoolExecutor(ASKERS) as threads:
        answers = [threads.submit(asked, chance.uniform(0, 8)) for _ in range(ASKERS)]
        try:
            assert [answer.result(90) for answer in answers] == [0] * ASKERS
        finally:
            stopping.set()


def _created(kafka: Harness, topic: str) -> bool:
    with suppress(KafkaException):
        kafka.create_topic(topic, 1)
    return topic in kafka.cluster.admin.list_topics(timeout=5).topics


def _produced(servers: dict[str, str], topic: str) -> bool:
    """Whether a new producer gets a record through in time."""
    producer = Producer(with_defaults(servers))
    producer.produce(topic, b"v", partition=0)
    return producer.flush(10) == 0


def _value(consumer: Consumer, timeout_s: float) -> bytes | None:
    message = consumer.poll(timeout_s)
    return None if message is None or message.error() is not None else message.value()


def test_a_worker_stops_in_the_middle_of_a_takeover_that_hangs(
    kafka: Harness, own_broker: Broker
) -> None:
    kafka.create_topics(4)
    config = kafka.write_config()
    stream = random_stream(42, 12_000, keys=300, lanes=4, step=0.02)
    stream.send(kafka, kafka.job)
    first = kafka.start(config)
    kafka.settle()
    assert first.terminate() == 0
    second = kafka.start(config)
    kafka.await_(
        lambda: any(lane["phase"] in ON_THE_WAY for lane in lanes_of(second.port)),
        60,
        second.tail,
    )
    own_broker.pause()
    try:
        stop(second)
    finally:
        own_broker.resume()
    third = kafka.start(config)
    kafka.await_running(third)
    stream.check_log(kafka.read(kafka.job.output))


def test_an_end_of_a_transaction_that_comes_late_finds_nothing(tmp_path: Path) -> None:
    """Its connection broke, and the client has sent it again; it comes in the midst of a turn.

    It would commit half of that, were it a turn of the same producer. The other half never comes:
    the worker dies, and the next one runs the turn again.
    """
    with proxied_broker() as (proxy, address):
        kafka = Harness(address, tmp_path)
        try:
            kafka.create_topics(1)
            config = kafka.write_config()
            worker = victim(kafka, config, "STOP", "turn.flushed")
            kafka.await_running(worker)
            # Each is a turn of its own; in the third one the worker stops.
            kafka.send(kafka.job.left, b"k", encode(instant("l1", 10)))
            kafka.settle()
            proxy.hold_next_end()
            kafka.send(kafka.job.right, b"k", encode(instant("r1", 10)))
            kafka.settle()
            assert proxy.held is not None, "the second turn was ended twice"
            kafka.send(kafka.job.right, b"k", encode(instant("r2", 10)))
            kafka.flush()
            kafka.await_(lambda: halted(worker), 60, worker.tail)
            proxy.deliver()
            worker.kill()
            heir = kafka.start(config)
            kafka.settle()
            keys = [change.key for change in kafka.read(kafka.job.output)]
            assert sorted(map(str, keys)) == ["b'L:l1|R:r1'", "b'L:l1|R:r2'"]
            assert "a second end of the last transaction may come" in worker.log.read_text()
            stop(heir)
        finally:
            kafka.close()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("frozen", [False, True], ids=["killed", "frozen"])
def test_a_broker_that_is_away_for_minutes_is_waited_for(
    kafka: Harness, own_broker: Broker, frozen: bool
) -> None:
    """Longer than any session, transaction, request, and than a poll may take."""
    kafka.create_topics(4)
    config = kafka.write_config(text="[turn]\nmax_records = 200\n")
    stream = random_stream(43, 40_000, keys=500, lanes=4, step=0.02)
    workers = [kafka.start(config), kafka.start(config)]
    kafka.await_running(*workers)
    with Load(kafka, stream, 20) as load:
        load.await_taken(0.3)
        (own_broker.pause if frozen else own_broker.kill)()
        until = time.monotonic() + MINUTES_S
        while time.monotonic() < until:
            for worker in workers:
                kafka.await_(lambda: worker.get("/readyz")[0] == 503, 60, worker.tail)  # noqa: B023
                assert worker.get("/livez")[0] == 200, worker.log.read_text()
            time.sleep(1)
        for worker in workers:
            assert len([*Path(f"/proc/{worker.pid}/task").iterdir()]) < THREADS_MAX
        (own_broker.resume if frozen else own_broker.restart)()
    kafka.settle(180)
    # None of them has ended.
    kafka.await_running(*workers)
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))
    for worker in workers:
        stop(worker)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_job_goes_on_at_once_after_its_connections_were_idle(tmp_path: Path) -> None:
    """A broker closes what is idle for ten minutes; this one is quicker.

    But slower than clients count a connection as a failed one, after which they wait for longer.
    """
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_NAME}
    with start_broker({"connections.max.idle.ms": str(IDLE_MS)}, environ=environ) as broker:
        kafka = Harness(broker.bootstrap_servers, tmp_path)
        try:
            kafka.create_topics(2)
            worker = kafka.start(kafka.write_config())
            kafka.await_running(worker)
            time.sleep(2.5 * IDLE_MS / 1000)
            stream = random_stream(44, 300, keys=40, lanes=2, step=0.02)
            stream.send(kafka, kafka.job)
            # Less than any time-out of a client.
            kafka.settle(5)
            stream.check_log(kafka.read(kafka.job.output))
            stop(worker)
        finally:
            kafka.close()
