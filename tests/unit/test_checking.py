"""`check` without a broker: what became of rows, and each kind of difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from app.checking.fates import Fate, Taken, fates
from app.checking.tables import Expected, Tables
from app.comparison import compare, differences
from app.kafka.rejects import Reject
from app.kafka.scan import Read
from schemas.match_id import match_id
from schemas.records import Event, Kind, Side
from tests.lane import PLENTY, match_value, unmatched_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

D: Final = 50
STANDS, RETRACTED, EITHER = Fate


def insert(place: int, start: int, end: int) -> Taken:
    return Taken(place, False, start, end)


def retract(place: int, start: int, end: int) -> Taken:
    return Taken(place, True, start, end)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([insert(1, 0, 9)], {1: STANDS}),
        ([insert(1, 0, 9), insert(2, 0, 9)], {1: STANDS}),
        ([insert(1, 0, 9), retract(2, 0, 9)], {1: RETRACTED}),
        ([insert(1, 0, 9), retract(2, 0, 9), insert(3, 0, 9)], {1: RETRACTED}),
        ([retract(1, 0, 9), insert(2, 0, 9)], {}),
        ([retract(1, 0, 9), insert(2, 0, 9), retract(3, 0, 9)], {}),
        ([retract(1, 0, 9)], {}),
        # Not in conflict, so the first was forgotten when the second came.
        ([insert(1, 0, 9), insert(2, 100, 109)], {1: STANDS, 2: STANDS}),
        ([insert(1, 0, 9), insert(2, 100, 109), retract(3, 100, 109)], {1: STANDS, 2: RETRACTED}),
        # The retraction's own interval decides where the row may be forgotten.
        ([insert(1, 0, 9), retract(2, 0, 5)], {1: RETRACTED}),
        ([insert(1, 0, 9), retract(2, 0, 10)], {1: EITHER}),
        ([retract(1, 0, 9), insert(2, 9, 9 + D)], {}),
        ([retract(1, 0, 9), insert(2, 10, 10 + D)], {2: EITHER}),
        ([retract(1, 0, 9), insert(2, 10, 10 + D), retract(3, 10, 10 + D)], {2: RETRACTED}),
    ],
)
def test_what_becomes_of_the_rows_of_an_id(records: list[Taken], expected: dict[int, Fate]) -> None:
    assert fates(records, D) == expected


def event(row_id: str, offset: int, start: int, end: int, kind: Kind = Kind.INSERT) -> Event:
    value = b"%b:%d:%d" % (row_id.encode(), start, end)
    return Event(offset, b"k", row_id, start, start, end, kind, value, None)


def reject(reason: str, topic: str, offset: int, key: bytes | None = b"k") -> Reject:
    return Reject((0, 0), 0, reason, (topic, 0, offset), "", key, b"", [])


LEFT: Final = [event("l%", 0, 0, 9), event("m", 1, 5, 20), event("m", 2, 5, 20, Kind.RETRACT)]
RIGHT: Final = [event("r|", 0, 8, 30), event("s", 1, 40, 41)]


def in_lane(lane: int, events: list[Event]) -> list[tuple[int, Event]]:
    return [(lane, event) for event in events]


def log(*changes: str, value: bytes | None = None) -> list[Read]:
    """Records of the output: "+" or "-" and the ids of both sides."""
    rows = {one.id: one for one in LEFT + RIGHT if one.kind == Kind.INSERT}
    reads = []
    for offset, (sign, *ids) in enumerate(change.split() for change in changes):
        left, right = (rows[name] for name in ids)
        overlap = max(left.start, right.start), min(left.end, right.end)
        whole = value or match_value(*overlap, left.value, right.value)
        key = match_id(left.id, right.id)
        reads.append(Read(0, offset, key, whole if sign == "+" else None))
    return reads


def value_of(result: Expected) -> bytes:
    start, end, left, right = result
    if left is not None and right is not None:
        return match_value(start, end, left, right)
    return unmatched_value(left is None, start, end, left or right or b"")


RIGHT_LOG: Final = ("+ l% r|", "+ m r|", "- m r|")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    tables = Tables(tmp_path / "database")
    yield tables
    tables.close()


def faults(
    tables: Tables, reads: list[Read], rejects: list[tuple[Side, Reject]] | None = None
) -> set[str]:
    """The names of what is wrong."""
    tables.add_events(Side.LEFT, in_lane(0, LEFT))
    tables.add_events(Side.RIGHT, in_lane(0, RIGHT))
    tables.add_rejects(rejects or [])
    tables.add_log(reads)
    tables.join(D, PLENTY)
    comparison = compare(tables.database)
    found = {n for n in ("missing", "stale", "extra", "twice") if comparison.faults[n]}
    for _, candidates, value in tables.matches():
        if all(value_of(one) != value for one in candidates):
            found.add("wrong")
    return found


def test_the_right_log_has_no_fault(tables: Tables) -> None:
    assert faults(tables, log(*RIGHT_LOG)) == set()
    assert tables.either() == tables.apart() == 0


@pytest.mark.parametrize(
    ("reads", "fault"),
    [
        (log("+ m r|", "- m r|"), "missing"),
        (log(*RIGHT_LOG, "- l% r|"), "missing"),
        (log("+ l% r|", "+ m r|"), "stale"),
        (log(*RIGHT_LOG, "+ l% s"), "extra"),
        ([*log(*RIGHT_LOG), Read(0, 9, b"\xff", b"x")], "extra"),
        (log(*RIGHT_LOG, "+ l% r|"), "twice"),
        (log("+ l% r|", value=b"another"), "wrong"),
    ],
)
def test_each_difference_is_named(tables: Tables, reads: list[Read], fault: str) -> None:
    assert faults(tables, reads) == {fault}


def test_what_was_rejected_has_no_matches(tables: Tables) -> None:
    assert faults(tables, [], [(Side.RIGHT, reject("late", "right", 0))]) == set()


def test_a_retraction_that_was_rejected_took_nothing_back(tables: Tables) -> None:
    late = [(Side.LEFT, reject("retract_after_horizon", "left", 2))]
    assert faults(tables, log("+ l% r|", "+ m r|"), late) == set()


def test_a_match_that_was_too_large_is_not_missing_and_its_rows_are_rows(tables: Tables) -> None:
    name = match_id("l%", "r|")
    large = [(Side.RIGHT, reject("too_large", "right", 0, name))]
    assert faults(tables, log("+ m r|", "- m r|"), large) == set()


def test_a_row_that_was_too_large_is_none(tables: Tables) -> None:
    assert faults(tables, [], [(Side.RIGHT, reject("too_large", "right", 0))]) == set()


def test_a_match_whose_id_is_too_large_is_not_expected(tables: Tables) -> None:
    tables.add_events(Side.LEFT, in_lane(0, LEFT))
    tables.add_events(Side.RIGHT, in_lane(0, RIGHT))
    tables.join(D, len(match_id("l%", "r|")) - 1)
    assert compare(tables.database).expected == 0


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        (b"R:s", b"40 41 - s:40:41", None),
        (b"R:s", b"40 41 -", "wrong"),
        # Not due yet, with a match, of a side that is not preserved, of nobody.
        (b"R:late", b"x", "extra"),
        (b"R:r%7C", b"x", "extra"),
        (b"L:m", b"x", "extra"),
        (b"R:nobody", b"x", "extra"),
    ],
)
def test_unmatched_rows_of_an_outer_join(
    tables: Tables, name: bytes, value: bytes, fault: str | None
) -> None:
    tables.add_due(Side.RIGHT, {0: 50})
    tables.add_events(Side.RIGHT, in_lane(0, [event("late", 2, 50, 50)]))
    reads = [*log(*RIGHT_LOG), Read(0, 50, b"R:s", b"40 41 - s:40:41")]
    if name != b"R:s":
        reads.append(Read(0, 51, name, value))
    elif fault is not None:
        reads[-1] = Read(0, 50, name, value)
    assert faults(tables, reads) == ({fault} if fault else set())


def test_an_unmatched_row_that_is_not_written_is_missing_unless_it_was_too_large(
    tables: Tables,
) -> None:
    tables.add_due(Side.RIGHT, {0: 50})
    assert faults(tables, log(*RIGHT_LOG)) == {"missing"}


def test_an_unmatched_row_that_was_too_large_is_not_missing(tables: Tables) -> None:
    tables.add_due(Side.RIGHT, {0: 50})
    large = [(Side.RIGHT, reject("too_large", "right", -1, b"R:s"))]
    assert faults(tables, log(*RIGHT_LOG), large) == set()


def test_nobody_knows_what_a_job_did_before_its_first_trace(tables: Tables) -> None:
    tables.add_events(Side.LEFT, in_lane(0, [event(f"l{at}", at, 0, 9) for at in range(3)]))
    tables.add_events(Side.RIGHT, in_lane(0, [event("r", 0, 5, 6)]))
    tables.add_log([Read(0, 0, match_id("l1", "r"), b"v")])
    tables.join(D, PLENTY, begun_late=True)
    comparison = compare(tables.database)
    assert (comparison.faults["missing"], tables.either()) == (1, 1)
    assert dict(differences(tables.database, 5, ["missing"])) == {"missing": match_id("l2", "r")}


def test_a_job_without_a_trace_may_have_read_nothing(tables: Tables) -> None:
    tables.add_events(Side.LEFT, in_lane(0, LEFT))
    tables.add_events(Side.RIGHT, in_lane(0, RIGHT))
    tables.join(D, PLENTY, begun_late=True)
    assert (compare(tables.database).expected, tables.either()) == (0, 1)


def test_keys_that_lie_apart_are_counted(tables: Tables) -> None:
    tables.add_events(Side.LEFT, in_lane(0, LEFT))
    tables.add_events(Side.RIGHT, in_lane(1, RIGHT))
    tables.join(D, PLENTY)
    assert (compare(tables.database).expected, tables.apart()) == (0, 1)


def test_matches_of_rows_that_are_gone_are_told_from_others(tables: Tables) -> None:
    reads = log(*RIGHT_LOG, "+ l% s")
    reads.append(Read(0, 99, match_id("gone", "r|"), b"x"))
    assert faults(tables, reads) == {"extra"}
    assert compare(tables.database).faults["extra"] == 2
    assert tables.extra_of_known_rows() == 1


@pytest.mark.parametrize(("start", "end"), [(2**63, 2**63), (-(2**63) - 1, 5), (0, 2**70)])
def test_times_that_no_table_holds_were_rejected(tables: Tables, start: int, end: int) -> None:
    beyond = event("beyond", 9, start, end)
    tables.add_events(Side.LEFT, in_lane(0, [beyond]))
    edge = event("edge", 10, -(2**63), 2**63 - 1)
    tables.add_events(Side.RIGHT, in_lane(0, [edge]))
    assert tables.database.execute("select place from events").fetchall() == [(10,)]
