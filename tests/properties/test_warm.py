"""A lane begins with the same windows whether they are filled at once or read key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import Side
from state.checkpoint import Bucket
from state.keys import LIVE, RETRACTED, Row, StoredRow, parse_rows, row_key, row_value
from state.overlap import overlapping
from state.warm import Warm, warm_bytes
from state.window import Windows

if TYPE_CHECKING:
    from collections.abc import Collection

    from state.side import Rows

SPAN = 10

times = st.integers(-40, 40)
stored_rows = st.lists(
    st.tuples(
        st.sampled_from(list(Side)),
        st.sampled_from([b"", b"a", b"ab", b"b"]),
        times,
        st.integers(0, 30),
        st.sampled_from(["x", "y", "z", "%|", ""]) | st.integers(0, 40).map(str),
        st.sampled_from([LIVE, RETRACTED]),
    ),
    max_size=60,
)

Drawn = tuple[Side, bytes, int, int, str, int]


def as_row(drawn: Drawn) -> Row:
    _, _, end, length, row_id, flags = drawn
    return end, end - length, row_id, end, flags, b"" if flags else row_id.encode() * 3


def seen(side: Rows) -> list[object]:
    by_id = {row_id: side.get(row_id) for _, _, row_id, *_ in side.values()}
    return [sorted(side.values()), by_id, sorted(overlapping(side, -5, 5))]


@given(stored_rows)
@settings(deadline=None, max_examples=300)
def test_windows_filled_at_once_are_those_read_one_by_one(drawn: list[Drawn]) -> None:
    # An id comes again long after its row has expired, so never with the same end.
    by_name = {(*one[:3], one[4]): one for one in drawn}
    buckets = {one[2] // SPAN: Bucket(1, 0, 0, 0, 0, 0) for one in by_name.values()}
    stored = {
        row_key(row[0] // SPAN, side, key, *row[:3]): row_value(row[4], row[3], row[5])
        for side, key, *_, row in [(*one, as_row(one)) for one in by_name.values()]
    }

    def load(wanted: object, keys: Collection[bytes]) -> list[StoredRow]:
        assert wanted == sorted(buckets)
        return [row for row in parse_rows(sorted(stored.items())) if row[2] in keys]

    keys = {one[1] for one in by_name.values()}
    one_by_one = Windows(load, buckets, SPAN)
    for key in keys:
        one_by_one.open(key)
    fetched = Windows(load, buckets, SPAN)
    fetched.fetch([*keys, *keys])
    warm = Warm()
    in_order = sorted(stored.items())
    warm.add(in_order[:7])
    warm.add(in_order[7:])
    at_once = Windows(lambda *_: (), buckets, SPAN)
    at_once.adopt(warm.table, warm.costs)

    assert at_once.resident
    assert at_once.table.keys() == one_by_one.table.keys() == fetched.table.keys()
    for key, window in at_once.table.items():
        for other in (one_by_one, fetched):
            assert [seen(side) for side in window] == [seen(side) for side in other.table[key]]
    assert at_once.size == one_by_one.size == fetched.size
    size = sum(len(key) + len(value) for key, value in stored.items())
    assert at_once.size <= warm_bytes(len(stored), size)
    # What expires is accounted for and trimmed alike.
    for windows in (at_once, one_by_one, fetched):
        windows.evict(windows.size)
        assert windows.size == 0
