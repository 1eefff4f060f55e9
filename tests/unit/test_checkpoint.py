"""The changelog's records: nothing lost on the way, split where needed, old ones still read."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from schemas.records import INT64_MAX, INT64_MIN
from state.checkpoint import (
    Bucket,
    Layout,
    Unreadable,
    Watermarks,
    changelog_formats,
    changelog_schemas,
    decode_bucket,
    decode_checkpoint,
    decode_turn,
    encode_bucket,
    encode_checkpoint,
    encode_turn,
    turn_of,
)
from state.packing import pack_rows, unpack_rows
from tests.unit.stored import CHECKPOINT, RECORD_BYTES_MAX

EXTREME = replace(
    CHECKPOINT,
    epoch=INT64_MAX,
    sequence=INT64_MAX,
    writer="ünïcødé-" + "w" * 200,
    owner="",
    address="",
    released=True,
    left_position=INT64_MAX,
    right_position=0,
    watermarks=Watermarks(INT64_MIN, INT64_MAX, INT64_MIN),
    rows=INT64_MAX,
    size=INT64_MAX,
    layout=Layout("none", INT64_MAX, INT64_MAX, INT64_MAX, "a", "b", "c", "full"),
    decided=b"\x02" + bytes(range(256)),
)
BUCKETS = {
    INT64_MIN: Bucket(1, 2, 2**64 - 1, INT64_MAX, 0, INT64_MAX),
    -1: Bucket(0, 0, 0, 0, 0, 0),
    INT64_MAX: Bucket(INT64_MAX, INT64_MAX, 2**63, 5, 4, 3),
}
ROWS = {b"\x01" + bytes([n]) * (n % 7): bytes([255 - n]) * (n * 3) for n in range(1, 200)}


def test_round_trip_of_a_turn() -> None:
    (value,) = encode_turn(EXTREME, ROWS, BUCKETS, RECORD_BYTES_MAX)
    record = decode_turn(value)
    assert record.checkpoint == EXTREME
    assert record.buckets == BUCKETS
    assert list(unpack_rows(record.rows)) == sorted(ROWS.items())
    assert record[:4] == (EXTREME.epoch, EXTREME.writer, EXTREME.sequence, 0)


@pytest.mark.parametrize(
    "watermarks", [Watermarks(), Watermarks(None, 0, None), Watermarks(-5, -5, INT64_MAX)]
)
def test_round_trip_of_watermarks(watermarks: Watermarks) -> None:
    checkpoint = replace(CHECKPOINT, watermarks=watermarks)
    (value,) = encode_turn(checkpoint, {}, {}, RECORD_BYTES_MAX)
    assert decode_turn(value).checkpoint == checkpoint
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_store_copies_round_trip() -> None:
    assert decode_checkpoint(encode_checkpoint(EXTREME)) == EXTREME
    for bucket in BUCKETS.values():
        assert decode_bucket(encode_bucket(bucket)) == bucket


def test_turn_without_rows_is_one_record() -> None:
    (value,) = encode_turn(CHECKPOINT, {}, {}, 1)
    assert decode_turn(value).checkpoint == CHECKPOINT


def test_large_turn_is_split_and_every_part_fits() -> None:
    buckets = {number: Bucket(number, 1, 2, 3, 4, 5) for number in range(300)}
    values = encode_turn(CHECKPOINT, ROWS, buckets, 1_500)
    records = [decode_turn(value) for value in values]
    assert max(map(len, values)) <= 1_500
    assert [record.part for record in records] == list(range(len(records)))
    assert [record.checkpoint for record in records] == [None] * (len(records) - 1) + [CHECKPOINT]
    assert [row for record in records for row in unpack_rows(record.rows)] == sorted(ROWS.items())
    assert {number: b for r in records for number, b in r.buckets.items()} == buckets
    assert len({record[:3] for record in records}) == 1
    # Parts are well filled: not one for each row.
    assert len(values) < 2 + 2 * (len(pack_rows(ROWS)) + 300 * 40) / 1_000


def test_row_larger_than_a_record_goes_alone() -> None:
    rows = {b"\x01a": b"small", b"\x01b": b"x" * 5_000, b"\x01c": b"small"}
    values = encode_turn(CHECKPOINT, rows, {7: Bucket(3, 9, 9, 9, 9, 9)}, 1_000)
    records = [decode_turn(value) for value in values]
    large = next(record for record in records if len(record.rows) > 5_000)
    assert [key for key, _ in unpack_rows(large.rows)] == [b"\x01b"]
    assert [row for record in records for row in unpack_rows(record.rows)] == sorted(rows.items())
    assert sum(len(value) > 1_000 for value in values) == 1


def test_record_of_an_older_schema_is_still_read() -> None:
    """A version before `owner`, `address`, `remembered` and the directory existed."""
    older: dict[str, Any] = deepcopy(changelog_schemas()[0])
    checkpoint = _field(older, "checkpoint")["type"][1]
    for name in ("owner", "address"):
        checkpoint["fields"].remove(_field(checkpoint, name))
    bucket = _field(older, "buckets")["type"]["items"]
    bucket["fields"].remove(_field(bucket, "remembered"))
    turns, checkpoints = changelog_formats([changelog_schemas()[0], older])
    old_turns, old_checkpoints = changelog_formats([older])

    (value,) = encode_turn(CHECKPOINT, ROWS, BUCKETS, RECORD_BYTES_MAX)
    written = old_turns.encode(turns.decode(value))
    assert written[:10] != value[:10]
    with pytest.raises(Unreadable, match="newer version"):
        decode_turn(written)
    read = turn_of(turns.decode(written))
    assert read.checkpoint == replace(CHECKPOINT, owner="", address="")
    assert read.buckets == {n: entry._replace(remembered=0) for n, entry in BUCKETS.items()}
    assert dict(unpack_rows(read.rows)) == ROWS

    copy = old_checkpoints.encode(checkpoints.decode(encode_checkpoint(CHECKPOINT)))
    assert checkpoints.decode(copy)["owner"] == ""
    assert checkpoints.decode(encode_checkpoint(CHECKPOINT))["owner"] == CHECKPOINT.owner


def test_older_schemas_are_read_from_files() -> None:
    names = ("changelog", "changelog-1", "changelog-2")
    found = [json.loads((files("schemas") / f"{name}.avsc").read_text()) for name in names]
    assert changelog_schemas() == found


def test_records_from_before_outer_joins_are_of_an_inner_one() -> None:
    newest, first, _ = changelog_schemas()
    turns, checkpoints = changelog_formats([newest])
    old_turns, old_checkpoints = changelog_formats([first])
    (value,) = encode_turn(EXTREME, ROWS, BUCKETS, RECORD_BYTES_MAX)
    inner = replace(EXTREME, layout=replace(EXTREME.layout, join_type="inner"), decided=b"")
    assert decode_turn(old_turns.encode(turns.decode(value))).checkpoint == inner
    copy = old_checkpoints.encode(checkpoints.decode(encode_checkpoint(EXTREME)))
    assert decode_checkpoint(copy) == inner


def test_records_from_before_reshards_are_of_no_reshard() -> None:
    newest, _, second = changelog_schemas()
    turns, _ = changelog_formats([newest])
    old_turns, _ = changelog_formats([second])
    begun = replace(EXTREME, resharding=3, left_since=INT64_MAX, right_since=5)
    (value,) = encode_turn(begun, ROWS, BUCKETS, RECORD_BYTES_MAX)
    assert decode_turn(value).checkpoint == begun
    assert decode_turn(old_turns.encode(turns.decode(value))).checkpoint == EXTREME


def test_damaged_records_are_unreadable() -> None:
    (value,) = encode_turn(CHECKPOINT, ROWS, BUCKETS, RECORD_BYTES_MAX)
    for damaged in (b"", value[:5], value[:40], value[:-1], value + b"\0", b"\xc3\x02" + value[2:]):
        with pytest.raises(Unreadable):
            decode_turn(damaged)
    with pytest.raises(Unreadable):
        decode_bucket(b"short")


@pytest.mark.parametrize(
    "packed", [b"\1", pack_rows(ROWS)[:-1], pack_rows(ROWS) + b"\0", b"\xff\xff\xff\xff"]
)
def test_damaged_rows_are_unreadable(packed: bytes) -> None:
    with pytest.raises(Unreadable):
        list(unpack_rows(packed))


def _field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (field for field in schema["fields"] if field["name"] == name)
    assert isinstance(found, dict)
    return found
