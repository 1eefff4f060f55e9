"""A client that is thrown away where it stays silent, and a new one asked instead.

Of brokers that are away, librdkafka remembers that it has to find them again, and does; but not
always:

1. A broker sleeps through its session with the controller, or starts. It answers, but of brokers
   it lists none: those that are fenced are left out.
2. A client that asks just then takes that for the whole truth and forgets every broker
   (`rd_kafka_metadata_decommission_unavailable_brokers`). The last one's thread ends, and sets the
   timer of a new bootstrap, in 0 ms (`rd_kafka_rebootstrap`).
3. The main thread has read the answer to its end meanwhile, and stops that timer, as after every
   answer (`rd_kafka_rebootstrap_tmr_stop`). That a bootstrap is under way stays noted, so no other
   one is ever begun. The client knows nobody whom it could ask, for good.

Between 2 and 3 lie microseconds: one client of fourteen was seen to stand still, of those that were
told of no brokers soon after they had found one.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog
from confluent_kafka import KafkaException

from app.errors import Retry

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C")
T = TypeVar("T")

SILENT_S: Final = 30.0
"""Longer than a question may take, three times over: a broker that is away comes back sooner or
later, and a client that is sound finds it in the meantime."""
FORGOTTEN_S: Final = 1.0
_SILENCE: Final = (KafkaException, TimeoutError, Retry)

_log: Final = structlog.get_logger()


class Replaced(Generic[C]):
    """One client after the other; thread-safe."""

    def __init__(
        self,
        make: Callable[[], C],
        close: Callable[[C], object] | None = None,
        silent_s: float | None = None,
    ) -> None:
        """`close`: what is done to a client before it is forgotten; it may hang.

        `silent_s`: for how long it may be silent, SILENT_S if not said.
        """
        self._make = make
        self._close = close
        self._silent_s = SILENT_S if silent_s is None else silent_s
        self._lock = threading.Lock()
        self._silent_since: float | None = None
        self.newest = make()
        """The client that is asked at the moment; to be used for what is not waited for."""

    def asked(self, question: Callable[[C], T]) -> T:
        """The client's answer; raises what the question does."""
        client = self.newest
        try:
            answer = question(client)
        except _SILENCE:
            self._failed(client)
            raise
        except RuntimeError as error:
            if client is self.newest:
                raise
            # Another thread's question was not answered, and the client was closed under ours.
            raise Retry(f"its client was replaced: {error}") from error
        self._silent_since = None
        return answer

    def _failed(self, client: C) -> None:
        now = time.monotonic()
        with self._lock:
            if client is not self.newest:
                return  # It has been replaced meanwhile.
            if self._silent_since is None:
                self._silent_since = now
            if now - self._silent_since < self._silent_s:
                return
            self.newest, self._silent_since = self._make(), None
        _log.info("a client that stays silent is replaced", client=type(client).__name__)
        threading.Thread(target=partial(self._let_go, client), name="close", daemon=True).start()

    def _let_go(self, client: C) -> None:
        if self._close is not None:
            self._close(client)
        # Whoever drops the last reference closes the client, which may take long: not the thread
        # that has asked, and still has a traceback that refers to it.
        time.sleep(FORGOTTEN_S)
