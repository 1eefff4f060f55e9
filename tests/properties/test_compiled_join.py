"""The compiled loop that decides records against the Python one that says what is right."""

from __future__ import annotations

import gc
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app.decide
import state.window
from native import loops
from native.interface import Deciding
from schemas.records import INT64_MAX, Event, Fault, Kind, Reason, Record
from state.side import FEW, Rows, put
from tests.properties.test_compiled import in_python
from tests.properties.test_join import GENE, Terms, Turn, disturb, start, terms_of, turn_of

if TYPE_CHECKING:
    from state.window import Window
    from tests.lane import Lane

pytestmark = pytest.mark.skipif(loops is None, reason="the loops are not compiled here")


def memory(lane: Lane) -> object:
    """All that a lane holds in memory, in its order."""
    windows = lane.state.windows
    held = [
        (key, [(list(side.items()), side.last, side.used, shelves(side)) for side in window])
        for key, window in windows.table.items()
    ]
    return held, windows.size, windows._costs, windows.cold, windows._opened, windows._missing


def shelves(side: Rows) -> object:
    return side.shelves and [(each.bits, each.longest, each.rows) for each in side.shelves]


def crowded(turn: Turn, chance: Random) -> Turn:
    """With ids of their own for most, so that there are many rows of a key."""

    def renamed(record: Record) -> Record:
        if not isinstance(record, Event) or chance.random() < 0.1:
            return record
        return record._replace(id=f"{record.id}{record.offset}")

    return turn._replace(records=[(side, renamed(record)) for side, record in turn.records])


def histories(gene: int) -> tuple[Terms, list[Turn]]:
    chance = Random(gene)
    terms = terms_of(chance.getrandbits(32))
    size = chance.choice([3, 9, 60])
    dense, turns = chance.random() < 0.7, []
    if chance.random() < 0.2:  # Many rows of one key, nearly all in order.
        terms = terms._replace(names=1, pace=1, reach=1)
    for number in range(chance.randint(1, 120 // size)):
        genes = [chance.getrandbits(32) for _ in range(chance.randint(2, size + 1))]
        turn = turn_of(genes, number * size, terms)
        turns.append(crowded(turn, chance) if dense else turn)
    return terms, turns


def joined(lane: Lane, turn: Turn) -> object:
    disturb(lane, turn)
    effects = lane.turn(turn.records, now=turn.now, counting=turn.counting, clean=turn.clean)
    return effects, memory(lane)


@given(
    GENE,
    st.sampled_from([0, 3, 30, 10**9]),
    st.sampled_from([0, 70, 90, 10**9]),
)
@settings(deadline=None, max_examples=300)
def test_turns_are_decided_the_same(gene: int, matches_max: int, row_bytes_max: int) -> None:
    terms, turns = histories(gene)
    lanes = [start(terms)[1] for _ in range(2)]
    for lane in lanes:
        lane.settings = lane.settings._replace(matches_max=matches_max, row_bytes_max=row_bytes_max)
    for turn in turns:
        outcomes = [joined(lanes[0], turn)]
        with in_python(app.decide), in_python(state.window):
            outcomes.append(joined(lanes[1], turn))
        assert outcomes[0] == outcomes[1]


# ---- The loop alone ------------------------------------------------------------------------------

FREE = (-(10**6), 10**6, 100, 10**6, 10, 1000, 10**6)
"""Bounds as in `Deciding` that hardly anything exceeds."""
NEVER = (None, None, None)


class Text(str):
    __slots__ = ()


class Data(bytes):
    __slots__ = ()


def insert(side: int, row_id: str, end: int = 9, start: int = 1, *, key: Any = b"k") -> Any:
    return (0, side, 7, key, (end, start, row_id, end, int(Kind.INSERT), b"v"), "source")


class Given:
    """What the loop is called with, and what it leaves to others."""

    def __init__(self, window: Window | None = None, bounds: Any = FREE) -> None:
        self.table: dict[bytes, Any] = {} if window is None else {b"k": window}
        self.deciding = Deciding(self.table, self.open, [], [], bounds)
        self.opened: list[bytes] = []
        self.doubts: list[tuple[Any, int | None]] = []
        self.answer: object = False

    def open(self, key: bytes) -> Window:
        self.opened.append(key)
        window = self.table[key] = Rows(), Rows()
        return window

    def doubtful(self, record: Any, watermark: int | None) -> Any:
        self.doubts.append((record, watermark))
        return self.answer

    def decide(self, *records: Any, watermarks: Any = NEVER, counting: Any = (True, True)) -> Any:
        assert loops is not None
        return loops.decide(list(records), self.deciding, watermarks, counting, self.doubtful)


def full(count: int) -> Rows:
    side = Rows()
    for number in range(count):
        put(side, (9, 1, f"r{number}", 9, 0, b"v"))
    return side


def test_a_plain_insert_is_no_doubt() -> None:
    call = Given()
    first, second = insert(0, "a", 5), insert(1, "b", 9)
    assert call.decide(first, second) == (2, 5, 5, 9)
    assert call.doubts == []
    assert call.opened == [b"k"]
    assert call.deciding.inserted == [first, second]
    assert call.deciding.pairs == [(first[4], second[4], second)]
    assert [(dict(side), side.last) for side in call.table[b"k"]] == [
        ({"a": first[4]}, 5),
        ({"b": second[4]}, 9),
    ]


def test_pairs_are_in_the_order_of_the_latest_and_stop_where_a_row_ends_before() -> None:
    side = Rows()
    for end, flags in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 0)):
        put(side, (end, 0, f"r{end}", end, flags, b""))
    call = Given((side, Rows()))
    call.decide(insert(1, "new", 9, 2))
    assert [left[2] for left, _, _ in call.deciding.pairs] == ["r5", "r2"]


