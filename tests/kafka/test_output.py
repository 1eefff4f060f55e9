"""What a match is in the output topic, byte by byte, and the formats of a user's own."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tests.kafka.avro import MATCH, Event, Match, decode_match, encode, instant, match_id, murmur2
from tests.kafka.harness import OUTPUT_PARTITIONS
from tests.kafka.workers import spanjoin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness

DAY_MS: Final = 86_400_000


def test_the_default_match_schema_is_the_documented_one(kafka: Harness) -> None:
    done = spanjoin("schema", "-c", str(kafka.write_config()))
    assert to_parsing_canonical_form(json.loads(done.stdout)) == MATCH


def test_a_match_holds_both_records_under_its_id_in_its_partition(kafka: Harness) -> None:
    kafka.create_topics(2)
    kafka.start(kafka.write_config())
    expected = {}
    for number in range(40):
        left = Event(f"l{number}|%é", number, number - 3, number + 5, "INSERT", b"\0\xff" * number)
        right = Event(f"r{number}", number + 2, number + 1, number + 9, "INSERT", None)
        key = b"key %d" % number
        kafka.send(kafka.job.left, key, encode(left), headers={"trace": b"1"})
        kafka.send(kafka.job.right, key, encode(right), headers={"trace": b"2"})
        expected[match_id(left.id, right.id)] = Match(number + 1, number + 5, left, right)
    kafka.settle()
    kafka.send(kafka.job.left, b"key 0", encode(Event("l0|%é", 0, -3, 5, "RETRACT")))
    kafka.settle()
    log = kafka.read(kafka.job.output)
    tombstones = [change for change in log if change.value is None]
    values = [change for change in log if change.value is not None]
    assert [change.key for change in tombstones] == [b"L:l0%7C%25\xc3\xa9|R:r0"]
    assert len(values) == 40
    for change in log:
        assert change.key is not None
        assert change.partition == murmur2(change.key) % OUTPUT_PARTITIONS
        assert change.headers == {}
        if change.value is not None:
            assert decode_match(change.value) == expected[change.key.decode()]
    assert len({change.partition for change in log}) == OUTPUT_PARTITIONS


@pytest.mark.parametrize(("unit", "per_ms"), [("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_a_match_has_the_time_of_its_later_row(kafka: Harness, unit: str, per_ms: int) -> None:
    """In ms; no earlier than 1 and no later than now. And what is too far ahead is rejected."""
    kafka.create_topics(1)
    join: dict[str, str | int] = {
        "allowed_lateness": "1h", "max_interval": "1d", "max_future": "2d",
    }  # fmt: skip
    kafka.start(kafka.write_config(text=f'unit = "{unit}"\n---\n', join=join))
    now = int(time.time() * 1000)
    moments = [-10 * DAY_MS, 5_000_000, now - 100 * DAY_MS, now - 60_000, now + DAY_MS]
    for number, at in enumerate(moments):
        for side, shift in ((kafka.job.left, 0), (kafka.job.right, 7)):
            ts = (at + shift) * per_ms + per_ms - 1
            event = Event(f"{number}", ts, ts, ts + 20 * per_ms)
            kafka.send(side, b"k", encode(event))
            kafka.send(side, b"k", encode(event._replace(id="x", kind="WATERMARK")))
    for kind in ("INSERT", "WATERMARK"):
        ts = (now + 3 * DAY_MS) * per_ms
        kafka.send(kafka.job.left, b"k", encode(instant("future", ts, kind)))
        kafka.send(kafka.job.right, b"k", encode(instant("future", ts, kind)))
    kafka.settle()
    # Its watermark did not count, or this would be late; stamped like its row, taken back.
    ts = (now + DAY_MS) * per_ms
    kafka.send(kafka.job.left, b"k", encode(instant("not late", ts)))
    kafka.send(kafka.job.left, b"k", encode(Event("2", 0, 0, 0, "RETRACT")))
    kafka.send(kafka.job.left, b"k", encode(Event("3", 0, 0, 0, "RETRACT")))
    kafka.settle()
    reasons = [one.headers["reason"].decode() for one in kafka.read(kafka.job.rejects)]
    # Of row 2 the horizon is long past.
    assert reasons == ["future_ts"] * 4 + ["retract_after_horizon"]
    log = kafka.read(kafka.job.output)
    times = {change.key: change.timestamp for change in log if change.value is not None}
    assert [times[match_id(str(n), str(n)).encode()] for n in range(4)] == [
        1, 5_000_007, now - 100 * DAY_MS + 7, now - 60_000 + 7,
    ]  # fmt: skip
    ahead = times[match_id("4", "4").encode()]
    assert now - 1000 <= ahead <= int(time.time() * 1000) + 1000
    (tombstone,) = [change for change in log if change.value is None]
    assert (tombstone.key, tombstone.timestamp) == (b"L:3|R:3", now - 60_000 + 7)


def test_what_no_topic_of_ours_takes_is_rejected_by_name(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topic(job.left, 1)
    kafka.create_topic(job.right, 1)
    kafka.create_topic(job.output, 1, {"cleanup.policy": "compact", "max.message.bytes": "20000"})
    kafka.create_topic(job.rejects, 1, {"max.message.bytes": "100000"})
    endless = {"retention.bytes": "-1", "cleanup.policy": "delete"}
    kafka.create_topic(job.changelog, 1, {**endless, "max.message.bytes": "300000"})
    kafka.start(kafka.write_config())
    row = encode(Event("row", 10, 10, 20, payload=b"x" * 290_000))
    for value in (b"j" * 150_000, b"j" * 50_000, row):
        kafka.send(job.left, b"k", value, headers={"trace": b"1"})
    kafka.send(job.left, b"k", encode(Event("match", 10, 10, 20, payload=b"x" * 15_000)))
    kafka.send(job.right, b"k", encode(Event("large", 10, 10, 20, payload=b"x" * 15_000)))
    kafka.send(job.right, b"k", encode(Event("small", 10, 10, 20)))
    kafka.settle()
    assert set(kafka.matches()) == {"L:match|R:small"}
    rejects = {
        one.headers["offset"] + one.headers["topic"][-5:]: one for one in kafka.read(job.rejects)
    }
    assert {
        place: (one.headers["reason"], one.key, one.value) for place, one in rejects.items()
    } == {
        b"0-left": (b"undecodable", b"k", b""),
        b"1-left": (b"undecodable", b"k", b"j" * 50_000),
        b"2-left": (b"too_large", b"k", b""),
        b"0right": (b"too_large", b"L:match|R:large", b""),
    }


VISIT: Final = {
    "type": "record", "name": "Visit", "namespace": "shop",
    "fields": [
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [
            {"name": "street", "type": "string"}, {"name": "number", "type": ["null", "int"]},
        ]}},
        {"name": "visit", "type": "string"},
        {"name": "came", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "left", "type": "long"},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
    ],
}  # fmt: skip
SALE: Final = {
    "type": "record", "name": "Visit", "namespace": "shop",
    "fields": [
        {"name": "at", "type": "long"},
        {"name": "what", "type": {"type": "enum", "name": "What", "symbols": ["BUY", "RETRACT"]}},
        {"name": "amount", "type": "float"},
        {"name": "sale", "type": "string"},
    ],
}  # fmt: skip
FIELDS: Final = """
[left.fields]
id = "visit"
ts = "came"
start = "came"
end = "left"
[right.fields]
id = "sale"
ts = "at"
start = "at"
end = "at"
"""


def own(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """A record of a user's own schema, in single-object encoding."""
    out = io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    fastavro.schemaless_writer(out, parsed, record)
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    return b"\xc3\x01" + mark + out.getvalue()


