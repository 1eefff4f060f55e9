"""`read`: one row for each live match, committed only, and exact in every format."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types
import pytest
from confluent_kafka import Producer

from tests.kafka.avro import MATCH_HEADER, Event, body, decode_match, long
from tests.kafka.commands import done, inputs, refused
from tests.kafka.workers import SPANJOIN, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.kafka.harness import Harness

PARTITIONS: Final = 3
LEFT: Final = Event("l1", 20, 10, 30, payload=bytes(range(256)))
RIGHT: Final = Event("r1", 25, 20, 2**53 + 1)


def encoded(start: int, end: int, left: Event, right: Event) -> bytes:
    return MATCH_HEADER + long(start) + long(end) + body(left) + body(right)


def match(number: int) -> tuple[str, bytes]:
    left = LEFT._replace(id=f"l{number}")
    return f"L:l{number}|R:r1", encoded(20, 30, left, RIGHT)


@pytest.fixture
def config(kafka: Harness) -> str:
    return str(kafka.write_config())


@pytest.fixture
def output(kafka: Harness) -> str:
    """The output topic, filled by hand: reading it needs no worker."""
    kafka.create_topic(kafka.job.output, PARTITIONS, {"cleanup.policy": "compact"})
    return kafka.job.output


def test_read_names_an_output_that_is_not_there(kafka: Harness, config: str) -> None:
    said = refused("read", "-c", config)
    assert f'output topic "{kafka.job.output}" does not exist: start a worker' in said


def test_read_shows_nothing_where_nothing_is(kafka: Harness, config: str, output: str) -> None:
    assert done("read", "-c", config) == f"0 live matches in {output}\n"
    assert done("read", "-c", config, "--format", "jsonl") == ""
    assert done("read", "-c", config, "--format", "csv").count("\n") == 1


def fill(kafka: Harness, numbers: Sequence[int]) -> None:
    for number in numbers:
        kafka.send(kafka.job.output, *match(number))
    kafka.flush()


def test_read_has_one_row_for_each_live_match(kafka: Harness, config: str, output: str) -> None:
    fill(kafka, range(30))
    fill(kafka, range(5))
    for number in range(0, 30, 3):
        kafka.send(output, match(number)[0], None)
    kafka.flush()
    live = sorted(match(number)[0] for number in range(30) if number % 3)
    rows = [json.loads(line) for line in lines("read", "-c", config, "--format", "jsonl")]
    assert sorted(row["id"] for row in rows) == live
    row = next(row for row in rows if row["id"] == "L:l1|R:r1")
    assert (row["start"], row["end"]) == (20, 30)
    assert row["left"]["payload"].encode("latin-1") == LEFT.payload
    assert row["right"] == {
        "id": "r1", "ts": 25, "start": 20, "end": 2**53 + 1, "kind": "INSERT", "payload": None,
    }  # fmt: skip
    table = done("read", "-c", config, "--limit", "2")
    assert table.endswith(f"20 live matches in {output}, the first 2 shown (--limit N for more)\n")
    assert len(lines("read", "-c", config, "--format", "jsonl", "--limit", "7")) == 7


def lines(*arguments: str) -> list[str]:
    return done(*arguments).splitlines()


def test_read_writes_files(kafka: Harness, config: str, output: str) -> None:
    fill(kafka, range(4))
    paths = {form: kafka.directory / f"x.{form}" for form in ("csv", "parquet", "jsonl", "table")}
    for form, path in paths.items():
        done("read", "-c", config, "--format", form, "--output", str(path))
    with paths["csv"].open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert Counter(row["id"] for row in rows) == Counter(match(number)[0] for number in range(4))
    assert {row["left_payload"].encode("latin-1") for row in rows} == {LEFT.payload}
    piped = kafka.directory / "piped"
    with piped.open("wb") as stream:
        subprocess.run(
            [SPANJOIN, "read", "-c", config, "--format", "parquet"],
            stdout=stream, timeout=60, check=True,
        )  # fmt: skip
    assert pq.read_table(piped).equals(pq.read_table(paths["parquet"]))
    found = pq.read_table(paths["parquet"]).to_pylist()
    assert {row["right_end"] for row in found} == {2**53 + 1}
    assert {row["left_payload"] for row in found} == {LEFT.payload}
    assert len(paths["jsonl"].read_text().splitlines()) == 4
    assert f"4 live matches in {output}" in paths["table"].read_text()
    assert not list(kafka.directory.glob("*.partial"))
    nowhere = kafka.directory / "no" / "x.csv"
    said = refused("read", "-c", config, "--format", "csv", "--output", str(nowhere))
    assert "cannot be written: No such file or directory" in said


@pytest.fixture
def transactional(kafka: Harness) -> Iterator[Producer]:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": kafka.job.name,
            "partitioner": "murmur2_random",
        }
    )
    producer.init_transactions(30)
    yield producer
    producer.flush(10)


def test_read_shows_what_is_committed_only(
    kafka: Harness, config: str, output: str, transactional: Producer
) -> None:
    fill(kafka, [1])
    transactional.begin_transaction()
    transactional.produce(output, match(2)[1], match(2)[0])
    transactional.produce(output, None, match(1)[0])
    transactional.abort_transaction(30)
    transactional.begin_transaction()
    transactional.produce(output, match(3)[1], match(3)[0])
    transactional.commit_transaction(30)
    rows = lines("read", "-c", config, "--format", "jsonl")
    assert {json.loads(row)["id"] for row in rows} == {match(1)[0], match(3)[0]}


def test_read_waits_for_what_is_undecided(
    kafka: Harness, config: str, output: str, transactional: Producer
) -> None:
    transactional.begin_transaction()
    transactional.produce(output, match(2)[1], match(2)[0])
    transactional.flush(30)
    began = time.monotonic()
    later = threading.Timer(2, transactional.commit_transaction, [30])
    later.start()
    (row,) = lines("read", "-c", config, "--format", "jsonl")
    later.join()
    assert json.loads(row)["id"] == match(2)[0]
    assert time.monotonic() - began >= 2


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SPANJOIN, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_read_follows_until_it_is_interrupted(kafka: Harness, config: str, output: str) -> None:
    fill(kafka, [1, 2])
    file = kafka.directory / "x.jsonl"
    command = ("read", "-c", config, "--follow", "--format", "jsonl", "--output", str(file))
    with started(*command) as reading:
        try:
            eventually(lambda: changes(file) == ["insert"] * 2, 30, lambda: str(changes(file)))
            fill(kafka, [1, 3])
            kafka.send(output, match(2)[0], None)
            kafka.send(output, match(9)[0], None)
            kafka.flush()
            eventually(lambda: len(changes(file)) == 4, 30, lambda: str(changes(file)))
        finally:
            reading.send_signal(signal.SIGINT)
        out, err = reading.communicate(timeout=20)
    assert (reading.returncode, out, err) == (0, "", "")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(row["change"], row["id"]) for row in rows[2:]} == {
        ("insert", match(3)[0]),
        ("retract", match(2)[0]),
    }
    assert all(row["left"] for row in rows), "also a retraction says what it was"


def changes(file: Path) -> list[str]:
    if not file.exists():
        return []
    # The last line may be half written.
    complete, _, _ = file.read_text().rpartition("\n")
    return [json.loads(line)["change"] for line in complete.splitlines()]


def test_read_says_when_the_schemas_are_others(kafka: Harness, config: str, output: str) -> None:
    kafka.send(output, "L:a|R:b", b"\xc3\x01" + bytes(8) + b"rest")
    kafka.flush()
    said = refused("read", "-c", config)
    assert f"match L:a|R:b of {output} cannot be decoded" in said


def test_results_of_a_run_can_be_loaded_again(kafka: Harness, config: str) -> None:
    """What `read` writes of a side is what `load` takes: nothing is lost on the way."""
    kafka.create_topic(kafka.job.output, 1)
    inputs(kafka, 1)
    fill(kafka, [1])
    rows = lines("read", "-c", config, "--format", "jsonl")
    data = kafka.directory / "x.jsonl"
    data.write_text(json.dumps({"key": "k", **json.loads(rows[0])["left"]}) + "\n")
    done("load", "-c", config, "--side", "left", str(data))
    (change,) = kafka.read(kafka.job.left)
    assert change.value is not None
    original = decode_match(match(1)[1]).left
    assert change.value[10:] == body(original)
