from __future__ import annotations

import struct

import pytest

from schemas.records import INT64_MAX, INT64_MIN, Side
from state.keys import (
    LIVE,
    MET,
    REMEMBERED,
    RETRACTED,
    RowKey,
    bucket_prefix,
    bucket_range,
    encode_rows,
    parse_row_key,
    parse_row_value,
    row_key,
    row_size,
    row_value,
    rows_digest,
    window_prefix,
)


def test_the_layout_is_as_documented() -> None:
    name = row_key(-1, Side.RIGHT, b"key", 5, -5, "\N{EURO SIGN}")
    assert name == bytes.fromhex(
        "01" "7fffffffffffffff" "01" "00000003" "6b6579" "8000000000000005" "7ffffffffffffffb"
        "e282ac"
    )  # fmt: skip
    assert row_value(RETRACTED, -1, b"abc") == bytes.fromhex("017fffffffffffffff616263")


@pytest.mark.parametrize("number", [INT64_MIN, -1, 0, 1, INT64_MAX])
@pytest.mark.parametrize("key", [b"", b"\x00", b"k" * 65536])
def test_keys_and_values_come_back(number: int, key: bytes) -> None:
    name = row_key(number, Side.LEFT, key, number, -(number + 1), "i|\x00d")
    assert parse_row_key(name) == RowKey(number, Side.LEFT, key, number, -(number + 1), "i|\x00d")
    value = row_value(MET, number, key)
    assert parse_row_value(value) == (number, MET, key)
    assert row_size(key, "i|\x00d", key) == len(name) + len(value)


def test_other_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="not a row key"):
        parse_row_key(b"\x00" + b"d" * 40)
    with pytest.raises(struct.error):
        parse_row_key(b"\x01short")
    with pytest.raises(struct.error):
        parse_row_value(b"\x01")


@pytest.mark.parametrize("bucket", [INT64_MIN, -1, 0, 7, INT64_MAX])
def test_a_bucket_is_one_range(bucket: int) -> None:
    first, after = bucket_range(bucket)
    lowest = row_key(bucket, Side.LEFT, b"", INT64_MIN, INT64_MIN, "")
    highest = row_key(bucket, Side.RIGHT, b"\xff" * 9, INT64_MAX, INT64_MAX, "\U0010ffff")
    assert first <= lowest < highest < after
    assert lowest.startswith(bucket_prefix(bucket))
    if bucket < INT64_MAX:
        assert after <= row_key(bucket + 1, Side.LEFT, b"", INT64_MIN, INT64_MIN, "")
        assert bucket_range(bucket + 1)[0] == after


def test_a_window_is_one_range_of_a_bucket() -> None:
    prefix = window_prefix(3, Side.RIGHT, b"k")
    assert row_key(3, Side.RIGHT, b"k", 1, 0, "a").startswith(prefix)
    for other in ((3, Side.LEFT, b"k"), (3, Side.RIGHT, b"kk"), (3, Side.RIGHT, b""), (4, 1, b"k")):
        assert not row_key(*other, 1, 0, "a").startswith(prefix)


def test_many_rows_are_encoded_as_each_alone() -> None:
    rows = [(b"k" * 300, (-5, -9, "\xe9", -7, LIVE, b"")), (b"", (5, 3, "a", 4, LIVE, b"v"))]
    encoded = encode_rows(-2, Side.RIGHT, rows)
    assert encoded == {
        row_key(-2, 1, key, row[0], row[1], row[2]): row_value(row[4], row[3], row[5])
        for key, row in rows
    }
    assert list(encoded) == sorted(encoded)


def test_the_digest_is_a_sum_over_keys_and_flags() -> None:
    one, two = row_key(1, 0, b"k", 5, 3, "a"), row_key(1, 0, b"k", 5, 3, "b")
    assert rows_digest([one, two], LIVE) == rows_digest([two], LIVE) + rows_digest([one], LIVE)
    digests = {rows_digest([one], flags) for flags in (LIVE, RETRACTED, REMEMBERED, MET)}
    assert len(digests) == 4
    assert rows_digest([], LIVE) == 0
    assert all(0 < digest < 2**64 for digest in digests)