ROW = insert(0, "a")[4]


@pytest.mark.parametrize(
    "record",
    [
        insert(0, "a", key=None),
        insert(0, "a", key=Data(b"k")),
        insert(0, Text("a")),
        insert(0, "known"),
        insert(0, "a", INT64_MAX + 1),
        insert(0, "a", 9, -92),
        insert(0, "a", 10**6 + 1, 10**6),
        insert(0, "a", 1, 2),
        (0, 0, 7, b"k" * 1000, ROW, None),
        (0, 0, 7, b"k", (*ROW[:4], 1, b"v"), None),
        (0, 0, 7, b"k", (*ROW[:4], Kind.INSERT, b"v"), None),
        (0, 0, 7, b"k", (*ROW[:5], Data(b"v")), None),
        (0, 0, 7, b"k", (*ROW[:5], None), None),
        (0, 0, 7, b"k", ROW[:5], None),
        (0, 0, 7, b"k", (True, *ROW[1:]), None),
        (0, 0, 7, None, Fault(Reason.UNDECODABLE, ""), None),
    ],
)
def test_what_is_unusual_is_a_doubt_and_changes_nothing(record: Any) -> None:
    mine = Rows()
    put(mine, (5, 5, "known", 5, 0, b"v"))
    call = Given((mine, full(3)))
    before = str(call.table)
    assert call.decide(record) == (1, None, None, None)
    assert call.doubts == [(record, None)]
    assert (call.deciding.pairs, call.deciding.inserted) == ([], [])
    assert str(call.table) == before


@pytest.mark.parametrize(
    "window",
    [
        (full(FEW), Rows()),
        (Rows(),),
        [Rows(), Rows()],
        ([], Rows()),
        (Rows(), []),
        (Rows(), {"x": (1, 2)}),
        (Rows(), {"x": (9, 2**70, "x", 9, 0, b"")}),
        (Rows(), {"x": (2**70, 1, "x", 9, 0, b"")}),
        (Rows(), {"x": (9, 1, "x", 9, None, b"")}),
    ],
)
def test_an_unusual_window_is_a_doubt(window: Any) -> None:
    call = Given(window)
    call.decide(insert(0, "a"))
    assert len(call.doubts) == 1
    assert (call.deciding.pairs, call.deciding.inserted) == ([], [])


def test_a_row_that_does_not_end_last_is_a_doubt() -> None:
    call = Given((full(1), Rows()))
    call.decide(insert(0, "a", 8))
    assert len(call.doubts) == 1
    call.decide(insert(0, "b", 9))
    assert len(call.doubts) == 1


