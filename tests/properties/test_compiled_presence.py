"""What a store may hold, noted and asked by compiled loops and by Python's versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state.keys
import state.presence
from native import loops
from schemas.records import INT64_MIN, Fault, Reason
from state.presence import Presence
from tests.properties.test_compiled import ids, in_python, times

pytestmark = pytest.mark.skipif(loops is None, reason="the loops are not compiled here")


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1), st.binary(max_size=2)), max_size=60),
    st.sets(st.integers(-3, 3)),
)
@settings(deadline=None, max_examples=200)
def test_keys_are_found_in_the_same_buckets(
    drawn: list[tuple[int, int, bytes]], unknown: set[int]
) -> None:
    presence = Presence(unknown)
    names = [state.keys.row_key(*one, 0, 0, "") for one in drawn]
    presence.add(sorted(names))
    with in_python(state.presence):
        other = Presence(unknown)
        other.add(sorted(names))
    assert (other._filters, other._filled) == (presence._filters, presence._filled)
    keys = [b"%d" % number for number in range(50)] + [key for _, _, key in drawn]
    compiled = presence.find(range(-3, 4), keys)
    with in_python(state.presence):
        assert compiled == presence.find(range(-3, 4), keys)
    wanted = {state.keys.window_prefix(*one) for one in drawn}
    assert wanted <= set(compiled)


screened = st.tuples(
    st.sampled_from([0, 1, 2, "x"]), st.binary(max_size=2) | st.none(),
    st.tuples(
        times, times | st.integers(-30, 30), ids, times, st.sampled_from([0, 0, 0, 1]), st.just(b"")
    ) | st.just(Fault(Reason.UNDECODABLE, "")),
)  # fmt: skip


@given(st.lists(screened, max_size=30), st.lists(screened, max_size=9), st.integers(1, 12))
@settings(deadline=None, max_examples=300)
def test_records_are_screened_the_same(stored: list[Any], fresh: list[Any], span: int) -> None:
    rows = {
        (min(parts[1] // span, 9), side, key, parts[2])
        for side, key, parts in stored
        if side in {0, 1} and key is not None and type(parts) is tuple
        and INT64_MIN <= parts[1] <= 40
    }  # fmt: skip
    names = sorted(state.keys.row_key(*one[:3], 0, 0, one[3]) for one in rows)
    presence = Presence({4})
    presence.add(names)
    with in_python(state.presence):
        other = Presence({4})
        other.add(names)
    assert (other._filters, other._filled) == (presence._filters, presence._filled)
    buckets = sorted({0, 1, 4, *(row[0] for row in rows)})
    records: list[Any] = [
        (0, side, 0, key, parts, None) for side, key, parts in stored + fresh if side in {0, 1}
    ]
    compiled = presence.screen(buckets, records, span)
    with in_python(state.presence):
        assert compiled == presence.screen(buckets, records, span)
    firsts, doubtful = compiled
    for _, side, _, key, parts, _ in records:
        if any(row[1:] == (side, key, parts[2]) for row in rows if type(parts) is tuple):
            assert key in doubtful
        elif key not in doubtful:
            met = {row[0] for row in rows if row[1:3] == (1 - side, key)}
            assert {
                state.keys.run_first(bucket, 1 - side, key, parts[1])
                for bucket in met
                if bucket >= parts[1] // span
            } <= set(firsts)


@pytest.mark.parametrize(
    "arguments",
    [
        ([], [], (b"\1", b"\1"), 0),
        ([], [], (b"\1", b""), 1),
        ([], [], b"\1", 1),
        ([], {}, (b"\1", b"\1"), 1),
        ((), [], (b"\1", b"\1"), 1),
        ([], [(0, b"x")], (b"\1", b"\1"), 1),
        ([], [(2**63, None)], (b"\1", b"\1"), 1),
        ([()], [], (b"\1", b"\1"), 1),
        ([], []),
    ],
)
def test_screening_wrong_arguments_is_an_error(arguments: Any) -> None:
    assert loops is not None
    with pytest.raises(TypeError):
        loops.screen(*arguments)
