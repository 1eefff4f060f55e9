from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import INT64_MAX, INT64_MIN
from state.keys import LIVE, RETRACTED, Row
from state.overlap import overlapping
from state.side import Rows, put, retire

near = st.integers(0, 40)
anywhere = near | st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([INT64_MIN, INT64_MAX])
intervals = st.tuples(anywhere, anywhere).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(intervals, st.booleans()), max_size=50), st.lists(intervals, max_size=5))
@settings(deadline=None, max_examples=300)
def test_finds_exactly_the_live_rows_that_overlap(
    drawn: list[tuple[tuple[int, int], bool]], probes: list[tuple[int, int]]
) -> None:
    side = Rows()
    live: list[Row] = []
    for number, ((start, end), stays) in enumerate(drawn):
        row = (end, start, str(number), start, LIVE, b"")
        put(side, row)
        if stays:
            live.append(row)
        else:
            retire(side, row, RETRACTED)
    for start, end in probes:
        expected = [row for row in live if row[1] <= end and start <= row[0]]
        assert sorted(overlapping(side, start, end)) == sorted(expected)
