"""Input that was there before: read in the order of its events' times, whenever it was written."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pytest

from schemas.records import Event, Kind, Reason, Rejected, Side
from tests.kafka.avro import Event as Sendable
from tests.kafka.avro import encode, instant
from tests.kafka.harness import Job
from tests.kafka.lane import LATENESS, LEFT, MAX_INTERVAL, RIGHT
from tests.kafka.load import Load
from tests.kafka.reading import history, live
from tests.kafka.streams import Sent, random_stream
from tests.oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemas.records import Record
    from tests.kafka.harness import Harness

LANES: Final = 3
EVENTS: Final = 700
"""Of each side in each lane: the oracle compares each row with each."""
KEYS: Final = (b"a", b"b", b"c", b"d")


def second_job(kafka: Harness) -> Job:
    """Another job over the same input."""
    job = Job()
    job.left, job.right = kafka.job.left, kafka.job.right
    whole = {"cleanup.policy": "compact", "segment.ms": str(2**63 - 1)}
    kafka.create_topic(job.output, 1, whole)
    return job


class Wild:
    """One side of one lane without any good manners: late, repeated, taken back at any time."""

    def __init__(self, chance: random.Random, side: Side, lane: int) -> None:
        self.chance = chance
        self.name = f"{side.name[0]}{lane}"
        self.known: list[tuple[bytes, Sendable]] = []

    def records(self) -> Iterator[tuple[bytes | None, Sendable | None]]:
        """Key and event in the log's order; None is junk."""
        now = 0
        for number in range(EVENTS):
            now += self.chance.choice((0, 0, 0, 1, 1, 2, 3))
            if self.chance.random() < 0.001:
                now += 200
            roll = self.chance.random()
            if roll < 0.65 or not self.known:
                yield self.fresh(number, now)
            elif roll < 0.8:
                key, event = self.chance.choice(self.known[-60:])
                payload, start = self.chance.choice(
                    ((None, event.start), (b"again", event.start), (None, event.start + 1))
                )
                if start <= event.ts:
                    yield key, event._replace(payload=payload, start=start)
            elif roll < 0.95:
                key, event = self.chance.choice(self.known[-120:])
                ts = self.chance.choice((event.ts, now + 500))
                yield key, event._replace(kind="RETRACT", ts=ts)
            elif roll < 0.96:
                key, event = self.fresh(number, now)
                yield key, event._replace(kind="RETRACT")
                yield key, event
            elif roll < 0.98:
                yield None, Sendable("", now, 0, 0, "WATERMARK")
            else:
                yield b"a", None

    def fresh(self, number: int, now: int) -> tuple[bytes, Sendable]:
        ts = now - int(self.chance.expovariate(1 / 6))
        start = ts - self.chance.randint(0, MAX_INTERVAL // 2)
        end = ts + self.chance.randint(0, MAX_INTERVAL // 2)
        event = Sendable(f"{self.name}.{number}", ts, start, end)
        self.known.append((self.chance.choice(KEYS), event))
        return self.known[-1]


def in_order(sides: list[list[Record]]) -> list[tuple[Side, Record]]:
    """The smaller time first, left on a tie; a retraction, or junk, with what came before it."""
    ranked = []
    for side, records in zip(Side, sides, strict=True):
        top = -(2**80)
        for place, record in enumerate(records):
            if isinstance(record, Event) and record.kind != Kind.RETRACT:
                top = max(top, record.ts)
            ranked.append((top, side, place, record))
    ranked.sort(key=lambda entry: entry[:3])
    return [(side, record) for _, side, _, record in ranked]


def wild_history(kafka: Harness, seed: int) -> dict[int, Oracle]:
    """Send it; returns by lane what must come of it."""
    chance = random.Random(seed)
    oracles = {}
    for lane in range(LANES):
        sides: list[list[Record]] = [[], []]
        for side in Side:
            topic = (kafka.job.left, kafka.job.right)[side]
            for offset, (key, event) in enumerate(Wild(chance, side, lane).records()):
                value = b"junk" if event is None else encode(event)
                kafka.send(topic, key, value, lane)
                if event is None:
                    sides[side].append(Rejected(offset, Reason.UNDECODABLE, "", None))
                    continue
                name, ts, start, end, kind, _ = event
                sides[side].append(
                    Event(offset, key, name, ts, start, end, Kind[kind], value, None)
                )
        oracles[lane] = Oracle(LATENESS, MAX_INTERVAL)
        for side, record in in_order(sides):
            oracles[lane].feed(side, record)
    kafka.flush()
    return oracles


def check(kafka: Harness, job: Job, oracles: dict[int, Oracle]) -> None:
    """The logs hold exactly what the oracle emitted and rejected, lane by lane in its order."""
    kafka.settle(job=job)
    expected: dict[str, list[bool]] = defaultdict(list)
    for oracle in oracles.values():
        for emitted in oracle.emitted:
            expected[emitted.match_id].append(emitted.start is not None)
    found = history(kafka.read(job.output))
    assert {k: [v is not None for v in values] for k, values in found.items()} == expected
    rejects = [
        (one.partition, *[one.headers[name].decode() for name in ("topic", "offset", "reason")])
        for one in kafka.read(job.rejects)
    ]
    assert rejects == [
        (lane, (job.left, job.right)[side], str(offset), str(reason))
        for lane, oracle in oracles.items()
        for side, offset, reason in oracle.rejects
    ]
    assert {reason for *_, reason in rejects} >= {
        "undecodable", "late", "conflicting_duplicate", "retract_after_horizon",
    }  # fmt: skip


def await_taken(kafka: Harness, job: Job, count: int) -> None:
    places = [(topic, lane) for topic in (job.left, job.right) for lane in range(LANES)]

    def taken() -> int:
        return sum(kafka.cluster.positions(job.name, places).values())

    kafka.await_(lambda: taken() >= count, 60, lambda: f"{taken()} of {count}")


def test_a_history_is_joined_as_if_read_in_order_by_any_worker(kafka: Harness) -> None:
    """Wild input: what is late depends on the order. One worker, then one that is killed."""
    kafka.create_topics(LANES)
    oracles = wild_history(kafka, 3)
    kafka.start(kafka.write_config())
    check(kafka, kafka.job, oracles)

    again = second_job(kafka)
    small = kafka.write_config(text="[turn]\nmax_records = 5\n", name="again.toml", job=again)
    worker = kafka.start(small)
    await_taken(kafka, again, EVENTS * LANES)
    worker.kill()
    kafka.start(small)
    check(kafka, again, oracles)


@pytest.mark.parametrize("first", [LEFT, RIGHT])
def test_one_side_may_come_long_before_the_other(kafka: Harness, first: str) -> None:
    kafka.create_topics(LANES)
    stream = random_stream(21, 6_000, keys=200, lanes=LANES, step=0.02)
    by_side: dict[str, list[Sent]] = {LEFT: [], RIGHT: []}
    for record in stream.records:
        by_side[record.side].append(record)
    kafka.start(kafka.write_config())
    for side in (first, RIGHT if first == LEFT else LEFT):
        for _, key, value, partition in by_side[side]:
            topic = {LEFT: kafka.job.left, RIGHT: kafka.job.right}[side]
            kafka.send(topic, key, value, partition)
        kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def test_a_history_from_the_beginning_gives_the_matches_there_were_live(kafka: Harness) -> None:
    kafka.create_topics(LANES)
    stream = random_stream(22, 9_000, keys=200, lanes=LANES, step=0.02)
    kafka.start(kafka.write_config())
    with Load(kafka, stream, 3):
        pass
    kafka.settle()
    log = kafka.read(kafka.job.output)
    stream.check_log(log)

    again = second_job(kafka)
    kafka.start(kafka.write_config(name="again.toml", job=again))
    kafka.settle(job=again)
    replayed = kafka.read(again.output)
    stream.check_log(replayed)
    assert live(replayed) == live(log)
    stream.check_rejects(kafka.read(again.rejects))


def test_a_job_may_begin_with_what_comes_after_it(kafka: Harness) -> None:
    kafka.create_topics(1)
    for topic, name in ((kafka.job.left, "l0"), (kafka.job.right, "r0")):
        kafka.send(topic, b"k", encode(instant(name, 10)))
    kafka.flush()
    config = kafka.write_config(text='start = "latest"\n---\n')
    worker = kafka.start(config)
    kafka.await_running(worker)
    kafka.send(kafka.job.left, b"k", encode(instant("l1", 10)))
    kafka.settle()
    assert worker.terminate() == 0
    # It goes on where it was, and not at the end again.
    kafka.send(kafka.job.right, b"k", encode(instant("r1", 10)))
    kafka.flush()
    kafka.start(config)
    kafka.settle()
    assert set(kafka.matches()) == {"L:l1|R:r1"}
