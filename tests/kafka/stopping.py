"""Runs a worker that kills or stops itself at the n-th passage of one of its steps.

    python -m tests.kafka.stopping CONFIG KILL|STOP|HANG|TERM STEP COUNT

The steps are those of `app.steps`. It stops once only; a later SIGCONT lets it go on. HANG stops
the thread of the loop alone, until SIGUSR1: the client and the HTTP server go on without it. TERM
holds the loop up for a moment, so that the helper threads learn of it before the loop does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import app.turns
from app import log
from app.config import load_config
from app.errors import SpanjoinError
from app.run import run_worker
from app.steps import STEPS

NOTICED_AFTER_S: Final = 0.5


class Listener:
    """Counts the passages of one step, and halts at the last of them."""

    def __init__(self, how: str, step: str, count: int) -> None:
        assert step in STEPS, f"{step} is no step of a worker"
        self._how = how
        self._step = step
        self._count = count

    def __call__(self, step: str) -> None:
        """Hear of a step."""
        if step == self._step:
            self._count -= 1
            if self._count == 0:
                self._halt()

    def _halt(self) -> None:
        if self._how == "HANG":
            signal.sigwait({signal.SIGUSR1})
            return
        os.kill(os.getpid(), signal.Signals[f"SIG{self._how}"])
        if self._how == "TERM":
            time.sleep(NOTICED_AFTER_S)


def main() -> int:
    """Run the worker; returns its exit code."""
    path, how, step, count = sys.argv[1:]
    config = load_config(Path(path))
    log.configure(config.log)
    # Its default would end the process; blocked, it waits for whoever waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    listener = Listener(how, step, int(count))
    # Each turn is joined ahead: there is more to lose while a transaction of one is open.
    app.turns.AHEAD_MIN = 1  # type: ignore[misc]
    try:
        return run_worker(config, reached=listener)
    except SpanjoinError as error:
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
