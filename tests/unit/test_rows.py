from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kafka.scan import Read
from app.reading import apply
from app.rows import Csv, JsonLines, Parquet, Words, counted, duration, flatten, moment, plain
from schemas.match_schema import columns_of
from tests.unit.jobs import MINIMAL, job, write_job

if TYPE_CHECKING:
    from pathlib import Path

EVENT: dict[str, Any] = {
    "type": "record", "name": "Event", "namespace": "spanjoin",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "start", "type": "long"},
        {"name": "end", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["INSERT"]}},
        {"name": "payload", "type": ["null", "bytes"]},
    ],
}  # fmt: skip
MATCH: dict[str, Any] = {
    "type": "record", "name": "Match", "namespace": "spanjoin",
    "fields": [
        {"name": "start", "type": "long"},
        {"name": "end", "type": "long"},
        {"name": "left", "type": EVENT},
        {"name": "right", "type": "spanjoin.Event"},
    ],
}  # fmt: skip
COLUMNS = [
    "id", "start", "end",
    "left_id", "left_ts", "left_start", "left_end", "left_kind", "left_payload",
    "right_id", "right_ts", "right_start", "right_end", "right_kind", "right_payload",
]  # fmt: skip


def event(name: str, **fields: object) -> dict[str, object]:
    return {
        "id": name, "ts": 1, "start": 2**53 + 1, "end": 2**63 - 1, "kind": "INSERT",
        "payload": None, **fields,
    }  # fmt: skip


def row(**fields: object) -> dict[str, Any]:
    return {
        "id": "L:a|R:b",
        "start": 2**53 + 1,
        "end": 2**63 - 1,
        "left": event("a", payload=bytes(range(256))),
        "right": event("b"),
        **fields,
    }


def test_columns_follow_named_types() -> None:
    assert [name for name, _ in columns_of(MATCH)] == COLUMNS
    assert list(flatten(row())) == COLUMNS


def test_json_lines_are_exact() -> None:
    stream = io.StringIO()
    sink = JsonLines(stream)
    sink.write(row())
    sink.close()
    line = stream.getvalue()
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found["end"] == 2**63 - 1
    assert found["right"] == event("b")
    assert found["left"]["payload"].encode("latin-1") == bytes(range(256))


def test_csv_is_exact() -> None:
    stream = io.StringIO()
    sink = Csv(stream, COLUMNS)
    sink.write(row(left=event("a", payload=bytes(range(256)), extra={"x": [1, True, None]})))
    sink.close()
    (found,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    assert list(found) == COLUMNS
    assert found["left_start"] == str(2**53 + 1)
    assert found["left_payload"].encode("latin-1") == bytes(range(256))
    assert found["right_payload"] == ""


def test_parquet_is_exact(tmp_path: Path) -> None:
    nested = json.loads(json.dumps(MATCH))
    nested["fields"][2]["type"]["fields"] += [
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "inner", "type": {"type": "record", "name": "spanjoin.I", "fields": [
            {"name": "x", "type": ["null", "double"]}]}},
        {"name": "again", "type": "spanjoin.I"},
        {"name": "map", "type": {"type": "map", "values": "int"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "either", "type": ["null", "long", {"type": "array", "items": "bytes"}]},
    ]  # fmt: skip
    nested["fields"][3]["type"] = EVENT
    nested["fields"][2]["type"]["name"] = "Left"
    path = tmp_path / "x.parquet"
    extra = {
        "tags": ["a"], "inner": {"x": 1.5}, "again": {"x": None}, "map": {"a": 1},
        "fixed": b"\x00\xff", "time": 5, "either": [b"\xff"],
    }  # fmt: skip
    sink = Parquet(path, columns_of(nested))
    sink.write(row(left=event("a", payload=b"\xff\x00", **extra)))
    sink.write(row(left=event("c", **{**extra, "either": None})))
    sink.close()
    table = pq.read_table(path)
    assert table.column_names[:16] == [*COLUMNS[:9], *(f"left_{name}" for name in extra)]
    first, second = table.to_pylist()
    assert (first["end"], first["left_start"]) == (2**63 - 1, 2**53 + 1)
    assert first["left_payload"] == b"\xff\x00"
    assert first["left_inner"] == {"x": 1.5}
    assert first["left_map"] == [("a", 1)]
    assert json.loads(first["left_either"]) == ["\xff"]
    assert first["left_fixed"] == b"\x00\xff"
    assert (second["left_id"], second["left_payload"]) == ("c", None)
    assert str(table.schema.field("end").type) == "int64"


def test_an_empty_result_is_a_readable_file(tmp_path: Path) -> None:
    sink = Parquet(tmp_path / "x.parquet", columns_of(MATCH))
    sink.close()
    assert pq.read_table(tmp_path / "x.parquet").column_names == COLUMNS


@pytest.mark.parametrize(
    ("ticks", "unit", "text"),
    [
        (0, "ms", "1970-01-01 00:00:00"),
        (1_357_035_300_007, "ms", "2013-01-01 10:15:00.007"),
        (1_357_035_300_000_007, "us", "2013-01-01 10:15:00.000007"),
        (1_357_035_300_000_000_007, "ns", "2013-01-01 10:15:00.000000007"),
        (-1, "ms", "1969-12-31 23:59:59.999"),
        (2**63 - 1, "ms", "9223372036854775807"),
        (-(2**63), "ms", "-9223372036854775808"),
        (7, "none", "7"),
    ],
)
def test_moments(ticks: int, unit: str, text: str) -> None:
    assert moment(ticks, unit) == text


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["ms", "us", "ns", "none"]))
def test_every_moment_has_words(ticks: int, unit: str) -> None:
    assert moment(ticks, unit)


