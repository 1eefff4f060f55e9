"""The join says what the oracle says, however it is split, cleaned, evicted or run again."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import (
    INT64_MAX,
    INT64_MIN,
    Event,
    JoinType,
    Kind,
    Reason,
    Record,
    Rejected,
    Side,
)
from tests.lane import PLENTY, Lane, settings_of
from tests.oracle import Oracle, alive

KEYS = [b"", b"k", b"k\x00", b"\x00\x00\x00\x01k"]
IDS = ["a", "b", "c", "|", "%7C"]


class Turn(NamedTuple):
    records: list[tuple[Side, Record]]
    counting: tuple[bool, bool]
    now: int | None
    clean: bool
    before: str
    """What happens to memory before the turn."""


class Terms(NamedTuple):
    lateness: int
    max_interval: int
    max_future: int | None
    base: int
    reach: int
    pace: int
    """By how much time moves on with every offset."""
    names: int
    """How many keys, and ids, are in use."""
    join: JoinType


def terms_of(gene: int) -> Terms:
    chance = Random(gene)
    lateness, max_interval = chance.randint(0, 6), chance.randint(0, 12)
    reach, pace = chance.randint(1, 40), chance.choice([0, 1, 2])
    room = lateness + 4 * max_interval
    lowest, highest = INT64_MIN + room, INT64_MAX - room
    return Terms(
        lateness,
        max_interval,
        chance.choice([None, None, chance.randint(0, 2 * reach)]),
        chance.choice([0, -reach, lowest, highest - reach - max_interval - 60 * pace]),
        reach,
        pace,
        chance.randint(1, len(KEYS)),
        chance.choice([JoinType.INNER, JoinType.LEFT, JoinType.RIGHT, JoinType.FULL]),
    )


def record_of(gene: int, offset: int, terms: Terms) -> tuple[Side, Record]:
    chance = Random(gene)
    side = chance.choice(list(Side))
    moved = terms.base + offset * terms.pace
    start = moved + chance.randint(0, terms.reach)
    end = start + chance.choice([0, terms.max_interval, chance.randint(0, terms.max_interval)])
    kind = chance.choice([Kind.INSERT] * 6 + [Kind.RETRACT] * 3 + [Kind.WATERMARK])
    ts = chance.choice([start, chance.randint(start, end)])
    if kind == Kind.RETRACT:
        ts = moved + chance.randint(0, terms.reach)
    key: bytes | None = chance.choice(KEYS[: terms.names])
    oddity = chance.randint(0, 60)
    if oddity == 0:
        ts = chance.choice([INT64_MIN, INT64_MAX, start - 1, end + 1])
    elif oddity == 1:
        beyond = start + terms.max_interval + 1
        start, end = chance.choice([(end + 1, start), (start, beyond), (INT64_MIN, INT64_MAX)])
    elif oddity == 2:
        key = None
    elif oddity == 3:
        return side, Rejected(offset, Reason.UNDECODABLE, "", None)
    value = chance.choice([b"x", b"x", b"x", b"other"])
    row_id = chance.choice(IDS[: terms.names + 1])
    return side, Event(offset, key, row_id, ts, start, end, int(kind), value, None)


def turn_of(genes: list[int], first_offset: int, terms: Terms) -> Turn:
    chance = Random(genes[0])
    terms.base + first_offset * terms.pace
    return Turn(
        [record_of(gene, first_offset + at, terms) for at, gene in enumerate(genes[1:])],
        chance.choice([(True, True)] * 8 + [(True, False), (False, True), (False, False)]),
        chance.choice(
            [None, terms.base + first_offset * terms.pace + chance.randint(0, terms.reach)]
        ),
        chance.random() < 0.5,
        chance.choice(["", "", "evict", "evict all", "reopen", "abort"]),
    )


GENE = st.integers(0, 2**32)
"""Seeds one event, turn or run: one draw for each, so that a failing run shrinks fast."""


@given(GENE, st.lists(st.lists(GENE, min_size=1, max_size=9), max_size=16))
@settings(deadline=None, max_examples=300)
def test_says_what_the_oracle_says(gene: int, genes: list[list[int]]) -> None:
    check_run(terms_of(gene), genes)


@given(GENE)
@settings(deadline=None, max_examples=150)
def test_says_what_the_oracle_says_of_long_runs(gene: int) -> None:
    chance = Random(gene)
    terms = terms_of(chance.getrandbits(32))
    turns = [chance.randint(1, 9) for _ in range(40)]
    check_run(terms, [[chance.getrandbits(32) for _ in range(size)] for size in turns])


def check_run(terms: Terms, genes: list[list[int]]) -> None:
    oracle, lane = start(terms)
    offset = 0
    for turn_genes in genes:
        turn = turn_of(turn_genes, offset, terms)
        offset += len(turn_genes)
        disturb(lane, turn)
        check_turn(lane, oracle, turn)
    accepted = [(row.side, row.id) for row in oracle.rows]
    if len(set(accepted)) == len(accepted):  # The user's promise: ids are not used twice.
        assert alive(lane.emitted) == oracle.live_matches()


def start(terms: Terms, due_max: int = PLENTY) -> tuple[Oracle, Lane]:
    """Both at the beginning, with the same terms."""
    lateness, max_interval, max_future = terms[:3]
    oracle = Oracle(lateness, max_interval, max_future, terms.join.preserved)
    kept_to = settings_of(
        lateness, max_interval, max_future=max_future, join_type=terms.join, due_max=due_max
    )
    return oracle, Lane(kept_to)


def disturb(lane: Lane, turn: Turn) -> None:
    windows = lane.state.windows
    if turn.before == "evict":
        windows.evict(windows.size // 2)
    elif turn.before == "evict all":
        windows.evict(windows.size)
        windows.evict(windows.size)
        assert not windows.table
        assert windows.size == 0
    elif turn.before == "reopen":
        lane.reopen()
    elif turn.before == "abort":
        lane.abort(lane.propose(turn.records, now=turn.now, counting=turn.counting))


def check_turn(lane: Lane, oracle: Oracle, turn: Turn) -> None:
    emitted, rejects = len(oracle.emitted), len(oracle.rejects)
    tally = vars(oracle.tally).copy()
    effects = lane.turn(turn.records, now=turn.now, counting=turn.counting, clean=turn.clean)
    for side, record in turn.records:
        oracle.feed(side, record, turn.now, turn.counting)
    oracle.follow(turn.counting)

    expected = oracle.emitted[emitted:]
    assert Counter(
        (name.decode(), ts, value and (int(value.split()[0]), int(value.split()[1])))
        for name, value, ts in effects.matches
    ) == Counter(
        (m.match_id, m.ts, None if m.start is None else (m.start, m.end)) for m in expected
    )
    assert [(r.offset, r.reason) for r in effects.rejects] == [
        (offset, reason) for _, offset, reason in oracle.rejects[rejects:]
    ]
    for name, before in tally.items():
        assert getattr(effects.counts, name) == getattr(oracle.tally, name) - before, name
    assert effects.watermarks == tuple(
        None if ts == float("-inf") else ts for ts in (oracle.wm, *oracle.sides)
    )
    check_directory(lane)


def check_directory(lane: Lane) -> None:
    recomputed = lane.recomputed_directory()
    assert lane.directory.keys() == recomputed.keys() == lane.state.buckets.keys()
    for bucket, entry in lane.directory.items():
        assert entry == recomputed[bucket] == lane.state.buckets[bucket]
