"""`load`: exactly what stands in the file, where every producer would put it."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import pytest

from tests.kafka.avro import Event, encode, murmur2
from tests.kafka.commands import done, inputs, refused
from tests.kafka.workers import lanes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kafka.harness import Harness

PARTITIONS: Final = 3


@pytest.fixture
def config(kafka: Harness) -> str:
    return str(kafka.write_config())


COLUMNS: Final = ("key", "id", "ts", "start", "end", "kind", "payload")
ROWS: Final[Sequence[dict[str, Any]]] = [
    {
        "key": f"key {number}", "id": f"l{number}", "ts": 2**53 + 1, "start": -(2**62),
        "end": 2**62, "kind": "RETRACT" if number % 2 else "INSERT",
        "payload": "\xff\x00é" if number % 3 else None,
    }
    for number in range(20)
]  # fmt: skip


def as_csv() -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS)
    writer.writeheader()
    writer.writerows(ROWS)
    return stream.getvalue().encode()


def as_json_lines() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def as_parquet() -> bytes:
    out = io.BytesIO()
    rows = [{**row, "payload": row["payload"] and row["payload"].encode("latin-1")} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", as_csv()), ("x.jsonl", as_json_lines()), ("x.parquet", as_parquet())],
    ids=["csv", "jsonl", "parquet"],
)
def test_load_writes_what_stands_in_the_file(
    kafka: Harness, config: str, name: str, content: bytes
) -> None:
    inputs(kafka, PARTITIONS)
    data = kafka.directory / name
    data.write_bytes(content)
    said = done("load", "-c", config, "--side", "left", str(data))
    assert f'20 records loaded from {data} into left topic "{kafka.job.left}"' in said
    found = kafka.read(kafka.job.left)
    expected = {row["key"].encode(): encoded_event(row) for row in ROWS}
    assert {change.key: change.value for change in found} == expected
    assert len(found) == len(ROWS)
    for change in found:
        assert change.key is not None
        assert change.partition == (murmur2(change.key) & 0x7FFF_FFFF) % PARTITIONS


def encoded_event(row: dict[str, Any]) -> bytes:

    payload = row["payload"] and row["payload"].encode("latin-1")
    return encode(Event(row["id"], row["ts"], row["start"], row["end"], row["kind"], payload))


def test_load_takes_other_keys_and_standard_input(
    kafka: Harness, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs(kafka, 1)
    data = kafka.directory / "x.json"
    row = {"id": "a", "ts": 1, "start": 1, "end": 1, "extra": 5}
    lines = [{**row, "number": number} for number in (7, None, "", "é")]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with data.open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        said = done(
            "load", "-c", config, "--side", "right", "--key", "number", "--format", "jsonl", "-"
        )
    assert "4 records loaded from -" in said
    keys = [change.key for change in kafka.read(kafka.job.right)]
    assert keys == [b"7", None, b"", "é".encode()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key":"k","id":"a","ts":1.5,"start":1,"end":1}', "ts must be an integer, but is 1.5"),
        ('{"key":"k","id":"a","ts":1,"start":1}', "end is missing"),
        ('{"id":"a","ts":1,"start":1,"end":1}', "column key is missing: name the join key's with"),
        ('{"key":1.5,"id":"a","ts":1,"start":1,"end":1}', "key must be a text or an integer"),
        ('{"key":"k","id":"\\ud800","ts":1,"start":1,"end":1}', "does not fit the schema"),
        ("{", "is not valid JSON"),
        (
            json.dumps({"key": "k", "id": "x" * 2_000_000, "ts": 1, "start": 1, "end": 1}),
            "is larger than the topic's max.message.bytes allows",
        ),
    ],
    ids=["float", "missing", "no key", "wrong key", "no text", "no json", "too large"],
)
def test_load_ends_at_a_line_that_does_not_fit(
    kafka: Harness, config: str, line: str, message: str
) -> None:
    inputs(kafka, 1)
    good = '{"key":"k","id":"a","ts":1,"start":1,"end":1}\n'
    data = kafka.directory / "x.jsonl"
    data.write_text(f"{good}{good}{line}\n{good}")
    said = refused("load", "-c", config, "--side", "left", str(data))
    assert said.startswith(f"{data}:3: ")
    assert message in said
    assert said.endswith("; 2 rows before it were loaded")
    assert len(kafka.read(kafka.job.left)) == 2


def test_load_never_creates_an_input(kafka: Harness, config: str) -> None:
    data = kafka.directory / "x.csv"
    data.write_text("key,id,ts,start,end\n")
    said = refused("load", "-c", config, "--side", "left", str(data))
    assert f'left topic "{kafka.job.left}" does not exist: create it' in said
    assert not kafka.cluster.partitions(kafka.job.left)


def test_a_watermark_by_hand_moves_every_lane(kafka: Harness, config: str) -> None:
    inputs(kafka, PARTITIONS)
    worker = kafka.start(Path(config))
    for side, at in (("left", 100), ("right", 200)):
        said = done("watermark", "-c", config, "--side", side, str(at))
        assert said.startswith(f"watermark {at} sent to the {PARTITIONS} partitions of ")

    def moved() -> bool:
        found = [(lane["watermark"], lane["left"]["watermark"], lane["right"]["watermark"])
                 for lane in lanes_of(worker.port)]  # fmt: skip
        return found == [(100, 100, 200)] * PARTITIONS

    kafka.await_(moved, 60, worker.tail)
