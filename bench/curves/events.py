"""Events of one point of a curve: as in the benchmark's workload, with more to choose."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.avro import RETRACT, encode_event
from bench.workload import JITTER_MS, PAYLOAD_BYTES, REACH_MS, SEED
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN_MS: Final = 1_700_000_000_000
RECENT_ROWS: Final = 4_000
"""Of a side, from which a retraction chooses: all inside their horizon."""


@dataclass(frozen=True)
class Setting:
    """What a point measures. One event a ms, mixed sides; times in ms.

    Left events are moments. Right ones are intervals of twice `reach` on average, of lengths that
    differ by up to `spread` of that. A share of all are retractions of earlier rows. `fill` events
    come before the `records` that are measured. `cache_mb` limits windows and block cache.
    """

    keys: int = 10_000
    reach: int = REACH_MS
    spread: float = 0.0
    lateness: int = 10_000
    max_interval: int = 2 * REACH_MS
    retractions: float = 0.0
    lanes: int = 1
    turn: int = 10_000
    fill: int = 50_000
    records: int = 100_000
    cache_mb: int = 4_096


class Incoming(NamedTuple):
    """One record as it is polled."""

    side: Side
    lane: int
    key: bytes
    value: bytes


def events(setting: Setting) -> Iterator[Incoming]:
    """All of them, in the order in which they come."""
    chance = random.Random(SEED)
    recent: tuple[deque[Incoming], deque[Incoming]] = (
        deque(maxlen=RECENT_ROWS), deque(maxlen=RECENT_ROWS),
    )  # fmt: skip
    for number in range(setting.fill + setting.records):
        side = Side(chance.getrandbits(1))
        if recent[side] and chance.random() < setting.retractions:
            at = chance.randrange(len(recent[side]))
            yield recent[side][at]
            del recent[side][at]
            continue
        key = chance.randrange(setting.keys)
        ts = BEGIN_MS + number + chance.randrange(JITTER_MS)
        half = 0
        if side is Side.RIGHT:
            half = int(setting.reach * (1 + setting.spread * (2 * chance.random() - 1)))
        # Both ends belong to an interval: this one has 2 x half moments, which are as many matches.
        name, interval = f"{'lr'[side]}{number}", (ts - half, ts + max(half - 1, 0))
        payload = chance.randbytes(PAYLOAD_BYTES)
        lane, kafka_key = key % setting.lanes, b"key-%d" % key
        yield Incoming(side, lane, kafka_key, encode_event(name, ts, interval, payload))
        if setting.retractions:
            undone = encode_event(name, ts, interval, b"", RETRACT)
            recent[side].append(Incoming(side, lane, kafka_key, undone))