def test_a_late_row_is_a_doubt_and_sees_the_watermark_before_it() -> None:
    call = Given()
    at = {"watermarks": (50, 50, 50)}
    assert call.decide(insert(0, "on time", 40), **at) == (1, 50, 50, 50)
    assert call.doubts == []
    assert call.decide(insert(0, "late", 39), **at) == (1, 50, 50, 50)
    assert [watermark for _, watermark in call.doubts] == [50]


@pytest.mark.parametrize(
    ("counting", "watermarks", "lane"),
    [
        ((True, True), (None, None, None), None),
        ((True, True), (None, None, 5), 5),
        ((True, True), (3, 2, 20), 9),
        ((True, True), (12, 2, 20), 12),
        ((True, False), (None, None, None), 9),
        ((False, True), (None, None, 5), 5),
        ((False, True), (7, None, 5), 7),
        ((False, False), (None, None, None), None),
        ((False, False), (1, 2, 3), 1),
    ],
)
def test_moves_watermarks(counting: Any, watermarks: Any, lane: int | None) -> None:
    call = Given()
    found = call.decide(insert(0, "a", 9), counting=counting, watermarks=watermarks)
    assert found == (1, lane, 9, watermarks[2])


def test_a_doubtful_record_moves_the_watermark_where_it_is_said_so() -> None:
    call = Given()
    call.answer = True
    mark = (0, 1, 7, None, (0, 0, "", 30, int(Kind.WATERMARK), b""), None)
    assert call.decide(mark) == (1, None, None, 30)
    with pytest.raises(OverflowError):
        call.decide((0, 1, 7, None, (0, 0, "", 2**63, int(Kind.WATERMARK), b""), None))


def test_ends_after_the_record_with_too_many_pairs() -> None:
    call = Given((Rows(), full(3)), bounds=(*FREE[:6], 4))
    records = [insert(0, f"a{number}") for number in range(4)]
    assert call.decide(*records)[0] == 2
    assert len(call.deciding.pairs) == 6


@pytest.mark.parametrize("stage", ["open", "doubtful", "answer"])
def test_an_exception_of_python_code_goes_through(stage: str) -> None:
    class Odd:
        def __bool__(self) -> bool:
            raise LookupError

    def fail(*_: object) -> None:
        raise LookupError

    call = Given()
    call.answer = Odd()
    if stage == "doubtful":
        call.doubtful = fail  # type: ignore[assignment, method-assign]
    if stage == "open":
        call.deciding = call.deciding._replace(open=fail)
    record = insert(0, "a", key=b"k" if stage == "open" else None)
    with pytest.raises(LookupError):
        call.decide(insert(0, "b"), record) if stage != "open" else call.decide(record)


@pytest.mark.parametrize(
    "arguments",
    [
        ((), Given().deciding, NEVER, (True, True), print),
        ([1], Given().deciding, NEVER, (True, True), print),
        ([insert(2, "a")], Given().deciding, NEVER, (True, True), print),
        ([], (1, 2), NEVER, (True, True), print),
        ([], (), NEVER, (True, True), print),
        ([], Given(bounds=(1, 2)).deciding, NEVER, (True, True), print),
        ([], Given().deciding, (None, None), (True, True), print),
        ([], Given().deciding, (None, None, 2.0), (True, True), print),
        ([], Given().deciding, NEVER, (True,), print),
        ([], Given().deciding, NEVER, (True, True)),
    ],
)
def test_wrong_arguments_are_an_error(arguments: Any) -> None:
    assert loops is not None
    with pytest.raises(TypeError):
        loops.decide(*arguments)


def test_lets_go_of_everything() -> None:
    """Plain inserts with matches, doubts and failures leave no reference behind."""
    records = [insert(number % 2, f"r{number}" * 9, 10**5 + number) for number in range(4 * FEW)]
    records += [insert(0, "late" * 9, -(10**5), -(10**5)), insert(1, "x" * 9, 10**5, key=None)]
    parts = [each for record in records for each in (record, record[4], record[4][0], record[4][2])]

    def run() -> None:
        call = Given()
        for _ in range(50):
            call.decide(*records)
            for held in (call.table, call.deciding.pairs, call.deciding.inserted, call.doubts):
                held.clear()
            with pytest.raises(TypeError):
                call.decide(records[0], 1)

    before = [sys.getrefcount(each) for each in parts]
    run()
    gc.collect()
    assert [sys.getrefcount(each) for each in parts] == before
