"""JSON from end to end, on a real broker: loaded, produced, joined, rejected, read, asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.kafka.commands import done

if TYPE_CHECKING:
    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

JOB: Final = """\
unit = "ms"
---
[schema]
format = "json"
"""
FIELDS: Final = """\
fields = { id = "no", ts = "since", start = "since", end = "until", kind = "op" }
kinds = { c = "insert", d = "retract", hb = "watermark" }
time_unit = { ts = "s", start = "s", end = "rfc3339" }
"""
BIG: Final = 2**63 - 1
NOON: Final = 1_740_994_200
"""2025-03-03 09:30:00, in seconds."""


def load(kafka: Harness, config: str) -> None:
    """A CSV file into the left side, JSON lines into the right one."""
    left, right = kafka.directory / "left.csv", kafka.directory / "right.jsonl"
    left.write_text(
        "machine,no,since,until,op,who\n"
        f"press-1,7,{NOON},2025-03-03T10:00:00.250Z,c,Anna\n"
        f"press-1,8,{NOON}.5,2025-03-03T11:30:00+01:00,c,Ben\n"
    )
    row = {"key": "press-1", "id": "f1", "ts": NOON * 1000, "start": NOON * 1000,
           "end": NOON * 1000 + 600, "n": BIG}  # fmt: skip
    right.write_text(json.dumps(row) + "\n")
    said = done("load", "-c", config, "--side", "left", "--key", "machine", str(left))
    assert said.startswith("2 records loaded")
    done("load", "-c", config, "--side", "right", str(right))


def look(config: str) -> None:
    """What the commands say of the three matches."""
    lines = done("read", "-c", config, "--format", "jsonl").splitlines()
    assert {line["id"]: line["left"]["no"] for line in map(json.loads, lines)} == {
        "L:7|R:f1": "7",
        "L:8|R:f1": "8",
        "L:7|R:f2": "7",
    }
    header, *rows = done("read", "-c", config, "--format", "csv").splitlines()
    assert header == "id,start,end,left,right"
    assert len(rows) == 3
    assert "who=Ben" in done("read", "-c", config)
    answer = json.loads(done("query", "-c", config, "--json", "press-1"))
    assert [one["record"]["who"] for one in answer["rows"]["left"]] == ["Anna", "Ben"]
    shown = json.loads(done("schema", "-c", config))
    assert shown["properties"]["left"]["properties"]["op"] == {"enum": ["c", "d", "hb"]}


def await_suspicion(kafka: Harness, worker: Worker) -> None:
    """Seconds where milliseconds were declared are told."""
    event = {"id": "f9", "ts": NOON, "start": NOON, "end": NOON}
    kafka.send(kafka.job.right, "press-2", json.dumps(event).encode())
    kafka.flush()
    shown = 'spanjoin_suspect_time_unit{side="right"} 1.0'
    kafka.await_(lambda: shown in worker.get("/metrics")[1], 30, worker.tail)
    assert 'spanjoin_suspect_time_unit{side="left"} 0.0' in worker.get("/metrics")[1]
    assert 'the times look like "s", not "ms"' in worker.log.read_text()


def test_json_from_end_to_end(kafka: Harness) -> None:
    job = kafka.job
    bounds = {"allowed_lateness": "6h", "max_interval": "12h", "max_future": "1d"}
    config = kafka.write_config(JOB, join=bounds)
    text = config.read_text()
    config.write_text(text.replace(f'"{job.left}"\n', f'"{job.left}"\n{FIELDS}'))
    assert "created with 2 partitions" in done("topics", "-c", str(config), "--partitions", "2")
    worker = kafka.start(config)

    load(kafka, str(config))
    # Spelt in other ways, which another producer may choose; and what is wrong about one.
    spelt = b'{"id": "f2", "ts": "%d", "start": %d.0, "end": 1.740994200e12, "x": [1.10]}'
    value = spelt % (NOON * 1000, NOON * 1000)
    kafka.send(job.right, "press-1", value, headers={"h": b"1"})
    kafka.send(job.right, "press-1", value.replace(b'"f2"', b"null"))
    kafka.send(job.right, "press-1", b"\xc3\x01not JSON")
    kafka.flush()
    kafka.await_matches({"L:7|R:f1", "L:8|R:f1", "L:7|R:f2"})
    assert [reject.value for reject in kafka.await_rejects(2)] == [
        value.replace(b'"f2"', b"null"),
        b"\xc3\x01not JSON",
    ]

    found = {key: json.loads(value) for key, value in kafka.matches().items()}
    assert found["L:7|R:f1"]["right"]["n"] == BIG
    assert found["L:8|R:f1"]["start"] == NOON * 1000 + 500
    assert found["L:7|R:f1"]["left"]["who"] == "Anna"
    assert kafka.matches()["L:7|R:f2"].endswith(b',"right":' + value + b"}")

    look(str(config))
    gone = {"no": 7, "since": NOON, "until": "2025-03-03T10:00:00.250Z", "op": "d"}
    kafka.send(job.left, "press-1", json.dumps(gone).encode())
    kafka.flush()
    kafka.await_matches({"L:8|R:f1"})
    given = ("--key", "press-1", "8", "f2", "--json")
    explained = json.loads(done("explain", "-c", str(config), *given))
    assert explained["why"] == "apart"
    assert "right f2 ends at 2025-03-03 09:30:00, and left 8 begins at" in explained["lines"][0]
    assert "500 ms later" in explained["lines"][0]
    await_suspicion(kafka, worker)
    kafka.settle()
    assert done("check", "-c", str(config)).startswith("1 matches expected, 1 of them in")
    assert "2 rejects in" in done("rejects", "-c", str(config))
    assert "3 sampled ones of left are readable" in done("doctor", "-c", str(config))
    assert worker.terminate() == 0
