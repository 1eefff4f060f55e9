"""Windows filled, swept and freed of expired rows, by compiled loops and by Python's versions."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state.window
from native import loops
from schemas.records import INT64_MAX, INT64_MIN
from state.keys import LIVE, StoredRow
from state.overlap import overlapping
from state.side import FEW, Rows, put
from state.window import Window, expire, place, remove, sweep
from tests.properties.test_compiled import in_python

pytestmark = pytest.mark.skipif(loops is None, reason="the loops are not compiled here")

placed = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from([b"a", b"b", b""]),
        st.sampled_from([INT64_MIN, INT64_MAX]) | st.integers(-30, 30),
        st.sampled_from([0, 1, 17]), st.integers(0, 40).map(str), st.binary(max_size=3),
    ),
    max_size=80,
)  # fmt: skip


@given(placed, st.booleans(), st.lists(st.tuples(st.integers(0, 9_000), st.booleans()), max_size=4))
@settings(deadline=None, max_examples=300)
def test_rows_are_put_into_and_taken_from_windows_the_same(
    drawn: list[Any], ordered: bool, sweeps: list[tuple[int, bool]]
) -> None:
    rows = stored(drawn)
    if ordered:
        rows.sort()

    def done() -> list[object]:
        table: dict[bytes, Window] = {}
        costs = place(table, rows)
        seen: list[object] = [dict(costs)]
        costs.pop(0, None)  # A bucket that has been dropped meanwhile.
        for bytes_to_free, touched in sweeps:
            if touched:
                for window in list(table.values())[::2]:
                    window[0].used = True
            freed = remove(table, [b"", b"c", b""] if touched else [], costs, 10)
            freed += sweep(table, bytes_to_free, costs, 10)
            seen += [freed, list(table.items()), dict(costs)]
            for window in table.values():
                seen += [
                    (side.last, side.used, list(side.items()), overlapping(side, -9, 9))
                    for side in window
                ]
        return seen

    compiled = done()
    with in_python(state.window):
        assert compiled == done()


def stored(drawn: list[Any]) -> list[StoredRow]:
    rows: list[StoredRow] = [
        (end // 10, side, key, (end, end - length, row_id, end, LIVE, value))
        for side, key, end, length, row_id, value in drawn
    ]
    # A row stands once in a store, and in order there; windows must not depend on that.
    return list({(one[1], one[2], *one[3][:3]): one for one in rows}.values())


bounds = st.integers(-40, 40) | st.sampled_from([INT64_MIN, INT64_MAX, INT64_MAX + 1])
keys = st.sampled_from([b"a", b"b", b"", b"c"])


@given(placed, st.lists(keys, max_size=9), st.lists(st.tuples(bounds, st.integers(-1, 30))))
@settings(deadline=None, max_examples=300)
def test_expired_rows_are_dropped_the_same(
    drawn: list[Any], visited: list[bytes], times: list[tuple[int, int]]
) -> None:
    rows = stored(drawn)

    def done() -> list[object]:
        table: dict[bytes, Window] = {}
        place(table, rows)
        seen: list[object] = []
        left = list(visited)
        for bound, budget in times:
            seen.append((expire(table, left, bound, budget), list(left)))
            for key, window in table.items():
                seen += [(key, list(side.items()), side.last, side.shelves) for side in window]
        return seen

    compiled = done()
    with in_python(state.window):
        assert comparable(compiled) == comparable(done())


def comparable(seen: list[object]) -> object:
    """Shelves by what they hold."""
    return [
        (*one[:-1], one[-1] and [(each.bits, each.longest, each.rows) for each in one[-1]])
        if isinstance(one, tuple) and len(one) == 4
        else one
        for one in seen
    ]


def side_of(*ends: int) -> Rows:
    side = Rows()
    for end in ends:
        put(side, (end, end, f"r{end}", end, LIVE, b"12"))
    return side


COSTS = (100, 1000)


def test_an_unusual_side_is_a_doubt() -> None:
    assert loops is not None
    odd: Any = Rows()
    odd["x"] = (1, 1, "x", 1, LIVE, None)
    long: Any = Rows()
    long["y"] = (2**70, 1, "y", 1, LIVE, b"")
    many = side_of(*range(FEW + 1))
    asked = []

    def doubtful(side: Any, bound: int) -> int:
        asked.append((side, bound))
        return 7

    table: Any = {b"a": (odd, side_of(1, 2, 3)), b"b": (many, long), b"c": (side_of(1), Rows())}
    left = [b"", b"a", b"b", b"c"]
    assert loops.expire(table, left, 3, 100, COSTS, doubtful) == 1102 + 7 + 7 + 7 + 204
    assert [(id(side), bound) for side, bound in asked] == [
        (id(many), 3),
        (id(long), 3),
        (id(odd), 3),
    ]
    assert left == []
    assert list(table) == [b"a", b"b"]
    assert list(table[b"a"][1]) == ["r3"]


def test_an_exception_of_python_code_goes_through() -> None:
    assert loops is not None

    def fail(*_: object) -> int:
        raise LookupError

    table: Any = {b"a": (side_of(*range(FEW + 1)), Rows())}
    with pytest.raises(LookupError):
        loops.expire(table, [b"a"], 9, 9, COSTS, fail)
    with pytest.raises(OverflowError):
        loops.expire(table, [b"a"], 9, 9, COSTS, lambda *_: 2**70)


@pytest.mark.parametrize(
    "arguments",
    [
        ([], [], 1, 1, COSTS, print),
        ({}, (), 1, 1, COSTS, print),
        ({}, [], 2**63, 1, COSTS, print),
        ({}, [], 1, None, COSTS, print),
        ({}, [], 1, 1, (1,), print),
        ({}, [], 1, 1, COSTS),
        ({b"a": [Rows(), Rows()]}, [b"a"], 1, 1, COSTS, print),
        ({b"a": (Rows(),)}, [b"a"], 1, 1, COSTS, print),
        ({b"a": (1, Rows())}, [b"a"], 1, 1, COSTS, print),
        ({}, [[]], 1, 1, COSTS, print),
    ],
)
def test_wrong_arguments_are_an_error(arguments: Any) -> None:
    assert loops is not None
    with pytest.raises(TypeError):
        loops.expire(*arguments)


def test_lets_go_of_everything() -> None:
    """Neither a row nor a name nor a window is held, or let go of twice."""
    rows = [(end, end, f"long name {end}", end, LIVE, b"12") for end in range(1000, 1030)]
    parts: list[Any] = [each for row in rows for each in (row, row[0], row[2])]
    key = b"a key" * 3

    def run() -> None:
        for count in (3, FEW, FEW + 1, 30):
            table: dict[bytes, Window] = {key: (Rows(), Rows())}
            for at, row in enumerate(rows[:count]):
                put(table[key][at % 3 == 0], row)
            for bound in (1000, 1002, 1010, 2000):
                expire(table, [key, key], bound, 100)
            assert not table

    before = [sys.getrefcount(each) for each in (key, *parts)]
    run()
    gc.collect()
    assert [sys.getrefcount(each) for each in (key, *parts)] == before
