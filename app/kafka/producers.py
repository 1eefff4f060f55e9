"""The life of a worker's producers: made and ended on helper threads, one live at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import Retry

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from confluent_kafka import Producer

    from app.kafka.authority import Authority
    from app.kafka.transactions import Prepared, Transactions

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Producers:
    """Sees to it that `transactions` has a live producer, without making the loop wait."""

    transactions: Transactions
    authority: Authority
    threads: Executor
    _preparing: Future[Prepared] | None = None

    def ready(self) -> bool:
        """Whether there is a live producer; if not, one is being made."""
        if self.transactions.ready:
            return True
        if self._preparing is None:
            self._preparing = self.threads.submit(self.transactions.prepare)
        if self._preparing.done():
            preparing, self._preparing = self._preparing, None
            try:
                self.transactions.install(*preparing.result())
            except Retry as retry:
                _log.warning("waiting for the broker", what="a producer", reason=str(retry))
        return self.transactions.ready

    def retire(self) -> None:
        """Stop using the live producer after an outcome that nobody acknowledged."""
        writer, producer = self.transactions.retire()
        if producer is not None:
            self.threads.submit(self._end, writer, producer)

    def _end(self, writer: str, producer: Producer) -> None:
        """Let the old producer go, then end what it may have open.

        Its outputs may be the only trace of it, and they hold up every reader of their partitions
        until they are decided.
        """
        del producer
        self.authority.fence(writer)
