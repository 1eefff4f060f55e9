"""A crash or a pause at every step of the protocol changes nothing in the committed output.

One worker stays healthy all the time; another one dies, or sleeps through its session and its
transaction, at one step after the other, while records keep coming. Each step costs some seconds,
so `make test` takes the steps between which something changes for the next owner; `make chaos`
takes all of them.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from app.steps import KINDS, STEPS, WRITING
from tests.kafka.streams import Stream, random_stream

if TYPE_CHECKING:
    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 4
TRICKLE: Final = 10
REACHED_WITHIN_S: Final = 40
SHORT_TRANSACTIONS: Final = '[kafka.producer]\n"transaction.timeout.ms" = 3000\n'
ASLEEP_S: Final = 4.5
"""Longer than the session (2 s) and the transaction (3 s)."""

TURN = [f"turn.{step}" for step in WRITING]
CLAIM = [f"claim.{step}" for step in WRITING]
RELEASE = [f"release.{step}" for step in WRITING]
TAKEOVER = ["assigned", "restore", "fence", "fenced", "install", "running"]
ELSEWHERE = ["lost", "wipe", "renewed", "stale copy removed", "truncated", "revoked"]
"""Steps that need more than a worker that comes: each is a test of its own."""


def _named(steps: list[str]) -> str:
    return f"{steps[0]} to {steps[-1]}"


class Trickle:
    """A stream that is sent bit by bit for as long as something is waited for."""

    def __init__(self, kafka: Harness, stream: Stream) -> None:
        self._kafka = kafka
        self._stream = stream
        self._at = 0

    def until(self, worker: Worker, signalled: Worker | None = None) -> None:
        """Send on until the worker has died or stopped at its step."""
        deadline = time.monotonic() + REACHED_WITHIN_S
        asked = False
        while not halted(worker):
            assert time.monotonic() < deadline, f"its step was not reached:\n{worker.tail()}"
            self.send()
            if signalled is not None and not asked and worker.running():
                asked = True
                worker.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)

    def send(self, records: int = TRICKLE) -> None:
        """The next few records; none once all are sent."""
        self._stream.send(self._kafka, self._kafka.job, slice(self._at, self._at + records))
        self._at += records

    def rest(self) -> None:
        """Everything that is left."""
        self.send(len(self._stream.records))


def halted(worker: Worker) -> bool:
    """Whether the process is stopped by a signal, or gone."""
    if worker.process.poll() is not None:
        return True
    stat = Path(f"/proc/{worker.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def victim(kafka: Harness, config: Path, how: str, step: str) -> Worker:
    """A worker that will halt at the step, always over the same state directory."""
    count = "3" if step.startswith("turn.") else "1"
    worker = kafka.launch(
        [sys.executable, "-m", "tests.kafka.stopping", str(config), how, step, count],
        {"SPANJOIN_STATE__DIR": str(kafka.directory / "victim")},
    )
    worker.expect_end()
    return worker


def finish(kafka: Harness, trickle: Trickle, stream: Stream) -> None:
    trickle.rest()
    kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def test_every_step_is_crashed_at_somewhere() -> None:
    assert sorted(STEPS) == sorted([*TURN, *CLAIM, *RELEASE, *TAKEOVER, *ELSEWHERE])
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
