"""SIGTERM and SIGINT, heard also while the main thread is in a call that does not come back."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def heard(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop`, once and on a thread of its own, when a process is told to end.

    Python runs a handler on the main thread, between two of its instructions. Where a client call
    hangs, as one may that was on its way when the broker died, there is no next instruction. The
    byte that the interpreter writes for each signal does not wait for one.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)  # noqa: FBT003 - the name says it

    def listen() -> None:
        while told := ours.recv(1):
            if told[0] in STOPS:
                stop()
                return

    # A byte is written only for what has a handler.
    before = {number: signal.signal(number, _nothing) for number in STOPS}
    descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=listen, name="stops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        theirs.close()
        thread.join()
        ours.close()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Stand there."""
