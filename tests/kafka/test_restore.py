"""Restores that take long, are interrupted, or find less of the changelog than there was."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from app.kafka.clients import look_up, with_defaults
from state.checkpoint import decode_turn
from tests.kafka.avro import encode, instant
from tests.kafka.reading import QUIET, live
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 3
PAIRS: Final = 25
LONGER_THAN_A_SESSION_S: Final = 2.5
SLOW: Final = (
    # One record at a time, and a rest after each.
    '[kafka.consumer]\n"session.timeout.ms" = 2000\n"heartbeat.interval.ms" = 200\n'
    '"queued.min.messages" = 1\n"fetch.message.max.bytes" = 400\n"fetch.queue.backoff.ms" = 100\n'
)
WITHIN_S: Final = 60
CONNECTED_S: Final = 0.7
"""A client that has just connected asks for all there is to ask."""
FIRST_RECORD_S: Final = 0.3
"""Ten times what it takes; the client's timer of a second would make it a half in the middle."""


class Rows:
    """Pairs of rows that match, lane by lane; each stands at a time of its own."""

    def __init__(self, kafka: Harness) -> None:
        self._kafka = kafka
        self._at = dict.fromkeys(range(LANES), 0)
        self.expected: set[str] = set()

    def send(self, lane: int, pairs: int) -> None:
        """So many pairs into a lane; returns when they are sent."""
        for _ in range(pairs):
            at = self._at[lane] = self._at[lane] + 1
            for side, topic in (("l", self._kafka.job.left), ("r", self._kafka.job.right)):
                value = encode(instant(f"{side}{lane}-{at}", at))
                self._kafka.send(topic, b"key-%d" % at, value, lane)
            self.expected.add(f"L:l{lane}-{at}|R:r{lane}-{at}")
        self._kafka.flush()

    def taken(self, lane: int) -> bool:
        """Whether all that was sent into a lane is committed."""
        ends = {place: end for place, end in self._kafka.sent.items() if place[1] == lane}
        return self._kafka.cluster.reached(self._kafka.job.name, ends)

    def check(self) -> None:
        """Once all is taken, each pair is a match, and was written once."""
        self._kafka.settle()
        log = self._kafka.read(self._kafka.job.output)
        assert sorted(change.key or b"" for change in log) == sorted(
            name.encode() for name in self.expected
        )


def phase(worker: Worker, lane: int) -> str | None:
    """Where a lane is with this worker, if it has it."""
    found = {one["lane"]: one["phase"] for one in lanes_of(worker.port)}
    return found.get(lane)


def epochs(worker: Worker) -> dict[int, int]:
    return {one["lane"]: one["epoch"] for one in lanes_of(worker.port)}


def with_history(kafka: Harness) -> tuple[Rows, Path]:
    """A job that has run: one lane has a long changelog, the others a short one."""
    kafka.create_topics(LANES)
    first = kafka.start(kafka.write_config(text="[turn]\nmax_records = 1\n"))
    kafka.await_running(first)
    rows = Rows(kafka)
    rows.send(0, PAIRS)
    for lane in range(1, LANES):
        rows.send(lane, 2)
    kafka.settle()
    assert first.terminate() == 0
    kafka.quick_session = False
    return rows, kafka.write_config(name="slow.toml", text=SLOW)


def test_an_assignment_brings_its_first_record_at_once(kafka: Harness) -> None:
    kafka.create_topics(1)
    kafka.send(kafka.job.left, b"key", encode(instant("l1", 1)), 0)
    kafka.flush()
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "nobody"}
    consumers = [Consumer(with_defaults(properties)) for _ in range(5)]
    for consumer in consumers:
        look_up(consumer, kafka.job.left)
    time.sleep(CONNECTED_S)
    took = []
    for consumer in consumers:
        began = time.monotonic()
        consumer.assign([TopicPartition(kafka.job.left, 0, 0)])
        (record,) = consumer.consume(1, 5)
        took.append(time.monotonic() - began)
        assert record.key() == b"key"
        consumer.close()
    assert median(took) < FIRST_RECORD_S


def test_a_long_restore_holds_up_no_other_lane(kafka: Harness) -> None:
    rows, slow = with_history(kafka)
    worker = kafka.start(slow)
    others = list(range(1, LANES))
    kafka.await_(lambda: worker.running() == others, WITHIN_S, worker.tail)
    assert phase(worker, 0) == "restoring"
    began = time.monotonic()
    claimed = epochs(worker)
    while time.monotonic() < began + LONGER_THAN_A_SESSION_S:
        for lane in others:
            rows.send(lane, 1)
        kafka.await_(lambda: all(map(rows.taken, others)), WITHIN_S, worker.tail)
        assert phase(worker, 0) == "restoring", "not long enough to say anything"
    assert worker.get("/livez")[0] == 200
    assert worker.get("/readyz") == (503, "lane 0 is restoring\n")
    # Its session has not expired, and nobody has been taken over anew.
    assert " lost " not in worker.log.read_text()
    assert {lane: epochs(worker)[lane] for lane in others} == {
        lane: claimed[lane] for lane in others
    }
    kafka.await_running(worker)
    rows.check()


