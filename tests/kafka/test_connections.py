"""A connection breaks on which the ends of a log are asked for; a log is cut that is looked at."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from app.config import load_config
from app.errors import Unreachable
from app.kafka.authority import Authority
from app.kafka.clients import Listener
from app.kafka.cluster import Cluster, Extent
from rebalance.fence import Survey, establish, fence_tail
from rebalance.lanes import Extent as Log
from tests.kafka.avro import encode, instant
from tests.kafka.commands import command, done
from tests.kafka.proxy import (
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    LIST_OFFSETS,
    METADATA,
    Proxy,
)
from tests.kafka.reading import QUIET
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.harness import Harness

ANSWERED_WITHIN_S: Final = 5.0
"""Less than a look at a tail may take that finds nothing."""
PATIENCE_S: Final = 3.0
ALIKE_AFTER_S: Final = 2.5
"""For so long after it was made a connection's failure has other words."""
CRASHED: Final = 1


@pytest.fixture
def kafka(proxied_kafka: Harness) -> Harness:
    return proxied_kafka


def the_nth(
    number: int, suffix: str = "", wanted: int = LIST_OFFSETS
) -> tuple[Callable[[int, str], bool], Callable[[], bool]]:
    """Breaks at one such request, of a client whose id ends like this; and whether it has."""
    seen: list[str] = []

    def breaks(kind: int, client: str) -> bool:
        if kind == wanted and client.endswith(suffix):
            seen.append(client)
            return len(seen) == number
        return False

    return breaks, lambda: len(seen) >= number


@pytest.mark.parametrize("number", [2, 4, 7, 12, 13])
def test_a_lane_runs_although_a_connection_breaks_while_its_ends_are_asked_for(
    kafka: Harness, proxy: Proxy, number: int
) -> None:
    kafka.create_topics(1)
    kafka.send(kafka.job.left, b"k", encode(instant("l1", 10)))
    kafka.send(kafka.job.right, b"k", encode(instant("r1", 10)))
    kafka.flush()
    breaks, broken = the_nth(number, "-admin")
    proxy.break_at(breaks)
    worker = kafka.start(kafka.write_config())
    kafka.await_running(worker)
    assert broken(), "fewer of them than that were asked for"
    kafka.await_matches(["L:l1|R:r1"])
    assert worker.terminate() == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_command_finds_the_ends_of_a_topic_although_a_connection_breaks(
    kafka: Harness, proxy: Proxy, number: int
) -> None:
    kafka.create_topics(1)
    kafka.send(kafka.job.left, b"k", b"v")
    kafka.flush()
    cluster = Cluster(load_config(kafka.write_config(), {}))
    breaks, broken = the_nth(number)
    proxy.break_at(breaks)
    assert cluster.extents(kafka.job.left, 1) == [Extent(0, 1, 1)]
    assert broken()


@pytest.mark.parametrize("kind", [DESCRIBE_GROUPS, DESCRIBE_CONFIGS])
def test_a_command_that_only_reads_asks_again_where_a_connection_breaks(
    kafka: Harness, proxy: Proxy, kind: int
) -> None:
    kafka.create_topics(1)
    cluster = Cluster(load_config(kafka.write_config(), {}))
    breaks, broken = the_nth(1, wanted=kind)
    proxy.break_at(breaks)
    assert cluster.members(kafka.job.name) == []
    assert set(cluster.topics([kafka.job.left])) == {kafka.job.left}
    assert broken()
    breaks, broken = the_nth(1, wanted=kind)
    proxy.break_at(breaks)
    done("doctor", "-c", str(kafka.write_config()))
    assert broken()


