"""Runs a worker whose client can be made to stand still, and that looks out for it often.

    python -m tests.kafka.starving CONFIG left|right

SIGUSR1 pauses the client's partitions of that side behind the worker's back, once: what seeks them
anew lets them go on. SIGUSR2 does so before each poll from then on.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final
from unittest.mock import patch

from app import log, starvation
from app.config import load_config
from app.errors import SpanjoinError
from app.kafka.inputs import Inputs, Polled
from app.run import run_worker
from schemas.records import Side

ASK_EVERY_S: Final = 0.3
GIVEN_UP_AFTER: Final = 15
PAUSED: Final = "the client stands still"


class Pauses:
    """A client that stands still when it is told to."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._poll = Inputs.poll
        self._now = False
        self._always = False
        self._told = False

    def hear(self, number: int, _frame: object) -> None:
        """A signal."""
        self._now = True
        self._always = number == signal.SIGUSR2

    def poll(self, inputs: Inputs, limit: int, wait_s: float) -> Polled:
        """In place of `Inputs.poll`."""
        if self._now:
            consumer = inputs._consumers[self._side]
            consumer.pause(consumer.assignment())
            self._now = self._always
            if not self._told:
                sys.stdout.write(f"{PAUSED} for good\n" if self._always else f"{PAUSED}\n")
                sys.stdout.flush()
            self._told = self._always
        return self._poll(inputs, limit, wait_s)


def main() -> int:
    """Run the worker; returns its exit code."""
    config, pauses = load_config(Path(sys.argv[1])), Pauses(Side[sys.argv[2].upper()])
    log.configure(config.log)

    def poll(inputs: Inputs, limit: int, wait_s: float) -> Polled:
        return pauses.poll(inputs, limit, wait_s)

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, pauses.hear)
    with (
        patch.object(starvation, "ASK_EVERY_S", ASK_EVERY_S),
        patch.object(starvation, "GIVEN_UP_AFTER", GIVEN_UP_AFTER),
        patch.object(Inputs, "poll", poll),
    ):
        try:
            return run_worker(config)
        except SpanjoinError as error:
            sys.stderr.write(f"spanjoin: {error.line}\n")
            return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
