"""Times are written as Avro writes any long, whether or not their like was written before."""

from __future__ import annotations

from io import BytesIO

from fastavro import schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.varint import encode_times

TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(2**34 - 9, 2**41)


@given(TIMES, TIMES)
@example(0, 2**13)
@example(2**41 - 1, 2**34)
@example(-1, 1_700_000_000_000)
def test_two_times_are_two_longs(start: int, end: int) -> None:
    body = BytesIO()
    for time in (start, end):
        schemaless_writer(body, "long", time)
    for _ in ("as one that was not seen", "as one that was"):
        assert encode_times(start, end) == body.getvalue()


@given(st.integers(2**34, 2**40), st.integers(0, 2**14), st.integers(0, 2**14))
def test_times_near_one_another_are_told_apart(begin: int, first: int, second: int) -> None:
    encode_times(begin, begin)
    together = encode_times(begin + first, begin + second)
    body = BytesIO()
    for time in (begin + first, begin + second):
        schemaless_writer(body, "long", time)
    assert together == body.getvalue()
