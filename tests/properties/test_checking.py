"""`check` finds no difference in what the rules say, whatever the inputs."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from app.checking.tables import Tables
from app.comparison import compare
from app.kafka.rejects import Reject
from app.kafka.scan import Read
from schemas.records import Event, JoinType, Rejected, Side
from tests.lane import PLENTY
from tests.oracle import Oracle, alive
from tests.properties.test_join import record_of, terms_of


@given(st.integers(0, 2**32), st.integers(0, 120))
@settings(max_examples=100, deadline=None)
def test_what_the_oracle_emits_is_what_a_batch_join_says(gene: int, count: int) -> None:
    chance = Random(gene)
    terms = terms_of(chance.getrandbits(32))
    preserved = chance.choice(list(JoinType)).preserved
    oracle = Oracle(terms.lateness, terms.max_interval, terms.max_future, preserved)
    events: tuple[list[Event], list[Event]] = ([], [])
    for offset in range(count):
        side, record = record_of(chance.getrandbits(32), offset, terms)
        now = chance.choice([None, terms.base + offset * terms.pace])
        oracle.feed(side, record, now)
        if not isinstance(record, Rejected):
            events[side].append(record)
    accepted = [(row.side, row.id) for row in oracle.rows]
    if len(set(accepted)) < len(accepted):
        return  # The user's promise: ids are not used twice.
    with TemporaryDirectory() as directory:
        tables = Tables(Path(directory) / "database")
        keys = {(side, one.offset): one.key for side in Side for one in events[side]}
        for side in Side:
            tables.add_events(side, [(0, event) for event in events[side]])
        tables.add_rejects(
            (
                side,
                Reject((0, 0), 0, reason, ("", 0, offset), "", keys.get((side, offset)), b"", []),
            )
            for side, offset, reason in oracle.rejects
        )
        tables.add_log(
            Read(0, offset, one.match_id.encode(), None if one.start is None else b"v")
            for offset, one in enumerate(oracle.emitted)
        )
        for side in preserved if math.isfinite(oracle.wm) else ():
            tables.add_due(side, {0: int(oracle.wm) - oracle.horizon})
        tables.join(terms.max_interval, PLENTY)
        comparison = compare(tables.database)
        either = tables.either()
        tables.close()
    faults = {name: comparison.faults[name] for name in ("missing", "stale", "extra", "twice")}
    assert faults == dict.fromkeys(faults, 0)
    live = len(alive((one.match_id, one.start is not None) for one in oracle.emitted))
    assert comparison.live <= live <= comparison.live + either
