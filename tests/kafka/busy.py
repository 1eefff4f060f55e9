"""A job in which something of everything happens, with events of the present moment."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.kafka.avro import Event, encode
from tests.kafka.lane import LEFT, RIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 6
KEYS: Final = 500
REACH_MS: Final = 1_000
LATE_MS: Final = 60_000
TICK_S: Final = 0.1
JOIN: Final = {"allowed_lateness": "2s", "max_interval": "3s", "type": "left"}


@dataclass
class Busy:
    """Sends at a steady pace, and starts and ends workers."""

    kafka: Harness
    rate: int = 200
    """Events a second, both sides together."""
    config: Path = field(init=False)
    workers: list[Worker] = field(default_factory=list)
    _chance: random.Random = field(default_factory=lambda: random.Random(7))
    _sent: list[tuple[str, bytes, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka.create_topics(LANES)
        self.config = self.kafka.write_config('unit = "ms"\n---\n', join=JOIN)

    def start(self) -> None:
        """One worker more."""
        self.workers.append(self.kafka.start(self.config))

    def kill(self) -> None:
        """The worker that has run for longest dies."""
        self.workers.pop(0).kill()

    @property
    def ports(self) -> list[int]:
        """Where the workers that run can be scraped."""
        return [worker.port for worker in self.workers]

    def go_on(self, seconds: float) -> None:
        """Send for so long."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for _ in range(int(self.rate * TICK_S)):
                self._send()
            self.kafka.producer.poll(0)
            time.sleep(min(TICK_S, left))
        self.kafka.flush()

    def _send(self) -> None:
        chance, now = self._chance.random(), int(time.time() * 1000)
        if chance < 0.02 and self._sent:
            side, key, event = self._chance.choice(self._sent[-self.rate :])
            kind = "RETRACT" if chance < 0.014 else "INSERT"
            event = event._replace(kind=kind)
        else:
            side, key = self._chance.choice((LEFT, RIGHT)), b"%d" % self._chance.randrange(KEYS)
            at = now - LATE_MS if chance > 0.995 else now
            reach = REACH_MS if side == RIGHT else 0
            event = Event(f"{side}{len(self._sent)}", at, at - reach, at + reach)
            self._sent.append((side, key, event))
        topic = self.kafka.job.left if side == LEFT else self.kafka.job.right
        self.kafka.send(topic, key, b"junk" if 0.99 < chance < 0.995 else encode(event))
