"""What the group has committed of its inputs, as a takeover has to know it.

A transaction that is not decided holds the offsets that it brings, and the takeover waits for them:
with the former owners fenced it takes milliseconds until the markers are written. But not always:

1. The broker ends a transaction, as the fence has it do, or somebody commits it. The changelog has
   its marker, and is replayed up to there.
2. The group's coordinator keeps its offsets as undecided all the same. It was seen to do so for
   minutes, after its broker had been killed, and would until it is started again. Or a transaction
   of somebody who is no worker holds them, for as long as its time-out.
3. Whoever takes the lane over waits, and so does everybody after that: the lane is stuck.

So what is decided without those is taken after UNDECIDED_S. That is safe. A worker sends the
offsets of a lane when the broker has its record in the changelog. Those who have one there that is
undecided were fenced before this question, and what the changelog shows as committed is replayed
after it. What is missing can only be behind that, and the offsets are asked for to see whether they
are ahead.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.errors import Retry
from app.kafka.clients import with_defaults
from app.kafka.failures import error_of
from app.kafka.replaced import Replaced

if TYPE_CHECKING:
    from app.config import Config

Stored = tuple[int | None, int | None]
"""Of left and right, None for none."""
REQUEST_TIMEOUT_S: Final = 10.0
UNDECIDED_S: Final = 5.0
"""The client asks again and again for so long, and holds up questions for other lanes meanwhile."""

_log: Final = structlog.get_logger()


class GroupOffsets:
    """Asked by any thread. The admin client could be, too, but see `app.kafka.group`."""

    def __init__(self, config: Config, client_id: str) -> None:
        self._config = config
        self._client_id = client_id
        self._topics = (config.left.topic, config.right.topic)
        self._decided = self._clients("read_committed")
        self._lock = threading.Lock()
        self._any: Replaced[Consumer] | None = None
        """Those who do not wait; seldom needed."""

    def stored(self, lane: int) -> Stored:
        """Raises KafkaException, Retry where the broker does not say."""
        try:
            return self._asked(self._decided, lane, UNDECIDED_S)
        except KafkaException as error:
            if error_of(error).code() != KafkaError._TIMED_OUT:  # noqa: SLF001 (its public name)
                raise
        with self._lock:
            self._any = self._any or self._clients("read_uncommitted")
        stored = self._asked(self._any, lane, REQUEST_TIMEOUT_S)
        _log.warning("offsets are undecided, taken as they were", lane=lane, stored=stored)
        return stored

    def _clients(self, isolation: str) -> Replaced[Consumer]:
        return Replaced(partial(self._consumer, isolation), Consumer.close)

    def _consumer(self, isolation: str) -> Consumer:
        """One that never joins."""
        return Consumer(
            {
                **with_defaults(self._config.consumer_properties()),
                "client.id": f"{self._client_id}-offsets",
                "group.id": self._config.name,
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )

    def _asked(self, clients: Replaced[Consumer], lane: int, within_s: float) -> Stored:
        wanted = [TopicPartition(topic, lane) for topic in self._topics]
        found = clients.asked(lambda client: client.committed(wanted, within_s))
        offsets: dict[str, int | None] = {}
        for partition in found:
            if partition.error is not None:
                raise Retry(partition.error.str())
            offsets[partition.topic] = partition.offset if partition.offset >= 0 else None
        left, right = (offsets[topic] for topic in self._topics)
        return left, right
