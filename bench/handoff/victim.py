"""A worker that dies with a transaction open: told by SIGUSR1, it kills itself in its next turn.

Its outputs and its changelog record are in the topics then, the group's coordinator has its
offsets, and nothing is decided: the most that can be left behind.

Usage: python -m bench.handoff.victim CONFIG
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from app import log
from app.config import load_config
from app.run import run_worker

STEP: Final = "turn.offsets"


def main() -> int:
    config = load_config(Path(sys.argv[1]))
    log.configure(config.log)
    told = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: told.set())

    def reached(step: str) -> None:
        if step == STEP and told.is_set():
            os.kill(os.getpid(), signal.SIGKILL)

    return run_worker(config, reached=reached)


if __name__ == "__main__":
    sys.exit(main())
