"""The inputs of a run: drawn from the seed, written bit by bit while the workers are at work."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from schemas.records import Side
from tests.kafka.avro import Event, encode
from tests.simulation.broker import Sender
from tests.simulation.log import Entry
from tests.simulation.options import LATENESS, MAX_INTERVAL

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.options import Options

Message = tuple[bytes | None, bytes | None]
"""Key and value."""
TOPICS: Final = ("left", "right")
HORIZON: Final = LATENESS + MAX_INTERVAL
KEYS: Final = (b"a", b"b", b"")
GARBAGE: Final[tuple[Message, ...]] = ((b"a", None), (b"a", b"junk"), (None, b"\xc3\x01"))
FOREIGN_S: Final = 2.0
"""The longest that somebody else's transaction stays open."""


def history(random: Random, options: Options, side: Side, lane: int) -> list[Message]:
    """What one partition of an input will hold, in its order."""
    messages: list[Message] = []
    rows: list[tuple[bytes, Event]] = []
    now = 0
    for number in range(options.events + random.randint(-3, 3)):
        now += random.randint(0, 8)
        chance = random.random()
        if chance < 0.04:
            messages.append((None, encode(Event("", now, 0, 0, "WATERMARK"))))
        elif chance < 0.08:
            messages.append(random.choice(GARBAGE))
        elif chance < 0.2 and (known := [one for one in rows if one[1].end >= now - HORIZON]):
            key, row = random.choice(known[-6:])
            kind = "INSERT" if chance < 0.11 else "RETRACT"
            messages.append((key, encode(row._replace(kind=kind))))
        else:
            key = random.choice(KEYS)
            if options.seldom and random.random() < options.seldom:
                key = str(number).encode()
            ts = now - random.randint(0, options.disorder)
            before, after = (random.randint(0, MAX_INTERVAL // 2) for _ in range(2))
            row = Event(f"{TOPICS[side][0]}{lane}.{number}", ts, ts - before, ts + after)
            if chance > 0.97:
                messages.append((key, encode(row._replace(kind="RETRACT"))))
            messages.append((key, encode(row)))
            rows.append((key, row))
    return messages


def edges(options: Options, side: Side, lane: int) -> list[Message]:
    """Episodes in which a row must outlive its own horizon, by a partner's length and no more.

    A short row and a long one meet; time jumps, so that the short one can match nothing any more;
    then the long one is retracted, within its horizon, and their match with it.
    """
    random = Random(f"{options.seed} {lane}")
    messages: list[Message] = []
    for number in range(max(1, options.events // 5)):
        long_side = random.choice(list(Side))
        at = number * 110
        start = at + random.randint(0, 1)
        jump = at + HORIZON + MAX_INTERVAL - random.randint(0, 10)
        name = f"{TOPICS[side][0]}{lane}.{number}"
        row = Event(name, at, at, at + random.randint(0, 1))
        if side is long_side:
            row = Event(name, start + MAX_INTERVAL, start, start + MAX_INTERVAL)
        calm = Event(f"{name}-", at - 10, at - 10, at - 10)
        jumped = Event(f"{name}+", jump, jump, jump)
        messages += [(KEYS[1], encode(calm)), (KEYS[0], encode(row)), (KEYS[1], encode(jumped))]
        if side is long_side and random.random() < 0.8:
            messages.append((KEYS[0], encode(row._replace(kind="RETRACT"))))
    return messages


def chains(options: Options, side: Side, lane: int) -> list[Message]:
    """The same for outer joins, which need a row for twice as long.

    A long row has a match with a short one at its start and with a second long one at its end. The
    latter is retracted as late as it may be: whether the first one is unmatched now, the short one
    tells, and now and then that was retracted as well.
    """
    random = Random(f"{options.seed} {lane}")
    messages: list[Message] = []
    for number in range(max(1, options.events // 5)):
        middle_side = random.choice(list(Side))
        at = number * 150
        jump = at + 2 * MAX_INTERVAL + HORIZON - random.randint(0, 10)
        retracted = [random.random() < share for share in (0.3, 0.9)]
        name = f"{TOPICS[side][0]}{lane}.{number}"
        outer = Event(name, at, at, at), Event(f"{name}/", at + 20, at + 20, at + 40)
        rows = (Event(name, at, at, at + 20),) if side is middle_side else outer
        calm = Event(f"{name}-", at - 10, at - 10, at - 10)
        jumped = Event(f"{name}+", jump, jump, jump)
        messages.append((KEYS[1], encode(calm)))
        messages += [(KEYS[0], encode(row)) for row in rows]
        if side is not middle_side and retracted[0]:
            messages.append((KEYS[0], encode(outer[0]._replace(kind="RETRACT"))))
        messages.append((KEYS[1], encode(jumped)))
        if side is not middle_side and retracted[1]:
            messages.append((KEYS[0], encode(outer[1]._replace(kind="RETRACT"))))
    return messages


@dataclass(slots=True)
class Feed:
    """One partition and what is still to be written to it."""

    topic: str
    lane: int
    left: list[Message]


def _messages(random: Random, options: Options, side: Side, lane: int) -> list[Message]:
    if options.edges:
        return (chains if options.join.preserved else edges)(options, side, lane)
    return history(random, options, side, lane)


class Workload:
    """Writes the inputs."""

    def __init__(self, broker: Broker, options: Options) -> None:
        self._broker = broker
        self._options = options
        self._world = broker.world
        self._writers = 0
        random = self._world.random
        self._feeds = [
            Feed(
                TOPICS[side],
                lane,
                _messages(random, options, side, lane),
            )
            for lane in range(options.lanes)
            for side in Side
        ]
        self.open = 0
        """Foreign transactions that are open."""
        total = sum(len(feed.left) for feed in self._feeds)
        spread_s = max(1.0, options.trouble_s * random.uniform(0.5, 1.1))
        self._pause_s = spread_s / max(1, total / 3)
        self._world.at(0.0, self._write)

    @property
    def written(self) -> bool:
        """Whether all of it is there, and decided."""
        return not self._feeds and not self.open

    @property
    def never_late(self) -> bool:
        """Whether no order of reading can make any of it late."""
        return self._options.disorder <= LATENESS and not self._options.idle

    def _write(self) -> None:
        """Write a few records to one partition."""
        self._feeds = [feed for feed in self._feeds if feed.left]
        if not self._feeds:
            return
        random = self._world.random
        feed = random.choice(self._feeds)
        count = random.randint(1, 5)
        batch, feed.left = feed.left[:count], feed.left[count:]
        if random.random() < self._options.foreign:
            self._write_foreign(feed, batch)
        else:
            self._append(feed, batch, Sender())
        self._world.at(random.random() * 2 * self._pause_s, self._write)

    def _append(self, feed: Feed, batch: list[Message], sender: Sender) -> None:
        entries = [Entry(key, value, timestamp=self._world.wall_ms()) for key, value in batch]
        self._broker.produce(sender, (feed.topic, feed.lane), entries)

    def _write_foreign(self, feed: Feed, batch: list[Message]) -> None:
        """In a transaction of somebody else, which holds up its readers until it is decided."""
        self._writers += 1
        name = f"upstream-{self._writers}"
        coordinator = self._broker.coordinator
        sender = Sender(*coordinator.init(name, 1e9))
        coordinator.add(name, sender.producer, sender.epoch, [(feed.topic, feed.lane)])
        self._append(feed, batch, sender)
        # A row that comes only with its repetition may come late.
        commit = self.never_late or self._world.random.random() < 0.8
        self.open += 1

        def end() -> None:
            self.open -= 1
            coordinator.end(name, sender.producer, sender.epoch, commit=commit)

        self._world.at(self._world.random.random() ** 2 * FOREIGN_S, end)
