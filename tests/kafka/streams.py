"""Random input whose result is the same however it is interleaved, and what that result is.

Every row comes at most the allowed lateness behind its own side, so nothing is late, whatever the
other side does; duplicates and retractions come inside the horizon even of the side that is ahead.
So the live matches are those of a batch join, computed here by comparing each row with each.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.kafka.avro import Event, decode_output, encode, match_id, unmatched_id
from tests.kafka.lane import HORIZON, LATENESS, LEFT, MAX_INTERVAL, RIGHT
from tests.kafka.reading import history

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.harness import Harness, Job
    from tests.kafka.reading import Change

RECENT_ROWS: Final = 400
JUNK: Final = b"junk"


class Sent(NamedTuple):
    """One record to send; `partition` is set where a key does not choose it."""

    side: str
    key: bytes | None
    value: bytes | None
    partition: int = -1


@dataclass
class Row:
    """A row that is sent, with what becomes of it."""

    side: str
    key: bytes
    event: Event
    retracted: bool = False
    never: bool = False
    """Its retraction comes first: no match of it is ever written."""


@dataclass
class Stream:
    """Input in the order of sending, and its result."""

    records: list[Sent] = field(default_factory=list)
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    rejects: Counter[str] = field(default_factory=Counter)
    join: str = "inner"

    def send(self, harness: Harness, job: Job, part: slice = slice(None)) -> None:
        """Send the records, or a part of them; returns when the broker has them."""
        topics = {LEFT: job.left, RIGHT: job.right}
        for side, key, value, partition in self.records[part]:
            harness.send(topics[side], key, value, partition)
        harness.flush()

    def pairs(self) -> Iterable[tuple[Row, Row]]:
        """All rows that overlap under the same key, by comparing each with each."""
        by_key: dict[bytes, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
        for row in self.rows.values():
            by_key[row.key][row.side == RIGHT].append(row)
        for left_rows, right_rows in by_key.values():
            for left in left_rows:
                _, _, start, end, _, _ = left.event
                for right in right_rows:
                    if right.event.start <= end and start <= right.event.end:
                        yield left, right

    def live(self) -> set[str]:
        """The ids of the matches that remain."""
        return {
            match_id(left.event.id, right.event.id)
            for left, right in self.pairs()
            if not (left.retracted or right.retracted)
        }

    def end(self, lanes: int) -> None:
        """Let so much time pass in the end that every row is due."""
        last = max(row.event.end for row in self.rows.values())
        passed = encode(Event("", last + HORIZON + 1, 0, 0, "WATERMARK"))
        self.records += [Sent(s, None, passed, n) for s in (LEFT, RIGHT) for n in range(lanes)]

    def unmatched(self) -> dict[str, Row]:
        """By key, the rows that an outer join has written in the end."""
        matched = {
            id(row)
            for pair in self.pairs()
            for row in pair
            if not (pair[0].retracted or pair[1].retracted)
        }
        return {
            unmatched_id(row.side, row.event.id): row
            for row in self.rows.values()
            if self.join in {row.side, "full"} and not row.retracted and id(row) not in matched
        }

    def check_log(self, log: Iterable[Change]) -> None:
        """A whole committed output: each match once, each retracted one taken back once.

        A pair with a retracted row was written before its retraction or not at all: that depends
        on how the sides were interleaved. Each unmatched row once, and never taken back.
        """
        found = history(log)
        alone = {name: values for name, values in found.items() if "|" not in name}
        rows = self.unmatched()
        assert {name: len(values) for name, values in alone.items()} == dict.fromkeys(rows, 1)
        for name, values in alone.items():
            del found[name]
            assert _is_unmatched(values[0], rows[name], self.join), name
        taken_back = 0
        faults: list[str] = []
        for left, right in self.pairs():
            name = match_id(left.event.id, right.event.id)
            values = found.pop(name, [])
            retracted = left.retracted or right.retracted
            if not values:
                if not retracted:
                    faults.append(f"missing {name}")
                continue
            whole = len(values) == 1 + retracted and (not retracted or values[1] is None)
            if not whole or left.never or right.never or not self._is_match(values[0], left, right):
                faults.append(f"{name} of {left} and {right} is {values}")
            taken_back += retracted
        faults += [f"{name} never was a match" for name in found]
        assert not faults, "\n".join([f"{len(faults)} faults, such as", *faults[:5]])
        assert taken_back > 0 or not any(row.retracted for row in self.rows.values())

    def _is_match(self, value: bytes | None, left: Row, right: Row) -> bool:
        start = max(left.event.start, right.event.start)
        end = min(left.event.end, right.event.end)
        match = start, end, left.event, right.event
        return value is not None and decode_output(value, self.join) == match

    def check_rejects(self, rejects: Iterable[Change]) -> None:
        """A whole rejects topic: every bad record once, under its reason."""
        log = list(rejects)
        origins = [(one.headers["topic"], one.partition, one.headers["offset"]) for one in log]
        assert len(set(origins)) == len(origins)
        assert Counter(one.headers["reason"].decode() for one in log) == self.rejects


def _is_unmatched(value: bytes | None, row: Row, join: str) -> bool:
    event = row.event
    sides = (event, None) if row.side == LEFT else (None, event)
    return decode_output(value, join) == (event.start, event.end, *sides)


def random_stream(seed: int, events: int, *, keys: int, lanes: int, step: float = 0.5) -> Stream:
    """About `events` records over `keys` keys; time goes on by `step` with each of them."""
    return _Generator(seed, keys, lanes).stream(events, step)


class _Generator:
    def __init__(self, seed: int, keys: int, lanes: int) -> None:
        self.chance = random.Random(seed)
        self.keys = [b"key-%d" % number for number in range(keys)]
        self.lanes = lanes
        self.out = Stream()
        self.named = 0
        self.recent: list[Row] = []
        self.awaited: list[Row] = []
        """Retracted already, still to be inserted."""

    def stream(self, events: int, step: float) -> Stream:
        actions = (
            (self.insert, 70), (self.duplicate, 8), (self.retract, 8), (self.retract_first, 3),
            (self.insert_awaited, 3), (self.insert_again, 3), (self.watermark, 2), (self.junk, 1),
        )  # fmt: skip
        chosen = self.chance.choices(
            [action for action, _ in actions], [weight for _, weight in actions], k=events
        )
        for number, action in enumerate(chosen):
            now = int(number * step)
            del self.recent[: -2 * RECENT_ROWS]
            action(now)
        return self.out

    def new_row(self, now: int) -> Row:
        chance = self.chance
        ts = now - chance.randint(0, LATENESS)
        start = ts - chance.randint(0, MAX_INTERVAL // 2)
        end = ts + chance.randint(0, MAX_INTERVAL // 2)
        side = chance.choice((LEFT, RIGHT))
        self.named += 1
        name = f"{side[0]}{self.named}"
        payload = chance.choice((None, b"", chance.randbytes(20)))
        event = Event(name, ts, start, end, "INSERT", payload)
        row = Row(side, chance.choice(self.keys), event)
        self.out.rows[side, name] = row
        return row

    def insert(self, now: int) -> None:
        row = self.new_row(now)
        self.recent.append(row)
        self.put(row, row.event)

    def duplicate(self, now: int) -> None:
        row = self.any_recent(now)
        if row is None:
            return
        event = row.event
        kind = self.chance.randrange(3)
        if kind == 1:
            event = event._replace(payload=b"changed")
        elif kind == 2 and not row.retracted and event.end - event.start < MAX_INTERVAL:
            event = event._replace(start=event.start - 1)
            self.out.rejects["conflicting_duplicate"] += 1
        self.put(row, event)

    def retract(self, now: int) -> None:
        row = self.any_recent(now)
        if row is not None:
            row.retracted = True
            self.put_retraction(row, now)

    def retract_first(self, now: int) -> None:
        row = self.new_row(now)
        row.retracted = row.never = True
        self.awaited.append(row)
        self.put_retraction(row, now)

    def insert_awaited(self, now: int) -> None:
        """Its retraction is remembered for as long as the row would be known."""
        waiting, self.awaited = self.awaited, []
        for row in waiting:
            if row.event.end >= now - HORIZON:
                self.put(row, row.event)
            else:
                del self.out.rows[row.side, row.event.id]

    def insert_again(self, now: int) -> None:
        row = self.any_recent(now)
        if row is not None and row.retracted:
            self.put(row, row.event)

    def watermark(self, now: int) -> None:
        lane = self.chance.randrange(self.lanes)
        side = self.chance.choice((LEFT, RIGHT))
        self.out.records.append(Sent(side, None, encode(Event("", now, 0, 0, "WATERMARK")), lane))

    def junk(self, now: int) -> None:
        side, lane = self.chance.choice((LEFT, RIGHT)), self.chance.randrange(self.lanes)
        key = self.chance.choice(self.keys)
        reason, key_, value = self.chance.choice(
            (
                ("undecodable", key, JUNK),
                ("null_value", key, None),
                ("null_key", None, encode(Event("x", now, now, now))),
                ("invalid_interval", key, encode(Event("x", now, now, now - 1))),
            )
        )
        self.out.rejects[reason] += 1
        self.out.records.append(Sent(side, key_, value, lane))

    def any_recent(self, now: int) -> Row | None:
        """A row that is known to every watermark there can be by now."""
        row = self.chance.choice(self.recent) if self.recent else None
        return row if row is not None and row.event.end >= now - HORIZON else None

    def put(self, row: Row, event: Event) -> None:
        self.out.records.append(Sent(row.side, row.key, encode(event)))

    def put_retraction(self, row: Row, now: int) -> None:
        # Stamped when it happens, or when its row was: it makes no difference.
        ts = self.chance.choice((row.event.ts, now + 1000))
        self.put(row, row.event._replace(ts=ts, kind="RETRACT"))
