"""What is said of two rows is what the join did with them, from whatever it is said."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from app.explanation import Explanation, Why, explain
from app.process import Running
from app.sought import Refusal, Sighting, Sought, Terms
from app.timeline import sought_in, terms_in, timeline
from schemas.match_id import match_id
from schemas.records import Event, Kind, Side
from state.checkpoint import Checkpoint, Layout
from tests.lane import Lane, event, settings_of, watermark
from tests.oracle import Oracle, alive

if TYPE_CHECKING:
    from schemas.codec import Codec

LATENESS, MAX_INTERVAL = 4, 8
KEYS = [b"k", b"other"]
NUMBER = 3


class NoCodec:
    """Rows of these tests hold no record."""

    def decode_event(self, _value: bytes) -> dict[str, Any]:
        return {}


def records_of(gene: int) -> list[list[tuple[Side, Event]]]:
    """Rows that come about in order of time, some late, again, under another interval, retracted.

    An id is used for one row only, as its user has promised.
    """
    chance = Random(gene)
    found: list[tuple[int, Side, Event]] = []
    for number in range(chance.randint(4, 24)):
        side, key = chance.choice(list(Side)), chance.choice([*KEYS, KEYS[0]])
        start = chance.randint(0, 60)
        end = start + chance.randint(0, MAX_INTERVAL)
        row_id, came = f"{'lr'[side]}{number}", start + chance.choice([0, 0, 2, 6, 25])
        found.append((came, side, event(row_id, start, end, key=key)))
        for kind, moved, weight in (
            (Kind.INSERT, 0, 0.2), (Kind.INSERT, 1, 0.15), (Kind.RETRACT, 0, 0.35),
        ):  # fmt: skip
            if chance.random() < weight:
                again = event(row_id, start, end - moved, key=key, ts=start, kind=kind)
                found.append((came + chance.choice([-3, 1, 5, 30]), side, again))
    for _ in range(chance.randint(0, 4)):
        time = chance.randint(0, 100)
        found.append((time, chance.choice(list(Side)), watermark(time)))
    found.sort(key=lambda one: (one[0], one[2].offset))
    records = [(side, record) for _, side, record in found]
    size = chance.randint(1, 6)
    return [records[at : at + size] for at in range(0, len(records), size)]


class Run:
    """A lane that has taken records, and everything that explaining may look at."""

    def __init__(self, gene: int) -> None:
        self.lane = Lane(settings_of(LATENESS, MAX_INTERVAL))
        self.oracle = Oracle(LATENESS, MAX_INTERVAL)
        self.records: list[tuple[Side, Event]] = []
        self.refusals: dict[int, Refusal] = {}
        for turn in records_of(gene):
            effects = self.lane.turn(turn)
            self.records += turn
            for side, record in turn:
                self.oracle.feed(side, record)
            self.refusals |= {
                reject.offset: Refusal(reject.reason, reject.detail) for reject in effects.rejects
            }

    def ids(self, side: Side) -> list[str]:
        return sorted({one.id for at, one in self.records if at is side and one.id})

    def sightings(self, side: Side, row_id: str) -> tuple[list[Sighting], list[Sighting]]:
        """Under the key, and under another one."""
        seen = [
            Sighting(NUMBER, one.offset, one.key, one.kind, one.ts, one.start, one.end,
                     refusal=self.refusals.get(one.offset))
            for at, one in self.records
            if at is side and one.id == row_id
        ]  # fmt: skip
        here = [one for one in seen if one.key == KEYS[0]]
        return here, [] if here else seen

    def from_state(self, left: str, right: str) -> tuple[Sought, Sought, Terms]:
        checkpoint = Checkpoint(
            epoch=1, sequence=1, writer="w", owner="o", address="", released=False,
            left_position=0, right_position=0, watermarks=self.lane.watermarks, rows=0, size=0,
            layout=Layout("none", LATENESS, MAX_INTERVAL, self.lane.settings.span, "c", "l", "r"),
        )  # fmt: skip
        running = Running(NUMBER, checkpoint, self.lane.settings, self.lane.state, 0, 0)
        codec: Codec = NoCodec()  # type: ignore[assignment]  # All that is asked of it.
        found = timeline(running, KEYS[0], codec, (left, right))
        return *sought_in(found, KEYS[0], (left, right)), terms_in(found)

    def explanations(self, left: str, right: str) -> dict[str, Explanation]:
        stored_left, stored_right, terms = self.from_state(left, right)
        told = {"state": explain(stored_left, stored_right, terms)}
        for name, keep in (("both", True), ("topics", False)):
            sought = []
            for stored in (stored_left, stored_right):
                here, elsewhere = self.sightings(stored.side, stored.id)
                rows = stored.stored if keep else ()
                sought.append(
                    Sought(stored.side, stored.id, stored.asked, rows, here, elsewhere, True)
                )
            told[name] = explain(sought[0], sought[1], terms)
        if not (stored_left.stored and stored_right.stored):
            del told["state"]
        return told


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_says_what_the_join_did(gene: int) -> None:
    run = Run(gene)
    rows = [(row.side, row.id) for row in run.oracle.rows]
    if len(rows) != len(set(rows)):
        return  # A retraction was remembered, forgotten, and then its row was taken after all.
    matches = alive(run.lane.emitted)
    for left in run.ids(Side.LEFT):
        for right in run.ids(Side.RIGHT):
            matched = match_id(left, right).decode() in matches
            for said in run.explanations(left, right).values():
                # Two rows of another key may well match: that is not what was asked.
                if said.why is not Why.OTHER_KEY:
                    assert said.matches == matched, (left, right, said)
                note(said.why)
                assert said.lines
                check_why(run, left, right, said)


def check_why(run: Run, left: str, right: str, said: Explanation) -> None:
    """What is said to have decided is what the oracle, which forgets nothing, has seen."""
    rows = {(row.side, row.id): row for row in run.oracle.rows if row.key == KEYS[0]}
    one, two = rows.get((Side.LEFT, left)), rows.get((Side.RIGHT, right))
    states = {row.state for row in (one, two) if row is not None}
    match said.why:
        case Why.MATCH:
            assert states == {"live"}
        case Why.APART:
            assert states == {"live"}
            assert one is not None
            assert two is not None
            assert not one.overlaps(two)
        case Why.RETRACTED:
            assert "retracted" in states
        case Why.RETRACTED_FIRST:
            assert "met" in states
        case Why.REJECTED | Why.OTHER_KEY:
            assert one is None or two is None or "remembered" in states
        case Why.NO_INSERT:
            assert "remembered" in states
        case _:
            raise AssertionError(said)
