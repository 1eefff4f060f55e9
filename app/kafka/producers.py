"""The life of a worker's producers: made and ended on helper threads, one live at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import Retry

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from confluent_kafka import Producer

    from app.kafka.authority import Authority
    from app.kafka.transactions import Prepared, Transactions

_log: Final = structlog.get_logger()


ENDED_MAX: Final = 100
"""Names remembered of this worker's earlier producers; one that is not is fenced like another's."""


@dataclass(slots=True)
class Producers:
    """Sees to it that `transactions` has a live producer, without making the loop wait.

    The next one is made in advance: a lane that has to be claimed anew need not wait for it.
    """

    transactions: Transactions
    authority: Authority
    threads: Executor
    _next: Future[Prepared] | None = None
    _ended: deque[str] = field(default_factory=lambda: deque(maxlen=ENDED_MAX))

    def ready(self) -> bool:
        """Whether there is a live producer; if not, one is being made."""
        if self._next is None:
            self._next = self.threads.submit(self._prepare)
        if not self.transactions.ready and self._next.done():
            prepared, self._next = self._next, None
            try:
                self.transactions.install(*prepared.result())
            except Retry as retry:
                _log.warning("waiting for the broker", what="a producer", reason=str(retry))
        return self.transactions.ready

    def own(self) -> frozenset[str]:
        """Names that a takeover need not fence: the live one, and those with nothing open.

        Once the last end was acknowledged nothing is open under a name that is not used again. What
        may still be on its way (an EndTxn that was sent twice) finds nothing to end.
        """
        return frozenset((self.transactions.writer, *self._ended))

    def retire(self) -> None:
        """Stop using the live producer: its last transaction failed, or its end is in doubt."""
        writer, producer, ended = self.transactions.retire()
        if producer is not None:
            if ended:
                self._ended.append(writer)
            # Nobody but the thread may hold it when the thread lets go of it: its end takes time.
            last = [producer]
            del producer
            self.threads.submit(self._end, writer, last)

    def forget_next(self) -> None:
        """No broker can be reached: a producer that was idle through that is of no use."""
        self._next = None

    def _prepare(self) -> Prepared:
        with self.authority.calls.under_way("a producer"):
            return self.transactions.prepare()

    def _end(self, writer: str, last: list[Producer]) -> None:
        """Let the old producer go, then end what it may have open.

        Its outputs may be the only trace of it, and they hold up every reader of their partitions
        until they are decided. `last` is emptied: whoever runs this holds on to its arguments.
        """
        with self.authority.calls.under_way("the end of a producer"):
            last.clear()
        self.authority.fence(writer)
