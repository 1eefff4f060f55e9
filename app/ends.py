"""The ends of transactions, on a thread that is left behind when one does not come back.

The client's calls have been seen to outlive their time-outs (`app.kafka.transactions` says which,
and why it does no harm to leave one behind), and the thread that polls must not: the group would
expel its worker, and the watchdog end the process, for an outage of the broker alone.
"""

from __future__ import annotations

from concurrent.futures import Executor, wait
from typing import TYPE_CHECKING, Final, TypeVar

from app.errors import Renew

if TYPE_CHECKING:
    from collections.abc import Callable

LEFT_AFTER_S: Final = 15.0
"""More than an end takes if its calls keep to their budgets; less than a poll may be late, and the
watchdog allows."""

T = TypeVar("T")


class Ends:
    """One per worker; `thread` makes an executor of one thread, in which nothing else queues up."""

    def __init__(self, thread: Callable[[], Executor]) -> None:
        self._make = thread
        self._thread = thread()

    def run(self, end: Callable[[], T], meanwhile: Callable[[], None] | None = None) -> T:
        """What `end` returns or raises; `meanwhile` is called on this thread.

        Raises Renew where `end` did not come back in time.
        """
        ended = self._thread.submit(end)
        try:
            try:
                if meanwhile is not None:
                    meanwhile()
            finally:
                wait((ended,), LEFT_AFTER_S)
                if not ended.done():
                    self.close()
                    self._thread = self._make()
            if not ended.done():
                raise Renew(f"the end of a transaction does not come back after {LEFT_AFTER_S} s")
            return ended.result()
        finally:
            # What it raises would hold itself by this name, and with it the failed producer: until
            # some collection of garbage, which would then end the client on the loop's thread.
            del ended

    def close(self) -> None:
        """Take no more; what is under way is not waited for."""
        self._thread.shutdown(wait=False)
