"""Memory may hold all rows, some of them, or of a key just what a record needs: nobody can tell."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from app.join import Effects, advance
from schemas.records import Event, Kind, Record, Side
from tests.lane import PLENTY, Lane, event, settings_of

KEYS = [b"k%d" % number for number in range(12)]
IDS = ["a", "b", "c", "d"]
GENE = st.integers(0, 2**32)
TURNS = 30


@given(GENE)
@settings(deadline=None, max_examples=300)
def test_what_is_in_memory_changes_no_result(gene: int) -> None:
    chance = Random(gene)
    kept_to = settings_of(chance.randint(0, 6), chance.randint(0, 12))
    lane, known = Lane(kept_to), Lane(kept_to)  # The other one has everything in memory.
    offset = 0
    for _ in range(TURNS):
        disturb(lane, chance)
        ahead = chance.choice([1, 1, 2])
        turns = []
        for _ in range(ahead):
            turns.append(records_of(chance, offset))
            offset += len(turns[-1])
        if chance.random() < 0.15:
            forgotten(lane, turns)
        check(joined(lane, turns), [known.turn(records) for records in turns])
        assert lane.store == known.store
        for key in KEYS:
            assert rows_of(lane, key) == rows_of(known, key)
    assert lane.state.windows.size >= 0
    lane.state.windows.evict(PLENTY)
    lane.state.windows.evict(PLENTY)
    assert lane.state.windows.size == 0
    assert not lane.state.windows.table


def records_of(chance: Random, offset: int) -> list[tuple[Side, Record]]:
    records: list[tuple[Side, Record]] = []
    for at in range(offset, offset + chance.randint(0, 7)):
        start = at // 4 + chance.randint(0, 9)
        end = start + chance.randint(0, 12)
        kind = chance.choice([Kind.INSERT] * 6 + [Kind.RETRACT, Kind.WATERMARK])
        key, row_id = chance.choice(KEYS), chance.choice(IDS)
        event = Event(at, key, row_id, start, start, end, int(kind), b"x", None)
        records.append((chance.choice(list(Side)), event))
    return records


def disturb(lane: Lane, chance: Random) -> None:
    windows = lane.state.windows
    if chance.random() < 0.3:  # A key may have been read in part more recently than others.
        windows._recent = bytearray(1)
    match chance.randint(0, 5):
        case 0:
            windows.evict(windows.size // 2)
        case 1:
            windows.evict(windows.size)
            windows.evict(windows.size)
            assert not windows.table
            assert windows.size == 0
        case 2:
            lane.reopen()


def joined(lane: Lane, turns: list[list[tuple[Side, Record]]]) -> list[Effects]:
    """All joined before any is committed, as far as a worker does that: a turn ahead."""
    planned = []
    for records in turns:
        planned.append(lane.propose(records))
        advance(lane.state, planned[-1])
    for effects in planned:
        lane.committed(effects)
    return planned


def forgotten(lane: Lane, turns: list[list[tuple[Side, Record]]]) -> None:
    """The same, but they are never committed."""
    planned = []
    for records in turns:
        planned.append(lane.propose(records))
        advance(lane.state, planned[-1])
    lane.state.watermarks = lane.watermarks
    lane.state.buckets.clear()
    lane.state.buckets.update(lane.directory)
    for effects in planned:
        lane.abort(effects)


def check(ours: list[Effects], theirs: list[Effects]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert Counter(one.matches) == Counter(other.matches)
        assert one.rejects == other.rejects
        assert one.rows == other.rows
        assert one.counts == other.counts
        assert (one.watermarks, one.dropped) == (other.watermarks, other.dropped)


def rows_of(lane: Lane, key: bytes) -> list[object]:
    """What is known of a key, between two turns, of rows that are stored."""
    bound = min(lane.directory, default=0) * lane.settings.span
    return [
        sorted(row for row in side.values() if row[0] >= bound)
        for side in lane.state.windows.peek(key)
    ]


def test_a_part_is_whole_once_nothing_is_missing() -> None:
    """It goes with its turn's commit, and with it went what the turn ahead had added."""
    lane, known = Lane(settings_of(10, 50)), Lane(settings_of(10, 50))

    def row(side: Side, key: bytes, row_id: str, start: int, end: int) -> tuple[Side, Record]:
        return side, event(row_id, start, end, ts=start, key=key)

    forgotten(lane, [[row(Side.LEFT, b"a", "a1", 0, 1)]])
    assert not lane.state.windows.resident
    turns = [
        # What was forgotten comes again, and with it a key that is new: it is read in part.
        [row(Side.LEFT, b"a", "a1", 0, 1), row(Side.LEFT, b"b", "b1", 0, 1)],
        # Ahead: that key, in another bucket.
        [row(Side.LEFT, b"b", "b2", 300, 340)],
    ]
    check(joined(lane, turns), [known.turn(records) for records in turns])
    last = [row(Side.RIGHT, b"b", "b3", 310, 320)]
    (effects,) = joined(lane, [last])
    check([effects], [known.turn(last)])
    assert len(effects.matches) == 1
