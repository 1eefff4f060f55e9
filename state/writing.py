"""A write that goes on beside what its store's owner does next.

RocksDB's write takes half of a replay's time and does not need the interpreter, so another thread
can do it while the next rows are unpacked.

Invariant: it is done once, by whoever comes first: the helper thread, or the owner who has to wait
for it. So nobody ever waits for a pool of threads that has other things to do.
"""

from __future__ import annotations

from threading import Event, Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Writing:
    """One write, to be run by a helper thread and waited for by the owner."""

    __slots__ = ("_done", "_error", "_taken", "_write")

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self._taken = Lock()
        self._done = Event()
        self._error: Exception | None = None

    def run(self) -> None:
        """Do it, unless somebody has begun to. Raises nothing: who waits is told."""
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._write()
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error
        finally:
            self._done.set()

    def wait(self) -> None:
        """Do it, or wait until it was done. Raises what it raised."""
        self.run()
        self._done.wait()
        if self._error is not None:
            raise self._error
