"""Inputs that are changed under a job: it stops with one line, moves nothing, and stays stopped.

And the edge that reads them, where only the real client shows what it does.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from app.config import load_config
from app.errors import Renew
from app.formats import make_codec
from app.idleness import Idleness
from app.intake import Intake
from app.kafka.authority import Authority
from app.kafka.inputs import Inputs, Polled
from app.kafka.limits import Limits, producer_properties
from app.kafka.transactions import LaneWrite, Topics, Transactions
from app.suspicion import Suspicion
from schemas.records import Side
from tests.kafka.avro import encode, instant
from tests.kafka.harness import Harness, Job
from tests.kafka.workers import eventually
from tests.unit.test_process import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from app.config import Config
    from tests.kafka.reading import Change
    from tests.kafka.workers import Worker

STOPPED_WITHIN_S: Final = 60
FETCH_WAITS_S: Final = 0.5
LANES: Final = 12
STARTS: Final = 3
ATTEMPTS: Final = 5
RACES_MAX: Final = 20
"""Of a race that is won most times, if nothing else is on at the machine."""
REBALANCED_WITHIN_S: Final = 2.0
LANES_WITHIN_S: Final = 0.4
OLD_RECORDS: Final = 8
"""In a batch whose beginning is to be taken: fewer than that, and more than were taken before."""
GOES_BACK_WITHIN_S: Final = 1.2
"""Half a second after the first answer the client asks again, and goes where it is told to."""


@dataclass
class Changed:
    """A job whose inputs something is done to."""

    kafka: Harness
    job: Job
    config: Path
    worker: Worker

    def topic(self, side: str) -> str:
        return {"left": self.job.left, "right": self.job.right}[side]

    def send(self, side: str, at: int) -> None:
        """A row that is named after its side and time."""
        value = encode(instant(f"{side[0]}{at}", at))
        self.kafka.send(self.topic(side), b"k", value, 0)
        self.kafka.flush()

    def restart(self) -> None:
        """Start the worker again, over its state."""
        state = {"SPANJOIN_STATE__DIR": str(self.kafka.directory / self.job.name)}
        self.worker = self.kafka.start(self.config, environ=state)
        self.worker.expect_end()

    def results(self) -> list[Change]:
        """What the job has written."""
        return self.kafka.read(self.job.output) + self.kafka.read(self.job.rejects)

    def refused(self) -> str:
        """The last words of the worker: exit 2 and one line that is no traceback."""
        assert self.worker.wait(STOPPED_WITHIN_S) == 2, self.worker.tail()
        lines = self.worker.log.read_text().splitlines()
        words = [line for line in lines if line.startswith("spanjoin: ")]
        assert words == lines[-1:], self.worker.tail()
        return words[0]


def trim(kafka: Harness, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the records of each partition below an offset."""
    places = [TopicPartition(topic, *place) for place in offsets.items()]
    for future in kafka.cluster.admin.delete_records(places).values():
        future.result(30)


def cut(job: Changed, side: str) -> None:
    """Records are deleted before they were read."""
    job.worker.pause()
    job.send(side, 20)  # A fetch that waits at the broker may bring this one.
    time.sleep(FETCH_WAITS_S)
    job.send(side, 30)
    trim(job.kafka, job.topic(side), {0: 3})
    job.worker.resume()


def delete(job: Changed, side: str) -> None:
    topic, cluster = job.topic(side), job.kafka.cluster
    cluster.admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: not cluster.partitions(topic), 30, lambda: f"{topic} is still there")


def recreate(job: Changed, side: str) -> None:
    delete(job, side)
    job.kafka.create_topic(job.topic(side), 2)
    job.kafka.producer.list_topics(job.topic(side), timeout=30)
    job.send(side, 10)


def recreate_while_stopped(job: Changed, side: str) -> None:
    assert job.worker.terminate() == 0
    recreate(job, side)
    job.restart()


def grow(job: Changed, *sides: str) -> None:
    for side in sides:
        topic = job.topic(side)
        grown = job.kafka.cluster.admin.create_partitions([NewPartitions(topic, 3)])
        grown[topic].result(30)


CHANGES: Final[Sequence[tuple[Callable[[Changed], None], str, str, str]]] = (
    (lambda job: cut(job, "left"), "left", "deleted before they were read", "past the position"),
    (lambda job: cut(job, "right"), "right", "deleted before they were read", "past the position"),
    (lambda job: delete(job, "left"), "left", "was deleted", "does not exist"),
    (lambda job: delete(job, "right"), "right", "was deleted", "does not exist"),
    (lambda job: recreate(job, "left"), "left", "created", "created"),
    (lambda job: recreate(job, "right"), "right", "created", "created"),
    (lambda job: recreate_while_stopped(job, "left"), "left", "created", "created"),
    (lambda job: grow(job, "left"), "left", "2 to 3 partitions", "3 partitions"),
    (lambda job: grow(job, "right"), "right", "2 to 3 partitions", "3 partitions"),
    (lambda job: grow(job, "left", "right"), "left", "2 to 3 partitions", "3"),
)
"""What is done, to which side, what the running job says of it, and what the next start says."""


