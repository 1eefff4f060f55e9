from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from app.merge import Inbox
from schemas.records import Event, Kind, Record, Side
from tests.lane import named, pushed, settings_of

SETTINGS = settings_of(10, 50)
sides = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from([Kind.INSERT] * 3 + [Kind.RETRACT])),
    max_size=20,
)


def records_of(side: Side, drawn: list[tuple[int, Kind]]) -> list[Record]:
    return [
        Event(offset, b"k", f"{side.name} {offset}", ts, ts, ts, int(kind), b"", None)
        for offset, (ts, kind) in enumerate(drawn)
    ]


def merged(left: list[Record], right: list[Record]) -> list[tuple[Side, Record]]:
    """The rule as it is said: heads compared by their own ts, retractions by their side's top."""
    queues = [list(left), list(right)]
    tops: list[float] = [float("-inf")] * 2
    taken: list[tuple[Side, Record]] = []
    while any(queues):
        orders = []
        for side, queue in enumerate(queues):
            head = queue[0] if queue else None
            if head is None:
                orders.append(float("inf"))
            elif isinstance(head, Event) and head.kind == Kind.INSERT:
                orders.append(head.ts)
            else:
                orders.append(tops[side])
        side = Side.LEFT if queues[0] and orders[0] <= orders[1] else Side.RIGHT
        record = queues[side].pop(0)
        if isinstance(record, Event) and record.kind == Kind.INSERT:
            tops[side] = max(tops[side], record.ts)
        taken.append((side, record))
    return taken


@given(sides, sides, st.integers(0, 2**32))
@settings(deadline=None, max_examples=300)
def test_the_order_depends_on_the_sides_alone(
    left: list[tuple[int, Kind]], right: list[tuple[int, Kind]], gene: int
) -> None:
    """However the sides are polled, and wherever turns end."""
    chance = Random(gene)
    waiting = {side: records_of(side, d) for side, d in zip(Side, (left, right), strict=True)}
    expected = merged(*waiting.values())
    inbox = Inbox(SETTINGS)
    taken: list[tuple[Side, Record]] = []
    while any(waiting.values()):
        side = chance.choice(list(Side))
        polled = chance.randint(0, 4)
        inbox.push(side, map(pushed, waiting[side][:polled]))
        waiting[side] = waiting[side][polled:]
        taken += map(named, inbox.take(chance.randint(0, 5), (False, False), 0))
    while inbox.take(0, (True, True), 0) or len(inbox):
        taken += map(named, inbox.take(chance.randint(1, 5), (True, True), 0))
    assert taken == expected