def events(worker: Worker, lane: int) -> list[str]:
    """What happened to a lane on a worker, from its log."""
    lines = worker.log.read_text().splitlines()
    return [line.split()[3] for line in lines if f" lane={lane} " in line]


def test_the_group_moves_on_during_a_restore(kafka: Harness) -> None:
    rows, slow = with_history(kafka)
    state = {"SPANJOIN_STATE__DIR": str(kafka.directory / "state-2")}
    worker = kafka.start(slow)
    kafka.await_(lambda: phase(worker, 0) == "restoring", WITHIN_S, worker.tail)
    # Another one joins, and the first one goes, and comes back over what it has restored so far.
    other = kafka.start(slow)
    kafka.await_(lambda: bool(lanes_of(other.port)), WITHIN_S, other.tail)
    rows.send(1, 1)
    assert worker.terminate() == 0
    kafka.await_(lambda: phase(other, 0) == "restoring", WITHIN_S, other.tail)
    back = kafka.start(slow, environ=state)
    kafka.await_(lambda: bool(lanes_of(back.port)), WITHIN_S, back.tail)
    rows.send(2, 1)
    other.kill()
    kafka.await_(lambda: back.running() == list(range(LANES)), WITHIN_S, back.tail)
    rows.send(0, 1)
    rows.check()
    interrupted = [one for one in (worker, other) if events(one, 0)[-1] in ("restore", "revoked")]
    assert interrupted == [worker, other]


# --- less of the changelog than there was ---------------------------------------------------------


def let_go(kafka: Harness, below: int) -> None:
    """Truncate the changelog of lane 0."""
    place = TopicPartition(kafka.job.changelog, 0, below)
    kafka.cluster.admin.delete_records([place])[place].result(30)


def refused(kafka: Harness, config: Path, state: Path) -> str:
    """What a worker says that does not start: exit 2 and one line, and nothing was moved."""
    before = (kafka.read(kafka.job.output), kafka.cluster.ends(kafka.job.changelog))
    worker = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(state)})
    worker.expect_end()
    assert worker.wait(WITHIN_S) == 2, worker.tail()
    lines = worker.log.read_text().splitlines()
    words = [line for line in lines if line.startswith("spanjoin: ")]
    assert words == lines[-1:], worker.tail()
    assert before == (kafka.read(kafka.job.output), kafka.cluster.ends(kafka.job.changelog))
    return words[0]


def abandon(kafka: Harness) -> None:
    """Somebody's transaction in the changelog that is aborted: it leaves a marker at the end."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.job.name, **QUIET}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(kafka.job.changelog, b"never", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)


def test_a_changelog_that_was_let_go_of(kafka: Harness) -> None:
    """Up to what is needed it restores, with nothing but markers at its end; beyond, it stops."""
    kafka.unchecked = "without its changelog nobody knows how far the job came"
    kafka.create_topics(1)
    config = kafka.write_config(text="[turn]\nmax_records = 10\n")
    worker = kafka.start(config)
    rows = Rows(kafka)
    rows.send(0, 200)
    kafka.settle()
    assert worker.terminate() == 0
    first = {}
    for change in kafka.read(kafka.job.changelog):
        turn = decode_turn(change.value or b"")
        for bucket, entry in turn.buckets.items():
            first[bucket] = entry.first_offset
            if not entry.rows:
                del first[bucket]
        newest = change.offset
    needed = min([*first.values(), newest])
    assert 0 < needed < newest
    abandon(kafka)
    let_go(kafka, needed)
    worker = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(kafka.directory / "new")})
    rows.send(0, 1)
    rows.check()
    assert " wipe " not in worker.log.read_text()
    assert worker.terminate() == 0
    # Everything: what is left are markers, and the group's offsets are ahead of all that is known.
    abandon(kafka)
    (end,) = kafka.cluster.ends(kafka.job.changelog).values()
    let_go(kafka, end - 1)
    for state in ("new", "newer"):
        line = refused(kafka, config, kafka.directory / state)
        assert "the changelog was deleted or cut" in line
    assert live(kafka.read(kafka.job.output)).keys() == rows.expected
