"""Any turn survives its way through the changelog, whatever the limit; no bytes are a surprise."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from schemas.records import INT64_MAX, INT64_MIN
from state.checkpoint import (
    Bucket,
    Checkpoint,
    TurnRecord,
    Unreadable,
    Watermarks,
    decode_turn,
    encode_turn,
)
from state.packing import unpack_rows
from tests.unit.stored import CHECKPOINT, LAYOUT

int64 = st.integers(INT64_MIN, INT64_MAX)
count = st.integers(0, INT64_MAX)
times = st.none() | int64
row_maps = st.dictionaries(st.binary(max_size=40), st.binary(max_size=120), max_size=40)
directories = st.dictionaries(
    int64,
    st.builds(Bucket, count, count, st.integers(0, 2**64 - 1), count, count, count),
    max_size=30,
)
checkpoints = st.builds(
    replace,
    st.just(CHECKPOINT),
    epoch=count,
    sequence=count,
    writer=st.text(max_size=20),
    released=st.booleans(),
    left_position=count,
    right_position=count,
    watermarks=st.builds(Watermarks, times, times, times),
    layout=st.builds(
        LAYOUT.__class__, st.text(max_size=3), count, count, count, st.text(), st.text(), st.text()
    ),
)


@given(checkpoints, row_maps, directories, st.integers(0, 3_000))
@example(CHECKPOINT, {b"": b""}, {}, 0)
def test_turns_round_trip(
    checkpoint: Checkpoint,
    rows: dict[bytes, bytes],
    directory: dict[int, Bucket],
    bytes_max: int,
) -> None:
    values = encode_turn(checkpoint, rows, directory, bytes_max)
    records = [decode_turn(value) for value in values]
    assert [pair for r in records for pair in unpack_rows(r.rows)] == sorted(rows.items())
    assert {number: entry for r in records for number, entry in r.buckets.items()} == directory
    assert sum(len(r.buckets) for r in records) == len(directory)
    assert [r.checkpoint for r in records] == [None] * (len(records) - 1) + [checkpoint]
    assert [r.part for r in records] == list(range(len(records)))
    for value, record in zip(values, records, strict=True):
        # What is larger than the limit holds one thing that could not be divided.
        assert len(value) <= bytes_max or _things_in(record) <= 1


def _things_in(record: TurnRecord) -> int:
    return max(len(list(unpack_rows(record.rows))), len(record.buckets))


(WHOLE,) = encode_turn(
    CHECKPOINT, {b"\x01k%d" % n: b"value" for n in range(5)}, {3: Bucket(5, 4, 3, 2, 1, 0)}, 10_000
)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255), st.integers(0, len(WHOLE)))
def test_damage_is_found_or_harmless(at: int, flip: int, length: int) -> None:
    for value in (WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :], WHOLE[:length]):
        try:
            list(unpack_rows(decode_turn(value).rows))
        except Unreadable:
            continue