def test_a_table_says_what_a_person_looks_for(tmp_path: Path) -> None:
    write_job(tmp_path)
    words = Words(job(tmp_path, MINIMAL))
    left = event("UA 1545", carrier="UA", payload=b"\xff\n", delay=1.5, empty=None)
    found = words.cells({"start": 0, "end": 1000, "left": left, "right": event("JFK")})
    assert found == (
        "1970-01-01 00:00:00 - 1970-01-01 00:00:01",
        "UA 1545 payload=\\xff\\n carrier=UA delay=1.5",
        "JFK",
    )
    alone = words.cells({"start": 0, "end": 1000, "left": None, "right": event("JFK")})
    assert alone[1:] == ("-", "JFK")


def test_plain_values() -> None:
    assert plain({"a": [b"\xff", (1, None)], 1: {2.5}}) == {"a": ["\xff", [1, None]], "1": "{2.5}"}


def read(key: bytes | None, value: bytes | None) -> Read:
    return Read(0, 0, key, value)


def test_the_last_record_of_a_key_decides() -> None:
    live: dict[bytes, bytes] = {}
    assert apply(live, read(b"a", b"1"))
    assert not apply(live, read(b"a", b"1")), "written again identically"
    assert apply(live, read(b"b", b"1"))
    assert apply(live, read(b"a", None))
    assert not apply(live, read(b"a", None)), "retracted already"
    assert not apply(live, read(b"c", None)), "never was"
    assert not apply(live, read(None, b"x")), "not of a join"
    assert live == {b"b": b"1"}


@pytest.mark.parametrize(
    ("ticks", "unit", "said"),
    [
        (0, "ms", "0 ms"),
        (1, "ns", "1 ns"),
        (3_600_001, "ms", "1 h 1 ms"),
        (90_061_000_000, "us", "1 d 1 h 1 min 1 s"),
        (-1_500, "ms", "-1 s 500 ms"),
        (2**63, "none", "9223372036854775808"),
    ],
)
def test_lengths_of_time_are_exact(ticks: int, unit: str, said: str) -> None:
    assert duration(ticks, unit) == said


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1_200, "record", "1,200 records"),
        (1, "live match", "1 live match"),
        (2, "live match", "2 live matches"),
    ],
)
def test_one_is_not_several(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
