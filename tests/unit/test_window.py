from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from schemas.records import Side
from state.checkpoint import Bucket
from state.keys import LIVE, REMEMBERED, RETRACTED, Row, StoredRow
from state.overlap import overlapping
from state.side import FEW, Rows, cost_of, put, replace, retire
from state.window import WINDOW_COST, Windows, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SPAN = 10
SOME = Bucket(1, 1, 1, 1, 0, 0)


def row(row_id: str, start: int, end: int, flags: int = LIVE, value: bytes = b"v") -> Row:
    return end, start, row_id, start, flags, value


class Store:
    """Stored rows by key and bucket, and what was asked for."""

    def __init__(self) -> None:
        self.rows: list[StoredRow] = []
        self.asked: list[tuple[bytes, list[int]]] = []

    def add(self, key: bytes, side: Side, stored: Row) -> None:
        self.rows.append((stored[0] // SPAN, side, key, stored))

    def load(self, buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
        self.asked += [(key, list(buckets)) for key in keys]
        return sorted(row for row in self.rows if row[0] in buckets and row[2] in keys)


def windows_over(store: Store, *buckets: int) -> Windows:
    return Windows(store.load, dict.fromkeys(buckets, SOME), SPAN)


def add(windows: Windows, key: bytes, side: Side, new: Row) -> None:
    """What a turn does for an INSERT."""
    window = windows.table.get(key) or windows.open(key)
    put(window[side], new)
    windows.enter(new[0] // SPAN, cost_of(new))


def size_of(windows: Windows) -> int:
    return sum(
        WINDOW_COST + sum(map(cost_of, rows_of(window))) for window in windows.table.values()
    )


def side_of(*rows: Row, crowd: int = 0) -> Rows:
    """These rows, beside so many that overlap nothing."""
    side = Rows()
    for number in range(crowd):
        put(side, row(f"crowd {number}", -100, -100))
    for one in rows:
        put(side, one)
    return side


def test_a_side_of_many_rows_finds_them_in_classes_of_length() -> None:
    lengths = [0, 1, 2, 3, 4, 7, 8, 1000]
    rows = [row(f"r{at}", 100, 100 + length) for at, length in enumerate(lengths)]
    for crowd in (0, FEW):
        side = side_of(*rows, crowd=crowd)
        assert {found[2] for found in overlapping(side, 104, 106)} == {"r4", "r5", "r6", "r7"}
        assert overlapping(side, 0, 99) == []
        assert overlapping(side, 1101, 2000) == []
        assert len(overlapping(side, 100, 100)) == 8
    assert side.shelves is not None
    assert [shelf.longest for shelf in side.shelves] == [0, 1, 3, 7, 8, 1000]


@pytest.mark.parametrize("crowd", [0, FEW])
def test_a_retired_row_answers_for_its_id_and_never_matches(crowd: int) -> None:
    first, second = row("a", 0, 5), row("b", 0, 5)
    side = side_of(first, second, crowd=crowd)
    gone = retire(side, first, RETRACTED)
    assert gone == (5, 0, "a", 0, RETRACTED, b"")
    assert side["a"] is gone
    assert overlapping(side, 0, 9) == [second]
    retire(side, second, RETRACTED)
    assert overlapping(side, 0, 9) == []
    assert len(side) == crowd + 2


@pytest.mark.parametrize("crowd", [0, FEW])
def test_a_remembered_row_can_get_other_flags(crowd: int) -> None:
    side = side_of(*(row(row_id, 0, 5, REMEMBERED, b"") for row_id in "abc"), crowd=crowd)
    met = replace(side, side["b"], 3, b"")
    assert met == (5, 0, "b", 0, 3, b"")
    assert side["b"] is met
    assert replace(side, met, RETRACTED, b"")[4] == RETRACTED  # It is found again.


@pytest.mark.parametrize("crowd", [0, FEW - 1, FEW])
def test_an_expired_row_lingers_behind_a_new_one_of_its_id(crowd: int) -> None:
    old, new = row("a", 0, 5), row("a", 60, 65)
    side = side_of(old, new, crowd=crowd)
    assert side["a"] is new
    assert sorted(overlapping(side, 0, 99)) == [old, new]
    assert (side.shelves is not None) == (len(side) > FEW)


def test_a_key_is_loaded_on_its_first_touch() -> None:
    store = Store()
    windows = windows_over(store, 0, 1)
    store.add(b"k", Side.LEFT, row("new", 10, 15))
    store.add(b"k", Side.LEFT, row("old", 0, 5))
    store.add(b"k", Side.RIGHT, row("gone", 0, 5, RETRACTED, b""))
    window = windows.open(b"k")
    assert windows.table == {b"k": window}
    assert store.asked == [(b"k", [0, 1])]
    assert {found[2] for found in rows_of(window)} == {"new", "old", "gone"}
    assert {found[2] for found in overlapping(window[Side.LEFT], 0, 99)} == {"old", "new"}
    assert overlapping(window[Side.RIGHT], 0, 99) == []
    assert windows.size == size_of(windows)


def test_keys_of_a_turn_are_loaded_together() -> None:
    store = Store()
    windows = windows_over(store, 0, 1)
    for key in (b"a", b"b", b"lost"):
        store.add(key, Side.LEFT, row("1", 0, 5))
        store.add(key, Side.RIGHT, row("2", 10, 15))
    windows.forget([b"lost"])
    windows.settle([0], SPAN)
    windows.buckets = {0: SOME, 1: SOME}
    known = windows.open(b"b")
    store.asked.clear()
    windows.fetch([b"a", b"b", b"nowhere", b"lost", b"a"])
    assert store.asked == [(b"a", [1]), (b"nowhere", [1]), (b"lost", [0, 1])]
    assert windows.table[b"b"] is known
    counts = [sum(map(len, windows.table[key])) for key in (b"a", b"nowhere", b"lost")]
    assert counts == [1, 0, 2]
    assert windows.drain_counts() == (4, 4)
    windows.settle([], 0)
    assert windows.table.keys() == {b"a", b"b", b"lost"}
    assert windows.size == size_of(windows)


def test_nothing_is_opened_in_advance_while_memory_holds_everything() -> None:
    store = Store()
    windows = windows_over(store)
    windows.fetch([b"a"])
    assert (windows.table, store.asked) == ({}, [])


def test_of_two_rows_of_one_id_the_newer_is_the_one_known() -> None:
    for order in ((0, 30), (30, 0)):
        store = Store()
        windows = windows_over(store, 0, 3)
        for start in order:
            store.add(b"k", Side.LEFT, row("a", start, start + 5))
        side = windows.open(b"k")[Side.LEFT]
        assert side["a"][1] == 30
        assert len(overlapping(side, 0, 99)) == 2


def test_nothing_is_asked_of_the_store_while_memory_holds_everything() -> None:
    store = Store()
    directory: dict[int, Bucket] = {}
    windows = Windows(store.load, directory, SPAN)
    assert windows.cold == []
    add(windows, b"k", Side.LEFT, row("a", 0, 5))
    directory[0] = SOME
    windows.settle([], 0)
    windows.open(b"other")
    assert store.asked == []

    windows.evict(10**9)
    assert not windows.resident
    directory[1] = SOME
    windows.open(b"k")
    assert store.asked == [(b"k", [0])]  # Bucket 1 is younger than what was evicted.
    windows.settle([0], SPAN)
    assert windows.resident


def test_the_longest_unused_goes_first() -> None:
    store = Store()
    windows = windows_over(store)
    for number in range(100):
        add(windows, b"%d" % number, Side.LEFT, row("a", 0, 5))
    windows.settle([], 0)
    one = windows.size // 100
    assert windows.evict(one * 10) == one * 10  # All were used: the oldest go.
    assert set(windows.table) == {b"%d" % number for number in range(10, 100)}
    for number in range(10, 20):
        windows.table[b"%d" % number][Side.RIGHT].used = True
    windows.evict(one * 40)
    assert set(windows.table) == {b"%d" % number for number in (*range(10, 20), *range(60, 100))}
    assert windows.size == size_of(windows)
    assert windows.evict(10**9) == one * 50
    assert windows.size == 0
    assert windows.evict(1) == 0


def test_forgotten_windows_are_loaded_again() -> None:
    store = Store()
    windows = windows_over(store, 0)
    store.add(b"k", Side.LEFT, row("a", 0, 5))
    windows.open(b"k")
    add(windows, b"k", Side.LEFT, row("b", 0, 5))
    add(windows, b"new", Side.LEFT, row("b", 0, 5))
    windows.forget({b"k", b"new", b"never seen"})
    assert windows.table == {}
    assert windows.size == 0
    assert set(windows.open(b"k")[Side.LEFT]) == {"a"}


def test_of_the_whole_state_only_what_was_forgotten_is_loaded_again() -> None:
    store = Store()
    windows = windows_over(store)
    store.add(b"k", Side.LEFT, row("a", 0, 5))
    add(windows, b"k", Side.LEFT, row("a", 0, 5))
    add(windows, b"k", Side.LEFT, row("aborted", 0, 5))
    windows.buckets = {0: SOME}
    windows.forget({b"k"})
    assert not windows.resident
    assert windows.peek(b"unknown")[Side.LEFT] == {}
    windows.open(b"unknown")
    assert store.asked == []
    assert set(windows.peek(b"k")[Side.LEFT]) == {"a"}
    assert set(windows.open(b"k")[Side.LEFT]) == {"a"}
    assert windows.resident


def test_dropped_buckets_are_trimmed_from_memory() -> None:
    windows = windows_over(Store())
    for start in (0, 5, 10, 15, 20):
        add(windows, b"k", Side.LEFT, row(f"a{start}", start, start + 4))
        add(windows, b"k", Side.RIGHT, row(f"b{start}", start, start + 1))
    add(windows, b"brief", Side.LEFT, row("a", 0, 9))
    retire(windows.table[b"k"][Side.RIGHT], row_of(windows, Side.RIGHT, "b0"), RETRACTED)
    windows.size -= 1  # Its value.
    windows.settle([0, 1], 2 * SPAN)
    windows.trim()
    assert set(windows.table) == {b"k"}
    assert {found[2] for found in rows_of(windows.table[b"k"])} == {"a20", "b20"}
    assert [set(side) for side in windows.table[b"k"]] == [{"a20"}, {"b20"}]
    assert windows.size == size_of(windows)


def test_few_expired_rows_wait_for_more() -> None:
    windows = windows_over(Store())
    add(windows, b"old", Side.LEFT, row("a", 0, 5))
    for number in range(20):
        add(windows, b"%d" % number, Side.LEFT, row("a", 50, 55))
    windows.settle([0], SPAN)
    windows.trim()
    assert b"old" in windows.table
    windows.evict(0)  # Before anything that is needed is given up, what is not goes.
    assert b"old" not in windows.table
    assert len(windows.table) == 20
    assert windows.resident
    windows.settle([5], 6 * SPAN)
    windows.trim()
    assert windows.table == {}
    assert windows.size == 0


def row_of(windows: Windows, side: Side, row_id: str) -> Row:
    return windows.table[b"k"][side][row_id]


@pytest.mark.parametrize("crowd", [0, FEW])
def test_trimming_keeps_the_newer_row_of_an_id(crowd: int) -> None:
    windows = windows_over(Store())
    for number in range(crowd):
        add(windows, b"k", Side.LEFT, row(f"crowd {number}", 0, 1))
    add(windows, b"k", Side.LEFT, row("a", 0, 5))
    add(windows, b"k", Side.LEFT, row("a", 50, 55))
    windows.evict(0)
    windows.settle([0], SPAN)
    windows.trim()
    windows.evict(0)
    assert windows.table[b"k"][Side.LEFT] == {"a": row("a", 50, 55)}
    assert windows.table[b"k"][Side.LEFT].shelves is None
    assert windows.size == size_of(windows)


def test_trimming_leaves_the_rows_of_a_large_side_in_order() -> None:
    windows = windows_over(Store())
    for number in range(100):
        add(windows, b"k", Side.LEFT, row(f"{number}", number, number + number % 7))
    windows.settle([0, 1, 2, 3, 4, 5], 6 * SPAN)
    windows.trim()
    side = windows.table[b"k"][Side.LEFT]
    assert side.shelves is not None
    assert sorted(rows_of(windows.table[b"k"])) == sorted(overlapping(side, 0, 999))
    assert min(side.values())[0] == 6 * SPAN
    assert windows.size == size_of(windows)


def test_trimming_is_bounded_and_goes_on_later() -> None:
    windows = windows_over(Store())
    for number in range(100):
        add(windows, b"%d" % number, Side.LEFT, row("a", 0, 5))
    sizes = []
    windows.settle([0], SPAN)
    while windows.table:
        windows.trim(60)
        sizes.append(len(windows.table))
    assert sizes == [70, 40, 10, 0]
    assert windows.size == 0


@pytest.mark.parametrize("rows_a_side", [1, 3, 30])
def test_size_is_about_what_python_takes(rows_a_side: int) -> None:
    windows = windows_over(Store())
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    base = 1_700_000_000_000
    for number in range(600):
        for at in range(rows_a_side):
            for side in Side:
                start = base + at * 1000 + number
                new = (start + 70, start, f"row-{number}-{at}", start + 1, LIVE, b"%110d" % start)
                add(windows, b"key-%d" % number, side, new)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.75 < windows.size / taken < 1.33
