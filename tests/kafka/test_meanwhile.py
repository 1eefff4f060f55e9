"""While one lane of a worker is on its way, whatever holds it up, nothing else waits for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import encode, instant
from tests.kafka.victims import halted, victim
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from tests.kafka.harness import Harness
    from tests.kafka.proxy import Proxy
    from tests.kafka.workers import Worker

LANES: Final = 2
WITHIN_S: Final = 40
HELD_UP_S: Final = 20
"""Results of others come within a second meanwhile; where they wait, they wait for ever."""
LONG_TRANSACTIONS: Final = '[kafka.producer]\n"transaction.timeout.ms" = 120000\n'
"""So that the broker does not end them by itself."""


@pytest.fixture
def kafka(proxied_kafka: Harness) -> Harness:
    return proxied_kafka


class Pairs:
    """Rows that match, each pair of a time of its own; in a job with one output partition."""

    def __init__(self, kafka: Harness) -> None:
        self._kafka = kafka
        self._at = 0
        self.names: set[str] = set()
        for topic in (kafka.job.left, kafka.job.right):
            kafka.create_topic(topic, LANES)
        kafka.create_topic(kafka.job.output, 1, {"cleanup.policy": "compact"})

    def send(self, lane: int) -> None:
        """One pair into a lane: the left row is taken by a turn before the right one comes."""
        self._at += 1
        for side, topic in (("l", self._kafka.job.left), ("r", self._kafka.job.right)):
            self._kafka.send(topic, b"k", encode(instant(f"{side}{self._at}", self._at)), lane)
            self._kafka.flush()
            self._kafka.await_(partial(self._taken, topic, lane), HELD_UP_S, lambda: "not taken")
        self.names.add(f"L:l{self._at}|R:r{self._at}")

    def _taken(self, topic: str, lane: int) -> bool:
        ends = {(topic, lane): self._kafka.sent[topic, lane]}
        return self._kafka.cluster.reached(self._kafka.job.name, ends)


def phases(worker: Worker) -> dict[int, str]:
    return {lane["lane"]: lane["phase"] for lane in lanes_of(worker.port)}


def test_results_behind_a_dead_writers_are_seen_while_its_lane_is_restored(
    kafka: Harness, proxy: Proxy
) -> None:
    """What it left open in the output is ended at once, not when the lane has been restored."""
    pairs = Pairs(kafka)
    config = kafka.write_config(text=LONG_TRANSACTIONS)
    healthy, dying = kafka.start(config), victim(kafka, config, "KILL", "turn.logged")
    kafka.await_(lambda: all(len(one.running()) == 1 for one in (healthy, dying)), WITHIN_S, str)
    (own,), (orphan,) = healthy.running(), dying.running()
    pairs.send(orphan)
    kafka.settle()
    before = set(pairs.names)
    proxy.keep_back(lambda _kind, client: client.endswith("-restore"))
    kafka.send(kafka.job.right, b"k", encode(instant("r1b", 1)), orphan)  # Its third turn.
    kafka.flush()
    kafka.await_(lambda: halted(dying), WITHIN_S, dying.tail)
    kafka.await_(lambda: phases(healthy).get(orphan) == "restoring", WITHIN_S, healthy.tail)
    pairs.send(own)
    kafka.await_matches(pairs.names, HELD_UP_S)
    assert phases(healthy) == {own: "running", orphan: "restoring"}
    assert before < pairs.names
    proxy.go_on()
    kafka.await_matches({*pairs.names, "L:l1|R:r1b"}, WITHIN_S)
