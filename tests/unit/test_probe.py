"""What a store says of records that come: what they may match there, and whether they are known."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from schemas.records import Arrival, Event, Fault, Kind, Side
from state.keys import parse_rows, row_key, row_value
from state.store import LEARNT_PER_KEY
from tests.lane import arrival
from tests.unit.stored import LAYOUT, Paper, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from state.keys import StoredRow
    from state.store import LaneStore

SPAN = LAYOUT.span
KEYS = [b"", b"k", b"k\0", *(b"key-%d" % number for number in range(40))]
BUCKETS = range(-2, 3)


def rows_of(chance: Random, count: int) -> dict[bytes, bytes]:
    rows = {}
    for number in range(count):
        bucket, side, key = chance.choice(BUCKETS), chance.choice(list(Side)), chance.choice(KEYS)
        end = bucket * SPAN + chance.randrange(SPAN)
        name = row_key(bucket, side, key, end, end - chance.randint(0, 40), f"id-{number}")
        rows[name] = row_value(chance.choice([0, 0, 1]), end, b"body")
    return rows


def insert(key: bytes, row_id: str, start: int, side: Side = Side.LEFT) -> Arrival:
    event = Event(0, key, row_id, start, start, start + 9, int(Kind.INSERT), b"", None)
    return arrival(side, event)


def asked(chance: Random) -> list[Arrival]:
    return [
        insert(
            key, f"id-{chance.randint(0, 400)}", chance.randint(-40, 60), chance.choice(list(Side))
        )
        for key in KEYS
    ]


def check(store: LaneStore, stored: list[StoredRow], buckets: list[int], chance: Random) -> int:
    """Of so many records it could be said."""
    records = asked(chance)
    found, doubtful = store.probe(buckets, records, SPAN)
    wanted: list[StoredRow] = []
    for _, side, _, key, parts, _ in records:
        assert not isinstance(parts, Fault)
        here = [row for row in stored if row[0] in buckets and row[2] == key]
        if any(row[1] == side and row[3][2] == parts[2] for row in here):
            assert key in doubtful
        elif key not in doubtful:
            wanted += [row for row in here if row[1] != side and row[3][0] >= parts[1]]
    assert found == [row for row in stored if row in wanted]  # In the store's order.
    return len(records) - len(doubtful)


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_may_match_of_records_whose_ids_are_new(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    store, paper = open_store(tmp_path), Paper()
    store.track()
    store.apply(*paper.turn(rows_of(chance, 200)), 1)
    for _ in range(5):
        stored = parse_rows(sorted(paper.rows.items()))
        for buckets in (list(BUCKETS), [0, 1], [7], []):
            # A seventh of the keys have a row of the id that is asked for, or seem to have.
            assert check(store, stored, buckets, chance) > len(KEYS) // 2
        store.apply(*paper.turn(rows_of(chance, 40), dropped=[chance.choice(BUCKETS)]), 9)


def test_it_learns_what_was_stored_before(tmp_path: Path) -> None:
    chance = Random(3)
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(rows_of(chance, LEARNT_PER_KEY * len(KEYS) + 7)), 1)
    stored = parse_rows(sorted(paper.rows.items()))
    said = [check(store, stored, list(BUCKETS), chance) for _ in range(4)]
    assert said[0] == 0
    assert said[3] > len(KEYS) // 2
    assert not store.track().look([9], b"key")
    store.close()


def test_what_is_no_insert_of_a_new_id_is_doubtful(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.track()
    rows = {row_key(0, Side.RIGHT, b"k", 5, 0, "known"): row_value(0, 0, b"")}
    store.apply(*paper.turn(rows), 1)
    retraction = Event(0, b"k", "new", 0, 0, 9, int(Kind.RETRACT), b"", None)
    far = Event(0, b"k", "new", 0, -(2**70), 9, int(Kind.INSERT), b"", None)
    doubtful = [arrival(Side.LEFT, retraction), arrival(Side.LEFT, far)]
    assert store.probe([0], doubtful, SPAN) == ([], [b"k", b"k"])
    assert store.probe([0], [insert(b"k", "known", 0, Side.RIGHT)], SPAN) == ([], [b"k"])
    assert store.probe([0], [insert(b"k", "new", 0)], SPAN) == (parse_rows(rows.items()), [])
    assert store.probe([0], [insert(b"k", "new", 6)], SPAN) == ([], [])
    assert store.probe([0], [insert(b"k", "new", SPAN)], SPAN) == ([], [])
