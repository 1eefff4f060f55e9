"""Several workers on one machine: a process each, started again when they say so.

Invariant: a worker that ends with 75 is started again; any other end of one ends all, and its code
is the result. The workers die with the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import EXIT_DONE, EXIT_RESTART, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from app.config import Config

RESTART_PAUSE_S: Final = 1.0
STOP_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.1
_PR_SET_PDEATHSIG: Final = 1

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Supervisor:
    """Parent of the workers 1 to `count`."""

    config: Config
    count: int
    arguments: list[str]
    """Further arguments of `spanjoin run`."""
    stopping: bool = False
    _children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self) -> int:
        """Run until all have ended; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            for worker in range(1, self.count + 1):
                self._start(worker)
            return self._watch()
        finally:
            self._end_all()

    def _watch(self) -> int:
        result = EXIT_DONE
        while self._children:
            for worker, child in list(self._children.items()):
                code = child.poll()
                if code is None:
                    continue
                del self._children[worker]
                if code == EXIT_RESTART and not self.stopping:
                    _log.warning("worker starts again", worker=worker, code=code)
                    time.sleep(RESTART_PAUSE_S)
                    self._start(worker)
                elif not self.stopping:
                    _log.error("worker ended, all stop", worker=worker, code=code)
                    result = code if code >= 0 else 128 - code
                    self._end_all()
            time.sleep(_POLL_S)
        return result

    def _start(self, worker: int) -> None:
        config = self.config
        port = config.http.port + worker - 1 if config.http.port else 0
        environment = {
            **os.environ,
            "SPANJOIN_STATE__DIR": str(worker_directory(config.state.dir, worker)),
            "SPANJOIN_HTTP__PORT": str(port),
        }
        self._children[worker] = subprocess.Popen(  # noqa: S603 (our own command)
            [sys.executable, "-P", "-m", "app", "run", "-c", str(config.path), *self.arguments],
            env=environment,
            start_new_session=True,
            # This process has one thread: nothing can hold a lock across the fork.
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
        )

    def _stop(self, _number: int, _frame: object) -> None:
        self.stopping = True
        for child in self._children.values():
            child.terminate()

    def _end_all(self) -> None:
        """Ask all to stop, then make them."""
        self.stopping = True
        children = list(self._children.values())
        for child in children:
            child.terminate()
        deadline = time.monotonic() + STOP_WITHIN_S
        for child in children:
            try:
                child.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def run_workers(config: Config, count: int, arguments: list[str]) -> int:
    """Run `count` workers in processes of their own; returns the exit code of the whole.

    Worker i keeps its state in `state.dir`/i and listens on `http.port` + i - 1.
    """
    if count < 1:
        raise UsageError(f"--workers must be 1 or more, not {count}")
    return Supervisor(config, count, arguments).run()


def worker_directory(state: Path, worker: int) -> Path:
    """State directory of worker `worker`, counted from 1."""
    return state / str(worker)


def _die_with_parent() -> None:
    """Runs in the child: ask the kernel for SIGTERM when the parent dies without saying so."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
