"""What workers and `query` say of a key: never less than what was committed before the question."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.kafka.asking import Asked, ask
from tests.kafka.avro import Event, encode, instant
from tests.kafka.commands import done, refused
from tests.kafka.victims import halted, victim

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

KEY: Final = "k"
LONG: Final = {"max_interval": 100_000}
"""So that no row ever expires here."""
IMPATIENT: Final = {"SPANJOIN_KAFKA__CONSUMER__MAX_POLL_INTERVAL_MS": "2500"}
"""The client itself leaves the group when the loop has not polled for so long."""
TAKEN_OVER_WITHIN_S: Final = 30
WAKING_S: Final = 2.0


class Rows:
    """Rows of one key on the left, written one after the other."""

    def __init__(self, kafka: Harness) -> None:
        self.kafka = kafka
        self.written = 0

    def write(self, count: int) -> None:
        """A few more; returns when they are sent."""
        for _ in range(count):
            event = instant(f"l{self.written}", self.written)
            self.kafka.send(self.kafka.job.left, KEY, encode(event))
            self.written += 1
        self.kafka.flush()

    def commit(self, count: int) -> None:
        """A few more; returns when the job has committed them."""
        self.write(count)
        self.kafka.settle()

    def committed(self) -> int:
        """How many have been committed by now; the group's offset is part of the transaction."""
        place = (self.kafka.job.left, 0)
        return self.kafka.cluster.positions(self.kafka.job.name, [place])[place]


def ids(count: int) -> set[str]:
    return {f"l{number}" for number in range(count)}


def standby(kafka: Harness, config: Path) -> Worker:
    """A worker that has joined and has nothing to do: another one has the only lane."""
    worker = kafka.start(config)
    kafka.await_(lambda: worker.get("/readyz")[0] == 200, 30, worker.tail)
    return worker


def taken_over(kafka: Harness, worker: Worker) -> None:
    kafka.await_(lambda: worker.running() == [0], TAKEN_OVER_WITHIN_S, worker.tail)


def check_waking(rows: Rows, sleeper: Worker, early: Asked) -> None:
    """Wake a worker and ask it all the time: it knows everything committed, or it does not answer.

    `early` were asked while it slept, after everything that is written by now was committed.
    """
    known = rows.written
    sleeper.resume()
    refusals = 0
    until = time.monotonic() + WAKING_S
    while time.monotonic() < until:
        committed = rows.committed()
        said = ask(sleeper, KEY)
        if said.code == 200:
            assert said.rows >= ids(committed), f"{committed} were committed"
        else:
            assert said.code in {0, 503}, said
            refusals += 1
        rows.write(1)
    assert refusals > 0, "it never lost the lane"
    for said in early.answers():
        assert said.code in {0, 503} or said.rows >= ids(known), said


