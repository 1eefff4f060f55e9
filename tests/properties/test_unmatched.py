"""Outer joins: unmatched rows are those that the rules name, however few a turn may look at.

That each turn writes the right ones, if it may look at all of them, `test_join` says.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import Event, JoinType, Record, Side
from tests.lane import Lane, event, retraction, watermark
from tests.properties.test_join import disturb, start, terms_of, turn_of

if TYPE_CHECKING:
    from tests.oracle import Oracle

OUTER = (JoinType.LEFT, JoinType.RIGHT, JoinType.FULL)
GENE = st.integers(0, 2**32)


def written(lane: Lane) -> Counter[tuple[str, bool]]:
    return Counter(lane.emitted)


def should(oracle: Oracle) -> Counter[tuple[str, bool]]:
    return Counter((one.match_id, one.start is not None) for one in oracle.emitted)


def check_so_far(lane: Lane, oracle: Oracle) -> None:
    """Nothing was written early or twice; and all matches were written."""
    missing = should(oracle)
    missing.subtract(written(lane))
    assert all(count >= 0 for count in missing.values()), missing
    assert all(is_match and "|" not in name for name, is_match in +missing)


def check_end(lane: Lane, oracle: Oracle) -> None:
    """Turns without records go on with what was left; then all of it was written."""
    for _ in range(200):
        if not lane.turn([]).changed:
            break
        check_so_far(lane, oracle)
    assert written(lane) == should(oracle)
    lane.reopen()
    assert not lane.turn([]).changed


@given(GENE, st.sampled_from(OUTER), st.integers(0, 3))
@settings(deadline=None, max_examples=120)
def test_rows_that_wait_for_a_later_turn_come_out_the_same(
    gene: int, join: JoinType, due_max: int
) -> None:
    chance = Random(gene)
    terms = terms_of(chance.getrandbits(32))._replace(join=join, max_future=None)
    oracle, lane = start(terms, due_max + 1)
    offset = 0
    for _ in range(30):
        genes = [chance.getrandbits(32) for _ in range(chance.randint(1, 9))]
        turn = turn_of(genes, offset, terms)._replace(counting=(True, True))
        offset += len(genes)
        disturb(lane, turn)
        lane.turn(turn.records, clean=turn.clean)
        for side, record in turn.records:
            oracle.feed(side, record)
        check_so_far(lane, oracle)
    check_end(lane, oracle)


def chain_of(chance: Random, longest: int) -> list[tuple[Side, Event]]:
    """Rows of alternating sides, each touching the one before it or just missing it."""
    side, at = chance.choice(list(Side)), 0
    rows = []
    for number in range(chance.randint(3, 6)):
        length = chance.choice([0, longest, chance.randint(0, longest)])
        rows.append((side, event(f"{number}", at, at + length)))
        at += length + chance.choice([0, 0, 0, 1])
        side = side.other
    return rows


@given(GENE, st.sampled_from(OUTER))
@settings(deadline=None, max_examples=400)
def test_late_retractions_along_chains_of_rows(gene: int, join: JoinType) -> None:
    """What decides whether rows are kept for long enough: partners of partners, far behind."""
    chance = Random(gene)
    length = chance.randint(1, 8)
    terms = terms_of(0)._replace(
        lateness=chance.randint(0, 4), max_interval=length, max_future=None, join=join
    )
    oracle, lane = start(terms, chance.choice([1, 1000]))
    rows = chain_of(chance, length)
    last = max(row.end for _, row in rows)
    events: list[tuple[Side, Record]] = [*chance.sample(rows, len(rows))]
    horizon = terms.lateness + length
    now = -1
    for _ in range(chance.randint(1, 4)):
        now = chance.randint(max(now, last), last + horizon + 2)
        events += [(one, watermark(now)) for one in Side]
        side, row = chance.choice(rows)
        if chance.random() < 0.7:
            events.append((side, retraction(row.id, row.start, row.end)))
    events += [(one, watermark(last + 5 * horizon)) for one in Side]
    while events:
        size = chance.randint(1, 3)
        turn, events = events[:size], events[size:]
        if chance.random() < 0.3:
            lane.reopen()
        lane.turn(turn)
        for side, record in turn:
            oracle.feed(side, record)
        check_so_far(lane, oracle)
    check_end(lane, oracle)
