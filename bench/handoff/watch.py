"""Reads the results as they become visible, and notes for each when that was."""

from __future__ import annotations

import threading
import time
import uuid
from array import array
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import Consumer, TopicPartition

from bench.handoff.stamps import now_us, parse

if TYPE_CHECKING:
    from types import TracebackType

WAIT_S: Final = 10.0
BATCH: Final = 10_000


class Watch:
    """A read_committed reader on a thread of its own, for as long as it is entered.

    The topic must have the time of writing as its timestamps.
    """

    def __init__(self, bootstrap_servers: str, topic: str, lanes: int) -> None:
        self.seen_us = [array("q") for _ in range(lanes)]
        """Per lane: when each result was seen, in order."""
        self.sent_us = [array("q") for _ in range(lanes)]
        """Per lane, in the same order: when the later row of each was sent."""
        self.appended_us = [array("q") for _ in range(lanes)]
        """Per lane, in the same order: when each was written, to the millisecond. A transaction
        left open by one worker hides what others write behind it, and holds up nobody's work."""
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"watch-{uuid.uuid4()}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 5,
                "fetch.wait.max.ms": 10,
            }
        )
        partitions = self._consumer.list_topics(topic, WAIT_S).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def last_seen_us(self) -> list[int]:
        """When each lane's newest result was seen; 0 for none."""
        return [seen[-1] if seen else 0 for seen in self.seen_us]

    def last_sent_us(self) -> list[int]:
        """When the later row of each lane's newest result was sent; 0 for none."""
        return [sent[-1] if sent else 0 for sent in self.sent_us]

    def _read(self) -> None:
        consume = self._consumer.consume
        message: Any
        offset_us = now_us() - time.time_ns() // 1000
        while not self._stopping.is_set():
            # One alone, so that the client does not wait for more of them.
            messages = consume(1, 0.05)
            if not messages:
                continue
            messages += consume(BATCH, 0)
            at = now_us()
            for message in messages:
                if message.error() is not None:
                    continue
                lane, sent_us = parse(message.key())
                self.seen_us[lane].append(at)
                self.sent_us[lane].append(sent_us)
                self.appended_us[lane].append(message.timestamp()[1] * 1000 + offset_us)
