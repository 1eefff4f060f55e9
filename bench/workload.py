"""The benchmark's two streams, and the matches they must give.

Left events are moments [t, t], right ones [t - REACH, t + REACH]: so a join by overlap gives the
same matches as a windowed join of two points in time, which is what other systems offer. One event
a millisecond and mixed sides; each side is a little out of order, by less than the lateness.
Everything comes out of one seed, but for the time at which the streams begin: brokers delete
changelogs of windows by the time of their records, so the events must be of today.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from bench.avro import encode_event
from schemas.match_id import match_id

REACH_MS: Final = 10_000
MAX_INTERVAL_MS: Final = 2 * REACH_MS
LATENESS_MS: Final = 10_000
JITTER_MS: Final = 200
PAYLOAD_BYTES: Final = 55
SEED: Final = 1
AGO_MS: Final = 10 * 60_000
"""The last event is this old: none is in the future, and none so old that brokers delete it."""

Point = tuple[int, int, int]
"""(number, key, ts in ms) of one event of a side."""
Sent = tuple[bytes, bytes, int]
"""(Kafka key, Kafka value, ts in ms)."""
Sides = tuple[list[Sent], list[Sent]]
"""What goes into the topics of left and right."""


@dataclass(frozen=True)
class Workload:
    """`records` on both sides together, in keys that are all equally likely.

    The first `warm_up` records come before those: every system works on them before it is
    measured, so that caches, state and compiled code are as they stay.
    """

    records: int
    keys: int
    lanes: int
    warm_up: int = 0
    begin_ms: int = 1_700_000_000_000

    @cached_property
    def points(self) -> tuple[list[Point], list[Point]]:
        """The events of left and right, in the order in which they are sent."""
        chance = random.Random(SEED)
        sides: tuple[list[Point], list[Point]] = ([], [])
        for number in range(self.warm_up + self.records):
            ts = self.begin_ms + number + chance.randrange(JITTER_MS)
            sides[chance.getrandbits(1)].append((number, chance.randrange(self.keys), ts))
        return sides

    def sent(self) -> tuple[Sides, Sides]:
        """What is written into the two topics: for warming up, and to be measured."""
        sides = self._encoded()
        after = [bisect_left(points, (self.warm_up,)) for points in self.points]
        warm = [records[:count] for records, count in zip(sides, after, strict=True)]
        rest = [records[count:] for records, count in zip(sides, after, strict=True)]
        return (warm[0], warm[1]), (rest[0], rest[1])

    def _encoded(self) -> Sides:
        chance = random.Random(SEED + 1)
        left, right = (
            [
                (
                    b"key-%d" % key,
                    encode_event(
                        f"{mark}{number}",
                        ts,
                        (ts - reach, ts + reach),
                        chance.randbytes(PAYLOAD_BYTES),
                    ),
                    ts,
                )
                for number, key, ts in points
            ]
            for mark, reach, points in zip("lr", (0, REACH_MS), self.points, strict=True)
        )
        return left, right

    @cached_property
    def matches(self) -> set[bytes]:
        """The ids of all matches."""
        by_key: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, key, ts in self.points[1]:
            by_key[key].append((ts, number))
        for rights in by_key.values():
            rights.sort()
        found: set[bytes] = set()
        for number, key, ts in self.points[0]:
            rights = by_key.get(key, [])
            first = bisect_left(rights, (ts - REACH_MS,))
            after = bisect_right(rights, (ts + REACH_MS + 1,))
            found.update(match_id(f"l{number}", f"r{other}") for _, other in rights[first:after])
        return found
