from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.match_id import match_id, split_match_id
from schemas.records import INT64_MAX, INT64_MIN
from state.keys import parse_row_key, row_key
from tests.oracle import match_name

int64 = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([INT64_MIN, -1, 0, 1, INT64_MAX])
keys = st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 255]), max_size=4).map(bytes)
text = st.text(max_size=4) | st.text("%|725C:LR", max_size=6)
names = st.tuples(int64, st.sampled_from([0, 1]), keys, int64, int64, text)

Name = tuple[int, int, bytes, int, int, str]


def order(name: Name) -> tuple[int, int, int, bytes, int, int, str]:
    bucket, side, key, end, start, row_id = name
    return bucket, side, len(key), key, end, start, row_id


@given(names, names)
@settings(deadline=None, max_examples=500)
def test_byte_order_is_tuple_order(one: Name, two: Name) -> None:
    for a, b in ((one, two), ((*one[:2], two[2], *one[3:]), one), ((*one[:5], two[5]), one)):
        assert (row_key(*a) < row_key(*b)) == (order(a) < order(b))
        assert (row_key(*a) == row_key(*b)) == (a == b)


@given(names)
@settings(deadline=None)
def test_row_keys_come_back(name: Name) -> None:
    assert parse_row_key(row_key(*name)) == name


@given(text, text, text, text)
@settings(deadline=None, max_examples=500)
def test_match_ids_are_injective_and_come_back(a: str, b: str, c: str, d: str) -> None:
    assert split_match_id(match_id(a, b)) == (a, b)
    assert (match_id(a, b) == match_id(c, d)) == ((a, b) == (c, d))
    assert match_id(a, b).decode() == match_name(a, b)
