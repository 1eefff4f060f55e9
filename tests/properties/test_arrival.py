"""While nothing is late, the order in which events arrive makes no difference to the result."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import Event, Kind, Record, Side
from tests.lane import Lane, settings_of
from tests.oracle import OracleRow, alive, batch_join

MAX_INTERVAL = 12
KEYS = [b"", b"k"]


@given(st.integers(0, 2**32), st.integers(0, 14))
@settings(deadline=None, max_examples=300)
def test_the_result_is_a_batch_join_of_what_is_not_retracted(gene: int, count: int) -> None:
    chance = Random(gene)
    rows = [row_of(chance, number) for number in range(count)]
    retracted = {number for number in range(count) if chance.random() < 0.3}
    events: list[tuple[Side, Record]] = []
    for number, row in enumerate(rows):
        events += [(row.side, event_of(row, Kind.INSERT))] * chance.choice([1, 1, 2])
        if number in retracted:
            events += [(row.side, event_of(row, Kind.RETRACT))] * chance.choice([1, 1, 2])
    chance.shuffle(events)

    lane = Lane(settings_of(10**6, MAX_INTERVAL, span=chance.choice([1, 7, 10**6])))
    while events:
        size = chance.randint(1, 5)
        lane.turn(events[:size])
        events = events[size:]

    assert not any(effects.rejects for effects in lane.turns)
    kept = [row for number, row in enumerate(rows) if number not in retracted]
    assert alive(lane.emitted) == batch_join(kept)
    assert set(Counter(lane.emitted).values()) <= {1}
    tombstones = {name for name, is_match in lane.emitted if not is_match}
    assert tombstones <= {name for name, is_match in lane.emitted if is_match}


def row_of(chance: Random, number: int) -> OracleRow:
    side, start = chance.choice(list(Side)), chance.randint(0, 40)
    end = start + chance.randint(0, MAX_INTERVAL)
    row_id = f"{number}|{chance.choice('ab')}"
    return OracleRow(side, chance.choice(KEYS), row_id, start, start, end, b"x")


def event_of(row: OracleRow, kind: Kind) -> Event:
    return Event(0, row.key, row.id, row.ts, row.start, row.end, int(kind), row.value, None)