def test_an_owner_that_slept_gives_no_stale_answer(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config(join=LONG)
    sleeper = kafka.start(config)
    kafka.await_running(sleeper)
    rows = Rows(kafka)
    rows.commit(5)
    assert ask(sleeper, KEY).rows == ids(5)
    other = standby(kafka, config)
    assert ask(other, KEY) == (503, "lane 0 is not running on this worker\n")
    sleeper.pause()
    taken_over(kafka, other)
    rows.commit(5)
    assert ask(other, KEY).rows == ids(10)
    # These wait in its socket: they are the first it hears of when it wakes.
    check_waking(rows, sleeper, Asked(sleeper, KEY, 20))
    sleeper.expect_end()


@pytest.mark.long
def test_an_owner_that_slept_in_its_proof_gives_no_stale_answer(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config(join=LONG)
    sleeper = victim(kafka, config, "STOP", "proof.offsets")
    kafka.await_(lambda: sleeper.running() == [0], 30, sleeper.tail)
    rows = Rows(kafka)
    rows.commit(5)
    # The broker has taken the offsets of its proof; all that is missing is the commit.
    proving = Asked(sleeper, KEY)
    kafka.await_(lambda: halted(sleeper), 30, sleeper.tail)
    other = kafka.start(config)
    taken_over(kafka, other)
    rows.commit(5)
    assert ask(other, KEY).rows == ids(10)
    check_waking(rows, sleeper, Asked(sleeper, KEY, 20))
    assert [said.code for said in proving.answers()] == [503]


def test_an_owner_whose_loop_hung_gives_no_stale_answer(kafka: Harness) -> None:
    """The worst of moments: the question comes before the loop has heard of its loss.

    Asleep as a whole, a worker mostly hears of both at once.
    """
    kafka.create_topics(1)
    config = kafka.write_config(join=LONG)
    hanging = victim(kafka, config, "HANG", "turn.stored", environ=IMPATIENT)
    kafka.await_(lambda: hanging.running() == [0], 30, hanging.tail)
    rows = Rows(kafka)
    for _ in range(3):  # It hangs in its third turn.
        rows.commit(1)
    other = kafka.start(config)
    taken_over(kafka, other)
    rows.commit(5)
    assert ask(other, KEY).rows == ids(8)
    early = Asked(hanging, KEY, 5)
    kafka.await_(lambda: hanging.get("/livez")[0] == 200, 10, hanging.tail)
    hanging.process.send_signal(signal.SIGUSR1)
    assert {said.code for said in early.answers()} == {503}


def test_linearizable_reads_are_monotone_while_the_lane_moves(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config(join=LONG)
    first = kafka.start(config)
    kafka.await_running(first)
    second = standby(kafka, config)
    rows = Rows(kafka)
    answers: list[dict[str, Any]] = []

    def look() -> int:
        """Ask; returns the epoch that answered."""
        rows.write(1)
        committed = rows.committed()
        said = json.loads(done("query", "-c", str(config), KEY, "--linearizable", "--json"))
        seen = {row["id"] for row in said["rows"]["left"]}
        assert seen >= ids(committed)
        if answers:
            assert seen >= {row["id"] for row in answers[-1]["rows"]["left"]}
            assert said["epoch"] >= answers[-1]["epoch"]
        answers.append(said)
        return int(said["epoch"])

    def look_until(epoch: int) -> None:
        until = time.monotonic() + TAKEN_OVER_WITHIN_S
        while look() < epoch:
            assert time.monotonic() < until, second.tail()

    look_until(1)
    first.expect_end()
    first.process.send_signal(signal.SIGTERM)
    look_until(2)
    third = standby(kafka, config)
    second.kill()
    look_until(3)
    assert answers[-1]["owner"] != answers[0]["owner"]
    # Its figures follow half a second later.
    kafka.await_(lambda: third.running() == [0], 10, third.tail)


def test_query_finds_the_owner(kafka: Harness) -> None:
    kafka.create_topics(3)
    config = kafka.write_config(join=LONG)
    query = ("query", "-c", str(config))
    assert "no worker of" in refused(*query, KEY, code=1)
    for _ in range(2):
        kafka.start(config)
    kafka.await_running(*kafka.workers)
    keys = [f"key {number} é" for number in range(6)]
    for number, key in enumerate(keys):
        kafka.send(kafka.job.left, key, encode(Event(f"l{number}", 20, 10, 30, payload=b"pay")))
        kafka.send(kafka.job.right, key, encode(Event(f"r{number}", 25, 20, 40)))
    kafka.settle()
    answers = [json.loads(done(*query, key, "--json")) for key in keys]
    for number, answer in enumerate(answers):
        assert answer["matches"] == [
            {"id": f"L:l{number}|R:r{number}", "start": 20, "end": 30,
             "left": f"l{number}", "right": f"r{number}"}
        ]  # fmt: skip
    assert len({answer["owner"] for answer in answers}) == 2
    assert json.loads(done(*query, keys[0].encode().hex(), "--key-hex", "--json")) == answers[0]
    table = done(*query, keys[0], "--linearizable")
    for text in (keys[0], "l0 payload=pay", "20 - 30", "1 match"):
        assert text in table
    other = str((answers[0]["lane"] + 1) % 3)
    assert "no live rows of this key" in done(*query, keys[0], "--lane", other)
    assert "there is no lane 3" in refused(*query, KEY, "--lane", "3")
