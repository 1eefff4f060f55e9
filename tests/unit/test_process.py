"""One lane's part of a turn: positions, totals, and turns that end early."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.join import LaneState
from app.process import (
    Moment,
    Plan,
    Running,
    abandon_turn,
    plan_turn,
    resumed,
    settle_turn,
    timestamped,
    truncation_point,
)
from schemas.records import Event, Side
from state.checkpoint import Bucket, Checkpoint, Layout, Watermarks
from tests.lane import event, pushed, retraction, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from schemas.records import Arrival
    from state.keys import StoredRow

BOTH = (True, True)
MOMENT = Moment(now=None, writer="w", owner="o", address="", limit=1_000, max_skew=0)


def running(matches_max: int = 10**9) -> Running:
    settings = settings_of(10, 50)._replace(matches_max=matches_max)
    layout = Layout("none", 10, 50, settings.span, "c", "l", "r")
    checkpoint = Checkpoint(
        epoch=1, sequence=0, writer="", owner="", address="", released=False, left_position=0,
        right_position=0, watermarks=Watermarks(), rows=0, size=0, layout=layout,
    )  # fmt: skip
    state = LaneState(Watermarks(), {}, lambda _buckets, _key: [], settings.span)
    return Running(0, checkpoint, settings, state, 0, 0)


def push(lane: Running, side: Side, *events: Event) -> None:
    numbered = [one._replace(offset=offset) for offset, one in enumerate(events, 100)]
    lane.inbox.push(side, map(pushed, numbered))
    lane.drained[side] = True


def hot(matches_max: int = 10**9) -> Running:
    """Five left rows that each of six right rows meets."""
    lane = running(matches_max)
    push(lane, Side.LEFT, *(event(f"l{n}", 0, 20, ts=n) for n in range(5)))
    push(lane, Side.RIGHT, *(event(f"r{n}", 0, 20, ts=4 + n) for n in range(6)))
    return lane


def turns(lane: Running) -> list[Plan]:
    plans: list[Plan] = []
    while (plan := plan_turn(lane, MOMENT, BOTH)) is not None:
        settle_turn(lane, plan, len(plans), len(plans) + 1)
        plans.append(plan)
    return plans


def emitted(plans: list[Plan]) -> list[bytes]:
    return [name for plan in plans if plan.effects for name, _, _ in plan.effects.matches]


@dataclass
class Stored:
    checkpoint: Checkpoint | None

    def buckets(self) -> dict[int, Bucket]:
        return {}

    def windows(self, buckets: Sequence[int], keys: Iterable[bytes]) -> list[StoredRow]:
        return []

    def probe(
        self, buckets: Sequence[int], records: list[Arrival], span: int
    ) -> tuple[list[StoredRow], list[bytes]]:
        return [], []

    def due(self, first: bytes, after: bytes, count_max: int) -> list[bytes]:
        return []


def test_memory_is_used_on_where_no_turn_was_committed_meanwhile() -> None:
    lane = hot()
    before = lane.checkpoint
    plan = plan_turn(lane, MOMENT, BOTH)
    assert plan is not None
    assert lane.state.windows.table
    abandon_turn(lane, plan)
    assert not lane.state.windows.table
    layout = before.layout
    assert resumed(lane, Stored(before), layout) is lane.state
    committed = resumed(lane, Stored(plan.checkpoint), layout)
    assert committed is not lane.state
    assert committed.watermarks == plan.checkpoint.watermarks
    assert resumed(None, Stored(before), layout) is not lane.state
    assert resumed(None, Stored(None), layout).windows.span == layout.span
    assert resumed(None, Stored(replace(before, decided=b"x")), layout).decided == b"x"


def test_a_turn_on_top_of_one_that_fails_fails_with_it() -> None:
    lane = hot()
    (whole,) = turns(hot())
    first = plan_turn(lane, replace(MOMENT, limit=4), BOTH)
    assert first is not None
    settle_turn(lane, first, 0, 1)
    before, directory = lane.checkpoint, dict(lane.buckets)
    second = plan_turn(lane, replace(MOMENT, limit=3), BOTH)
    third = plan_turn(lane, MOMENT, BOTH)
    assert second is not None
    assert third is not None
    # On top of each other, and nobody is told.
    assert third.checkpoint == replace(whole.checkpoint, sequence=3)
    assert lane.positions == (before.left_position, before.right_position)
    assert (lane.checkpoint, lane.buckets) == (before, directory)
    assert lane.state.buckets != directory
    for plan in (second, third):
        abandon_turn(lane, plan)
    assert lane.planned == before
    assert lane.state.watermarks == before.watermarks
    assert lane.state.buckets == directory
    assert not lane.state.windows.table.get(b"k")
    assert resumed(lane, Stored(before), before.layout) is lane.state


def test_a_turn_on_top_of_another_gives_what_they_give_one_by_one() -> None:
    lane, plans, waiting = hot(), [], None
    while (plan := plan_turn(lane, replace(MOMENT, limit=2), BOTH)) is not None:
        if waiting is not None:
            settle_turn(lane, waiting, len(plans), len(plans) + 1)
        plans.append(plan)
        waiting = plan
    assert waiting is not None
    settle_turn(lane, waiting, len(plans), len(plans) + 1)
    (whole,) = turns(hot())
    assert sorted(emitted(plans)) == sorted(emitted([whole]))
    assert lane.checkpoint == replace(whole.checkpoint, sequence=len(plans))
    assert lane.buckets == lane.state.buckets
    assert [entry.rows for entry in lane.buckets.values()] == [11]


def test_positions_are_after_what_was_taken() -> None:
    (plan,) = turns(hot())
    checkpoint = plan.checkpoint
    assert (checkpoint.left_position, checkpoint.right_position) == (105, 106)
    assert (checkpoint.rows, checkpoint.sequence, checkpoint.owner) == (11, 1, "o")


def test_a_turn_ends_with_the_record_that_has_too_many_matches() -> None:
    plans = turns(hot(matches_max=12))
    assert [len(plan.effects.matches) for plan in plans if plan.effects] == [15, 15]
    assert [plan.checkpoint.right_position for plan in plans] == [103, 106]
    assert [plan.checkpoint.left_position for plan in plans] == [105, 105]


def test_a_turn_ends_with_the_retraction_that_has_too_many_tombstones() -> None:
    lane = hot(matches_max=12)
    turns(lane)
    push(lane, Side.RIGHT, *(retraction(f"r{n}", 0, 20) for n in range(6)))
    assert [len(plan.effects.matches) for plan in turns(lane) if plan.effects] == [15, 15]


def test_ending_early_changes_no_result_and_loses_no_record() -> None:
    whole = turns(hot())
    for matches_max in range(1, 31):
        parts = turns(hot(matches_max))
        assert emitted(parts) == emitted(whole)
        assert parts[-1].checkpoint.watermarks == whole[-1].checkpoint.watermarks
        assert parts[-1].checkpoint.rows == whole[-1].checkpoint.rows


def test_one_record_may_have_more_matches_than_a_turn() -> None:
    lane = running(matches_max=2)
    push(lane, Side.LEFT, *(event(f"l{n}", 0, 20, ts=n) for n in range(9)))
    push(lane, Side.RIGHT, event("r", 0, 20, ts=9))
    assert [len(plan.effects.matches) for plan in turns(lane) if plan.effects] == [9]


def test_kafka_timestamps_are_in_ms_between_one_and_now() -> None:
    matches = [(b"a", b"", 7_000), (b"b", None, 7_999), (b"c", b"", 10**9), (b"d", b"", -1)]
    stamped = timestamped(matches, 1_000, 500_000)
    assert [ms for _, _, ms in stamped] == [7, 7, 500_000, 1]
    assert [(key, value) for key, value, _ in stamped] == [one[:2] for one in matches]


def test_the_last_committed_turn_is_never_truncated() -> None:
    lane = hot()
    turns(lane)
    assert truncation_point(lane) == 0
    lane.buckets.clear()
    lane.changelog_first = 17
    assert truncation_point(lane) == 17