@pytest.mark.parametrize("behind", [False, True], ids=["not heard", "heard"])
def test_a_reset_whose_last_connection_breaks_is_ended_by_another(
    kafka: Harness, proxy: Proxy, behind: bool
) -> None:
    """It deletes the group then; the broker may or may not have heard of that."""
    kafka.create_topics(1)
    config = kafka.write_config()
    kafka.send(kafka.job.left, b"k", encode(instant("l1", 10)))
    kafka.send(kafka.job.right, b"k", encode(instant("r1", 10)))
    worker = kafka.start(config)
    kafka.settle()
    assert worker.terminate() == 0
    breaks, broken = the_nth(1, wanted=DELETE_GROUPS)
    (proxy.break_behind if behind else proxy.break_at)(breaks)
    ended = command("reset", "-c", str(config))
    assert (ended.code, broken()) == (CRASHED, True), ended
    assert "broke before the answer came" in ended.err, ended
    assert ended.err.endswith(": run the command again\n"), ended
    proxy.go_on()
    assert kafka.matches() == {}
    done("reset", "-c", str(config))
    again = kafka.start(config)
    kafka.await_matches(["L:l1|R:r1"])
    assert again.terminate() == 0


def test_a_command_says_so_when_a_leader_does_not_answer(kafka: Harness, proxy: Proxy) -> None:
    kafka.create_topics(1)
    cluster = Cluster(load_config(kafka.write_config(), {}), PATIENCE_S)
    proxy.break_at(lambda kind, _client: kind == LIST_OFFSETS)
    with pytest.raises(Unreachable, match=r"^no broker answered at .*did not answer"):
        cluster.extents(kafka.job.left, 1)


class Slept(Authority):
    """It slept after its first look at where the changelog is undecided."""

    def __init__(self, kafka: Harness, undecided: Log) -> None:
        super().__init__(load_config(kafka.write_config(), {}), "slept", threading.Event())
        self._stable, self._log = [undecided.start], [undecided]

    def stable(self, lane: int) -> int:
        """As it was then, the first time."""
        return self._stable.pop() if self._stable else super().stable(lane)

    def changelog(self, lane: int) -> Log:
        """Likewise."""
        return self._log.pop() if self._log else super().changelog(lane)


def test_a_tail_that_was_cut_meanwhile_is_not_looked_for_any_more(kafka: Harness) -> None:
    topic = kafka.job.changelog
    kafka.create_topic(topic, 1)
    names = [f"{kafka.job.name}-{number}" for number in range(2)]
    owner, heir = (transaction(kafka, name) for name in names)
    undecided = Log(0, 2)
    for producer in (owner, heir):
        producer.commit_transaction(10)
    begun = transaction(kafka, f"{kafka.job.name}-2")
    cut = TopicPartition(topic, 0, 3)
    kafka.cluster.admin.delete_records([cut])[cut].result(30)
    began = time.monotonic()
    fence_tail(Slept(kafka, undecided), 0, frozenset())
    begun.commit_transaction(10)  # It was left alone.
    found = establish(Slept(kafka, undecided), Survey(0, 2, names[1], frozenset()))
    assert found is None, "there is more to replay"
    assert time.monotonic() - began < ANSWERED_WITHIN_S


def transaction(kafka: Harness, name: str) -> Producer:
    """One with a record in the changelog, which the broker has."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers, **QUIET}
    producer = Producer({**servers, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(kafka.job.changelog, b"a turn", partition=0, headers={"writer": name.encode()})
    assert producer.flush(10) == 0
    return producer


def test_each_time_that_a_connection_breaks_is_heard_of(kafka: Harness, proxy: Proxy) -> None:
    """Of failures that are alike the client tells the first ones, and no more for 30 s."""
    listener = Listener()
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer({**listener.properties(servers), "transactional.id": kafka.job.name})
    producer.init_transactions(30)

    def heard() -> bool:
        producer.poll(0.1)
        return bool(listener.heard)

    for _ in range(4):
        time.sleep(ALIKE_AFTER_S)
        listener.heard = ""
        assert not heard()
        breaks, broken = the_nth(1, wanted=METADATA)
        proxy.break_at(breaks)
        with contextlib.suppress(KafkaException):
            producer.list_topics(timeout=5)
        proxy.go_on()
        assert broken()
        eventually(heard, 10, lambda: "a connection broke, and nobody has heard of it")
