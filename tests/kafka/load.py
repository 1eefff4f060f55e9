"""A stream that is sent at a steady pace while the test does something to the workers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

from tests.kafka.lane import LEFT, RIGHT

if TYPE_CHECKING:
    from types import TracebackType

    from tests.kafka.harness import Harness, Job
    from tests.kafka.streams import Stream

SLICE: Final = 100


class Load:
    """As a context manager: sends the whole stream from a thread of its own, and ends with it."""

    def __init__(self, harness: Harness, stream: Stream, seconds: float) -> None:
        self._harness = harness
        self._job: Job = harness.job
        self._stream = stream
        self._pause_s = seconds * SLICE / max(len(stream.records), 1)
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)
        self._stop = threading.Event()
        self._places = [
            (topic, number)
            for topic in (self._job.left, self._job.right)
            for number in harness.cluster.partitions(topic)
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        topics = {LEFT: self._job.left, RIGHT: self._job.right}
        due = time.monotonic()
        for at in range(0, len(self._stream.records), SLICE):
            if self._stop.is_set():
                return
            for side, key, value, partition in self._stream.records[at : at + SLICE]:
                self._harness.send(topics[side], key, value, partition)
            due += self._pause_s
            time.sleep(max(due - time.monotonic(), 0))

    def taken(self) -> float:
        """The share of the whole stream that the job has committed."""
        positions = self._harness.cluster.positions(self._job.name, self._places)
        return sum(max(offset, 0) for offset in positions.values()) / len(self._stream.records)

    def await_taken(self, share: float) -> None:
        """Wait until the job has come this far."""
        self._harness.await_(
            lambda: self.taken() >= share, 60, lambda: f"{self.taken():.0%} of {share:.0%} taken"
        )