def own_config(kafka: Harness) -> Path:
    for name, schema in (("visit", VISIT), ("sale", SALE)):
        (kafka.directory / f"{name}.avsc").write_text(json.dumps(schema))
    config = kafka.write_config(text=FIELDS)
    text = config.read_text()
    # The table of a side is in the file already: its schema stands with its topic.
    for side, name in (("left", "visit"), ("right", "sale")):
        text = text.replace(f"[{side}]\n", f'[{side}]\nschema = "{name}.avsc"\n')
    config.write_text(text)
    return config


def test_schemas_of_a_users_own(kafka: Harness) -> None:
    """Other names, logical types, one record name on both sides, and no kind: all are inserts."""
    kafka.create_topics(1)
    config = own_config(kafka)
    kafka.start(config)
    visit = {
        "place": {"street": "Main", "number": 7}, "visit": "v1", "came": 10, "left": 30,
        "tags": {"a": 0.5},
    }  # fmt: skip
    sale = {"at": 20, "what": "RETRACT", "amount": 1.5, "sale": "s1"}
    kafka.send(kafka.job.left, b"k", own(VISIT, visit))
    kafka.send(kafka.job.right, b"k", own(SALE, sale))
    kafka.send(kafka.job.right, b"k", own(VISIT, visit))
    kafka.settle()
    assert len(kafka.read(kafka.job.rejects)) == 1
    ((name, value),) = kafka.matches().items()
    assert name == "L:v1|R:s1"
    schema = json.loads(spanjoin("schema", "-c", str(config)).stdout)
    mark = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
    assert value[:10] == b"\xc3\x01" + bytes.fromhex(mark)
    body = io.BytesIO(value[10:])
    match = fastavro.schemaless_reader(body, fastavro.parse_schema(schema), None)
    assert body.read() == b""
    assert isinstance(match, dict)
    assert (match["start"], match["end"]) == (20, 20)
    assert match["left"]["place"] == {"street": "Main", "number": 7}
    assert match["left"]["tags"] == {"a": 0.5}
    assert match["right"] == sale
