"""Workers that die or stop at a step of their own, and input that keeps coming until they do."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from state.checkpoint import decode_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kafka.harness import Harness
    from tests.kafka.streams import Stream
    from tests.kafka.workers import Worker

TRICKLE: Final = 10
REACHED_WITHIN_S: Final = 40


class Trickle:
    """A stream that is sent bit by bit for as long as something is waited for."""

    def __init__(self, kafka: Harness, stream: Stream) -> None:
        self._kafka = kafka
        self.stream = stream
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
        self.stream.send(self._kafka, self._kafka.job, slice(self._at, self._at + records))
        self._at += records

    def rest(self) -> None:
        """Everything that is left."""
        self.send(len(self.stream.records))


def halted(worker: Worker) -> bool:
    """Whether the process is stopped by a signal, or gone."""
    if worker.process.poll() is not None:
        return True
    stat = Path(f"/proc/{worker.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def victim(
    kafka: Harness,
    config: Path,
    how: str,
    step: str,
    *,
    state: str = "victim",
    environ: Mapping[str, str] | None = None,
) -> Worker:
    """A worker that will halt at the step; those of one `state` share a state directory."""
    count = "3" if step.startswith("turn.") else "1"
    worker = kafka.launch(
        [sys.executable, "-m", "tests.kafka.stopping", str(config), how, step, count],
        {"SPANJOIN_STATE__DIR": str(kafka.directory / state), **(environ or {})},
    )
    worker.expect_end()
    return worker


def finish(kafka: Harness, trickle: Trickle, stream: Stream) -> None:
    """Send what is left; once all is taken, the whole log is as it must be."""
    trickle.rest()
    kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def fence(kafka: Harness, writer: str) -> None:
    """Do what the next owner of one of its lanes would do to this transactional id."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    Producer({**servers, "transactional.id": writer}).init_transactions(30)


def writers(kafka: Harness) -> dict[int, list[tuple[int, str]]]:
    """By lane, who wrote the committed changelog: (epoch, writer) of each turn, in its order.

    Epochs never go back, and one of them has one writer: else two owners would have committed.
    """
    found: dict[int, list[tuple[int, str]]] = {}
    for change in kafka.read(kafka.job.changelog):
        turn = decode_turn(change.value or b"")
        found.setdefault(change.partition, []).append((turn.epoch, turn.writer))
    for turns in found.values():
        assert [epoch for epoch, _ in turns] == sorted(epoch for epoch, _ in turns)
        assert len({epoch for epoch, _ in turns}) == len(set(turns))
    return found
