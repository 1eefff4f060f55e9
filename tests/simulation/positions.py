"""Where a consumer reads on in one partition, as librdkafka finds it out.

A logical offset (the beginning, the end) is a question to the broker. So a seek can be undone:

1. The question is on its way. A pause, a resume, a seek or another assignment makes it outdated.
2. Its answer is dropped. From then on nothing is fetched, and half a second later the question is
   put again. Only a seek, or the end of the assignment, that comes meanwhile calls that off.
3. The answer to the second one is not outdated: reading goes on there, whatever was sought before.

All this is the partition's and not the assignment's: it outlives the one that it began in. Nobody
is asked for the beginning once a fetch has told it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from tests.simulation.network import Refused

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tests.simulation.broker import Broker
    from tests.simulation.coordinator import Place
    from tests.simulation.world import Process

ASK_AGAIN_S: Final = 0.5
NOTHING: Final = -1001


class State(Enum):
    """What is known of where to read."""

    STOPPED = "stopped"
    ASKED = "asked"
    TO_ASK = "to ask"
    READING = "reading"


@dataclass(eq=False)
class Position:
    """One partition of one consumer, for as long as the consumer lives."""

    place: Place
    process: Process
    broker: Broker
    committed: bool
    """The isolation of its reader, whose end may be the last stable offset."""
    state: State = State.STOPPED
    next: int = NOTHING
    """Offset after the last record handed over; before the first, the one to begin at."""
    fetched_to: int = NOTHING
    fetched: deque[Message] = field(default_factory=deque)
    told_end: int = -1
    """The end that was told last."""
    low: int = NOTHING
    high: int = NOTHING
    """What the last fetch told of the log."""
    failed: bool = False
    _handed: bool = False
    _version: int = 0
    """Raised by all that makes an answer outdated."""
    _wanted: int = OFFSET_BEGINNING
    """The logical offset that was asked for last."""
    _timer: int = 0
    """Number of the newest timer; one that was stopped has none any more."""
    _ticking: bool = False

    def begin(self, offset: int) -> None:
        """Read from here; what was fetched is of no use."""
        self._version += 1
        self._handed = False
        self.fetched.clear()
        if offset == OFFSET_BEGINNING and self.low != NOTHING:
            self._read_from(self.low)
        elif offset in {OFFSET_BEGINNING, OFFSET_END}:
            self._wanted = offset
            self._ask()
        else:
            self._read_from(offset)

    def seek(self, offset: int) -> None:
        """Read on from here."""
        self._call_off()
        self.begin(offset)

    def end(self) -> None:
        """It is not assigned any more."""
        self._call_off()
        self._version += 1
        self.state = State.STOPPED
        self.fetched.clear()

    def pause(self) -> None:
        """What was fetched is thrown away, and will be fetched again."""
        self._version += 1
        self.fetched.clear()
        self.fetched_to = self.next
        self.told_end = -1

    def resume(self) -> None:
        """Nothing happens, but that is enough to make an answer outdated."""
        self._version += 1

    def hand(self, offset: int) -> None:
        """The record of this offset is handed to the application."""
        self.next, self._handed = offset + 1, True

    def _read_from(self, offset: int) -> None:
        """What was fetched before stays, and comes before what is read now."""
        if not self._handed:
            self.next = offset
        self.fetched_to, self.told_end = offset, -1
        self.failed = False
        self.state = State.READING

    def _ask(self) -> None:
        """Put the question; it waits for a broker that is away."""
        self._stop_timer()
        self.state = State.ASKED
        version, wanted, world = self._version, self._wanted, self.process.world

        def arrive() -> None:
            try:
                log = self.broker.log(*self.place)
            except Refused:
                self.process.later(self._ask_later, world.latency())
                return
            extent = log.extent(self.process.past)
            end = extent.end(committed=self.committed)
            found = extent.start if wanted == OFFSET_BEGINNING else end
            self.process.later(lambda: self._answered(version, found), world.latency())

        away = max(0.0, self.broker.weather.away_until - world.now)
        world.at(away + world.latency(), arrive)

    def _answered(self, version: int, offset: int) -> None:
        if version == self._version:
            self._read_from(offset)
        else:
            self._ask_later()

    def _ask_later(self) -> None:
        self.state = State.TO_ASK
        if not self._ticking:
            self._timer += 1
            self._ticking = True
            number = self._timer

            def go_off() -> None:
                if self._ticking and number == self._timer:
                    self._ask()

            self.process.later(go_off, ASK_AGAIN_S)

    def _call_off(self) -> None:
        if self.state is State.TO_ASK:
            self._stop_timer()

    def _stop_timer(self) -> None:
        self._ticking = False
