"""The command line's very beginning, for `spanjoin` and `python -m app` alike.

Invariant: from its first moment a worker that is told to stop ends with 0. Importing what it is
made of takes most of a second, so this module imports nothing but what a signal's handler needs.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from app.errors import EXIT_DONE

if TYPE_CHECKING:
    from types import FrameType


ENDS_WITHIN_S: Final = 5.0
"""Of what a command has done."""


def main() -> None:
    """The console script."""
    if sys.argv[1:2] == ["run"]:
        # Until it has handlers of its own, which know of a turn to finish; there is none yet.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end)
    _import_log()
    import threading  # noqa: PLC0415

    from app.cli import run_command  # noqa: PLC0415 (this is what takes long)

    code = run_command(sys.argv[1:])
    # Of the interpreter's end: it waits for every thread, and a client's call may hang for ever.
    threading.Thread(target=_end_late, args=(code,), daemon=True).start()
    sys.exit(code)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_DONE)


def _end_late(code: int) -> None:
    import time  # noqa: PLC0415

    time.sleep(ENDS_WITHIN_S)
    sys.stdout.flush()
    os._exit(code)


def _import_log() -> None:
    """Keep structlog from importing rich, with which it would draw tracebacks: 0.15 s of a start.

    Who draws tables imports it, later.
    """
    sys.modules["rich"] = None  # type: ignore[assignment]  # what import takes for "not there"
    import structlog  # noqa: F401, PLC0415

    del sys.modules["rich"]


if __name__ == "__main__":
    main()
