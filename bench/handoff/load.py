"""The load, a program of its own: a burst of history, then a steady stream until it is ended.

Every left event is a moment, every right one an interval around a moment, as in the other
benchmark; each left event meets one right event on average. The events of history have the times
they would have had if the stream had run before: so the state is as large as it stays.

Usage: python -m bench.handoff.load BOOTSTRAP LEFT RIGHT LANES RATE HISTORY [burst]
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from bench.avro import encode_event
from bench.handoff.stamps import now_us, row_id
from bench.workload import PAYLOAD_BYTES, REACH_MS, SEED

TICK_S: Final = 0.002
BURST: Final = 5_000
QUEUED_MAX: Final = 200_000
WAIT_S: Final = 60.0


@dataclass
class Load:
    """Sends events to both sides of all lanes."""

    producer: Producer
    topics: tuple[str, str]
    lanes: int
    keys: int
    _chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    _last_us: int = 0

    def send(self, count: int, ts_ms: int) -> None:
        """So many events of this moment."""
        choose, topics, produce = self._chance.random, self.topics, self.producer.produce
        payload = self._chance.randbytes(PAYLOAD_BYTES)
        for _ in range(count):
            draw = int(choose() * 2 * self.keys)
            key, side = draw >> 1, draw & 1
            lane = key % self.lanes
            sent_us = self._last_us = max(self._last_us + 1, now_us())
            reach = REACH_MS if side else 0
            value = encode_event(
                row_id(lane, sent_us), ts_ms, (ts_ms - reach, ts_ms + reach), payload
            )
            produce(topics[side], value, b"%d" % key, partition=lane, timestamp=ts_ms)
        self.producer.poll(0)

    def history(self, events: int, rate: int) -> None:
        """Events up to now, as fast as they can be sent."""
        begin_ms = time.time() * 1000 - events * 1000 / rate
        for number in range(0, events, 100):
            self.send(100, int(begin_ms + number * 1000 / rate))
            if number % BURST == 0 and len(self.producer) > QUEUED_MAX:
                self.producer.flush(WAIT_S)
        self.producer.flush(WAIT_S)

    def steady(self, rate: int, stopping: threading.Event) -> None:
        """`rate` events a second until told to stop."""
        began, sent = time.monotonic(), 0
        while not stopping.wait(TICK_S):
            due = int((time.monotonic() - began) * rate) - sent
            self.send(due, int(time.time() * 1000))
            sent += due


def main() -> None:
    bootstrap, left, right, *numbers = sys.argv[1:7]
    lanes, rate, history = map(int, numbers)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2 * QUEUED_MAX,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    # As many keys as make one right event within reach of a left one.
    load = Load(producer, (left, right), lanes, keys=rate * REACH_MS // 1000)
    load.history(history, rate)
    print("sent", flush=True)
    if sys.argv[7:] != ["burst"]:
        load.steady(rate, stopping)
    producer.flush(WAIT_S)


if __name__ == "__main__":
    main()
