"""A crash or a pause at every step of the protocol changes nothing in the committed output.

One worker stays healthy all the time; another one dies, or sleeps through its session and its
transaction, at one step after the other, while records keep coming. Each step costs some seconds,
so `make test` takes the steps between which something changes for the next owner; `make chaos`
takes all of them.
"""

from __future__ import annotations

import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from app.steps import KINDS, PROVING, STEPS, WRITING
from tests.kafka.asking import Asked
from tests.kafka.streams import random_stream
from tests.kafka.victims import REACHED_WITHIN_S, Trickle, fence, finish, halted, victim, writers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 4
AT_ONCE: Final = {"SPANJOIN_STATE__STALE_COPIES": "0"}
SHORT_TRANSACTIONS: Final = '[kafka.producer]\n"transaction.timeout.ms" = 3000\n'
ASLEEP_S: Final = 4.5
"""Longer than the session (2 s) and the transaction (3 s)."""

TURN = [f"turn.{step}" for step in WRITING]
CLAIM = [f"claim.{step}" for step in WRITING]
RELEASE = [f"release.{step}" for step in WRITING]
TAKEOVER = ["assigned", "restore", "fence", "fenced", "install", "running"]
PROOF = list(PROVING)
LEAVING = ["revoked", "stale copy removed"]
"""Of a lane that goes: workers that come take it away."""
IDLE = ["truncated"]
"""Reached by any worker that runs for a while."""
SPOILED = ["lost", "wipe", "renewed", "run again"]
"""Something must have gone wrong before: each is brought about by its own means."""


def _named(steps: list[str]) -> str:
    return f"{steps[0]} to {steps[-1]}"


def test_every_step_is_crashed_at_somewhere() -> None:
    steps = [*TURN, *CLAIM, *RELEASE, *TAKEOVER, *PROOF, *LEAVING, *IDLE, *SPOILED]
    assert sorted(STEPS) == sorted(steps)
    assert len(KINDS) == 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(TURN, marks=pytest.mark.long),
        pytest.param(CLAIM, marks=pytest.mark.long),
        pytest.param(TAKEOVER, marks=pytest.mark.long),
        pytest.param(RELEASE, marks=pytest.mark.long),
        ["turn.flushed", "turn.logged", "turn.committed", "fenced", "claim.committed"],
        ["release.logged", "release.committed"],
    ],
    ids=_named,
)
def test_a_crash_at_each_step(kafka: Harness, steps: list[str]) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config(text="[turn]\nmax_records = 50\n")
    stream = random_stream(len(steps), 30_000, keys=300, lanes=LANES, step=0.02)
    trickle = Trickle(kafka, stream)
    kafka.await_running(kafka.start(config))
    for step in steps:
        worker = victim(kafka, config, "KILL", step)
        trickle.until(worker, worker if step in RELEASE else None)
        assert worker.process.returncode == -signal.SIGKILL, worker.tail()
    finish(kafka, trickle, stream)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_crash_at_each_of_the_rarer_steps(kafka: Harness) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config(text=f"{SHORT_TRANSACTIONS}[turn]\nmax_records = 50\n")
    stream = random_stream(77, 60_000, keys=300, lanes=LANES, step=0.02)
    trickle = Trickle(kafka, stream)
    healthy = kafka.start(config)
    kafka.await_running(healthy)

    def crash(step: str, bring_about: Callable[[Worker], object]) -> None:
        worker = victim(kafka, config, "KILL", step, environ=AT_ONCE)
        kafka.await_(lambda: halted(worker) or bool(worker.running()), 60, worker.tail)
        bring_about(worker)
        trickle.until(worker)
        assert worker.process.returncode == -signal.SIGKILL, worker.tail()

    def be_fenced(worker: Worker) -> None:
        (lane, *_) = worker.running()
        fence(kafka, writers(kafka)[lane][-1][1])

    for step in PROOF:
        crash(step, lambda worker: [Asked(worker, f"key-{number}") for number in range(20)])
    for step in LEAVING:
        # So many that nobody keeps more than one lane, whoever the group takes one from first.
        crash(step, lambda _: [kafka.start(config) for _ in range(LANES - 2)])
        for guest in kafka.workers[2 - LANES :]:
            assert guest.terminate() == 0, guest.tail()
    for lane in range(LANES):
        store = kafka.directory / "victim" / f"lane-{lane}"
        store.mkdir(exist_ok=True)
        (store / "CURRENT").write_text("nonsense")
    crash("wipe", str)
    crash("lost", asleep)
    crash("renewed", be_fenced)
    crash("truncated", str)
    crash("run again", partial(come_and_go, kafka, config))
    finish(kafka, trickle, stream)


def come_and_go(kafka: Harness, config: Path, worker: Worker) -> None:
    """Until the group has moved on in the midst of one of its turns."""

    def disturb() -> None:
        while not halted(worker):
            guest = kafka.start(config)
            kafka.await_(lambda: bool(guest.running()) or halted(worker), 60, guest.tail)  # noqa: B023
            guest.terminate()

    threading.Thread(target=disturb, daemon=True).start()


def asleep(worker: Worker) -> None:
    worker.pause()
    time.sleep(ASLEEP_S)
    worker.resume()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(TURN[2:6], marks=pytest.mark.long),
        pytest.param([*CLAIM[2:6:2], "restore", "fenced"], marks=pytest.mark.long),
        pytest.param(RELEASE[2:6], marks=pytest.mark.long),
        ["turn.offsets", "claim.offsets"],
    ],
    ids=_named,
)
def test_a_sleep_at_each_step(kafka: Harness, steps: list[str]) -> None:
    """A zombie that wakes adds nothing that counts, and goes on as one of the group or says 75."""
    kafka.create_topics(LANES)
    config = kafka.write_config(text=f"{SHORT_TRANSACTIONS}[turn]\nmax_records = 50\n")
    stream = random_stream(100 + len(steps), 30_000, keys=300, lanes=LANES, step=0.02)
    trickle = Trickle(kafka, stream)
    healthy = kafka.start(config)
    kafka.await_running(healthy)
    for step in steps:
        worker = victim(kafka, config, "STOP", step)
        trickle.until(worker, worker if step in RELEASE else None)
        until = time.monotonic() + ASLEEP_S
        while time.monotonic() < until:
            trickle.send()
            time.sleep(0.1)
        kafka.await_(lambda: len(healthy.running()) == LANES, REACHED_WITHIN_S, healthy.tail)
        worker.resume()
        if step in RELEASE:
            assert worker.wait(20) == 0
        else:
            kafka.await_(
                lambda: worker.process.poll() == 75 or bool(worker.running()),  # noqa: B023
                REACHED_WITHIN_S,
                worker.tail,
            )
            worker.end()
    finish(kafka, trickle, stream)