def job_that_runs(kafka: Harness) -> Changed:
    job = Job()
    kafka.create_topics(2, job)
    config = kafka.write_config(name=f"{job.name}.toml", job=job)
    changed = Changed(kafka, job, config, None)  # type: ignore[arg-type]  # it starts now
    changed.restart()
    for side in ("left", "right"):
        changed.send(side, 10)
    return changed


def test_inputs_that_are_changed_stop_the_job(kafka: Harness) -> None:
    """All at once, each a job of its own: noticing takes seconds, and they have nothing to do."""
    kafka.quick_session = False
    jobs = [job_that_runs(kafka) for _ in CHANGES]
    for job in jobs:
        kafka.settle(job=job.job)
    before = [job.results() for job in jobs]
    assert [len(log) for log in before] == [1] * len(jobs)
    for job, (change, *_) in zip(jobs, CHANGES, strict=True):
        change(job)
    lines = [job.refused() for job in jobs]
    for job in jobs:
        job.restart()
    again = [job.refused() for job in jobs]
    for job, line, line_again, (_, side, words, words_again) in zip(
        jobs, lines, again, CHANGES, strict=True
    ):
        assert job.topic(side) in line
        assert words in line
        assert job.job.name in line_again
        assert words_again in line_again
    assert [job.results() for job in jobs] == before


def test_inputs_that_were_trimmed_after_they_were_read_stop_nothing(kafka: Harness) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config()
    state = {"SPANJOIN_STATE__DIR": str(kafka.directory / "state")}
    expected = set()
    for at in range(STARTS):
        worker = kafka.start(config, environ=state)
        for lane in range(LANES):
            for side, topic in (("l", kafka.job.left), ("r", kafka.job.right)):
                kafka.send(topic, b"key-%d" % at, encode(instant(f"{side}{lane}-{at}", at)), lane)
            expected.add(f"L:l{lane}-{at}|R:r{lane}-{at}")
        kafka.settle()
        assert worker.terminate() == 0, worker.tail()
        for topic in (kafka.job.left, kafka.job.right):
            trim(kafka, topic, kafka.cluster.ends(topic))
    assert set(kafka.matches()) == expected


@dataclass
class Moves:
    """A member that remembers its lanes, and what to do with them at once."""

    lanes: list[int] = field(default_factory=list)
    then: Callable[[list[int]], object] = list
    unsettled: Callable[[], bool] = bool
    told: list[float] = field(default_factory=list)
    """When it was assigned something, or nothing."""

    def assigned(self, lanes: list[int]) -> None:
        self.told.append(time.monotonic())
        self.lanes += lanes
        self.then(lanes)

    def revoked(self, lanes: list[int]) -> None:
        self.lanes = [lane for lane in self.lanes if lane not in lanes]

    lost = revoked

    def away(self) -> None: ...


@contextmanager
def inputs_of(config: Config, moves: Moves) -> Iterator[Inputs]:
    inputs = Inputs(config, "client", moves)
    try:
        yield inputs
    finally:
        inputs.close()


def joined(inputs: Inputs, moves: Moves, lanes: int, take: Callable[[Polled], object] = id) -> None:
    """Poll until the lanes are there."""
    inputs.subscribe()

    def polled() -> bool:
        take(inputs.poll(0, 0.01))
        return len(moves.lanes) == lanes

    eventually(polled, 30, lambda: f"has {moves.lanes}")


@pytest.mark.parametrize("owners", [1, 2])
def test_a_newcomer_does_not_wait_for_its_lanes(kafka: Harness, owners: int) -> None:
    """The client alone would wait for 0.8 s, and all with it: also an owner who loses nothing."""
    lanes = owners + 1
    kafka.create_topics(lanes)
    kafka.create_topic(kafka.job.changelog, lanes)
    config = load_config(kafka.write_config(), {})
    authority = Authority(config, "client", Event())
    members: list[tuple[Inputs, Moves]] = []

    def polled() -> bool:
        for inputs, _ in members:
            inputs.poll(0, 0.005)
        return sorted(lane for _, moves in members for lane in moves.lanes) == list(range(lanes))

    def member(stack: ExitStack) -> Moves:
        moves = Moves(unsettled=lambda: authority.unsettled(lanes))
        inputs = stack.enter_context(inputs_of(config, moves))
        members.append((inputs, moves))
        inputs.subscribe()
        eventually(lambda: polled() and bool(moves.lanes), 30, lambda: f"{members}")
        return moves

    def attempt() -> float:
        """One more member, which gets a lane and goes, for the next to find all as it did."""
        with ExitStack() as stack:
            newcomer = member(stack)
        members.pop()
        eventually(polled, 30, lambda: f"{members}")
        return newcomer.told[-1] - newcomer.told[0]

    with ExitStack() as stack:
        for _ in range(owners):
            member(stack)
        assert min(attempt() for _ in range(ATTEMPTS)) < LANES_WITHIN_S


