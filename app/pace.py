"""How many records a turn takes, and how soon after one the next begins.

A turn takes as many records as keep its transaction short. One that begins at once after the last
may wait for nothing: a commit is acknowledged before its markers are written, and until they are
the coordinator takes no partitions of the producer's next transaction. The client asks again after
BACKOFF_S, however soon it would have been possible. So a worker that keeps up rests for some
milliseconds, as few as do: longer after a turn that ran into that, shorter after each that did not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TURN_TARGET_S: Final = 0.25
"""A turn that took longer takes fewer records next time."""
LIMIT_MIN: Final = 100
BACKOFF_S: Final = 0.02
"""Fixed in librdkafka, rdkafka_txnmgr.c: AddPartitionsToTxn at CONCURRENT_TRANSACTIONS."""
REST_MAX_S: Final = 0.01
REST_MORE_S: Final = 0.002
REST_LESS_S: Final = 0.0002


@dataclass(slots=True)
class Pace:
    """The limit of records a turn, which is never above `limit_max`."""

    limit_max: int
    limit: int = field(init=False)
    rest_s: float = 0.0
    """From the end of a turn to the next poll, where there is no backlog."""

    def __post_init__(self) -> None:
        self.limit = self.limit_max

    def took(self, turn_s: float) -> None:
        """Keep transactions well below their time-out, whatever the number of matches."""
        if turn_s > TURN_TARGET_S:
            self.limit = max(int(self.limit * TURN_TARGET_S / turn_s), LIMIT_MIN)
        elif self.limit < self.limit_max:
            self.limit = min(self.limit * 2, self.limit_max)

    def failed(self) -> None:
        """The transaction failed: perhaps it was too large."""
        self.limit = max(self.limit // 2, LIMIT_MIN)

    def entered(self, seconds: float) -> None:
        """The broker took the first records of a transaction after so long."""
        if seconds >= BACKOFF_S:
            self.rest_s = min(self.rest_s + REST_MORE_S, REST_MAX_S)
        else:
            self.rest_s = max(self.rest_s - REST_LESS_S, 0.0)