def test_nobody_subscribes_while_closing(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would abort the process: a subscription put off outlives it."""
    kafka.create_topics(1)
    config, owner, newcomer = load_config(kafka.write_config(), {}), Moves(), Moves()
    with inputs_of(config, owner) as owning:
        joined(owning, owner, 1)
        with inputs_of(config, newcomer) as coming:
            coming.subscribe()
            subscribed: list[Inputs] = []

            def note(inputs: Inputs) -> None:
                subscribed.append(inputs)

            monkeypatch.setattr(Inputs, "subscribe", note)
            until = time.monotonic() + REBALANCED_WITHIN_S
            while time.monotonic() < until:
                owning.poll(0, 0.01)
            assert newcomer.told == [], "its assignment waits in the client"
        assert (len(newcomer.told), subscribed) == (1, []), "told while it closes"


def test_who_is_no_member_commits_nothing(kafka: Harness) -> None:
    """The broker would take it: where nobody is named there is nobody to check."""
    kafka.create_topics(1)
    kafka.create_topic(kafka.job.changelog, 1)
    config, job, moves = load_config(kafka.write_config(), {}), kafka.job, Moves()
    topics = Topics(job.left, job.right, job.output, job.changelog, job.rejects)
    limits = Limits(10**6, 10**6, 10**6)
    properties = producer_properties(config, "client", limits)
    transactions = Transactions(job.name, properties, topics, limits)
    places = {(job.left, 0): 7, (job.right, 0): 8}
    with inputs_of(config, moves) as inputs:

        def write(value: bytes) -> None:
            transactions.install(*transactions.prepare())
            writes = [LaneWrite(0, (7, 8), lambda: [value])]
            transactions.end(transactions.begin("claim", writes), inputs.metadata)

        assert not inputs.member()
        with pytest.raises(Renew, match="not a member"):
            write(b"nobody's")
        joined(inputs, moves, 1)
        assert inputs.member()
        assert kafka.cluster.decided(job.changelog), "it was aborted"
        assert not kafka.cluster.reached(job.name, places)
        write(b"a member's")
        eventually(lambda: kafka.cluster.reached(job.name, places), 30, lambda: "no offsets")
    assert [change.value for change in kafka.read(job.changelog)] == [b"a member's"]


def test_a_client_that_goes_back_to_the_beginning_is_sent_to_its_position(kafka: Harness) -> None:
    """A lane is claimed while the client still asks where its left partition begins."""
    known, count = 3, 40
    kafka.create_topics(1)
    for at in range(count):
        kafka.send(kafka.job.left, b"k", encode(instant(f"l{at}", at)), 0)
    kafka.flush()
    config = load_config(kafka.write_config(), {})
    # Whether the answer comes too late, and after what was fetched, is a race.
    assert any(goes_back_and_returns(config, known, count) for _ in range(RACES_MAX))


def goes_back_and_returns(config: Config, known: int, count: int) -> bool:
    """Whether old records came behind new ones; each new one is taken once in any case."""
    lane, moves = running(), Moves()
    lane.expected = [known, 0]
    mixed = False
    with inputs_of(config, moves) as inputs:
        nobody = cast("Any", None)  # There is nothing to be asked.
        idleness, codec = Idleness(config, nobody, nobody), make_codec(config)
        lanes = {0: lane}
        intake = Intake(config, codec, inputs, idleness, lanes, Suspicion(config), nobody)

        def take(polled: Polled) -> None:
            nonlocal mixed
            offsets = [offset for batch in polled.records.values() for offset in batch.offsets]
            mixed |= offsets != sorted(offsets)
            intake.accept(polled, None)

        moves.then = lambda _lanes: inputs.start(0, (known, 0))
        joined(inputs, moves, 1, take)
        # Meanwhile the end of the partition is fetched, and then its beginning.
        time.sleep(GOES_BACK_WITHIN_S)
        until = time.monotonic() + GOES_BACK_WITHIN_S
        while time.monotonic() < until:
            take(inputs.poll(count - known + OLD_RECORDS, 0.05))
    left, right = lane.inbox._waiting
    assert [record[2] for record in left] == list(range(known, count))
    assert right == []
    assert lane.expected == [count, 0]
    assert lane.drained[Side.LEFT]
    return mixed
