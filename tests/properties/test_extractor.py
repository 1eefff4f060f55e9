"""The quick way to an event's parts against the general one, over all kinds of schemas."""

from __future__ import annotations

from typing import Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.extractor import DOUBTS, Extract, Wanted, extractor_of
from schemas.reader import fields_of, plan_of, read_fields
from schemas.records import Kind
from schemas.varint import Malformed, encode_long
from tests.properties.test_reader import Json, Names, datum, types

WANTED = Wanted("id", "ts", "start", "end", "kind")
NUMBERS = dict.fromkeys(["ts", "start", "end"], frozenset(["long"]))
PLANNED = {"id": frozenset(["string"]), "kind": frozenset(["enum"]), **NUMBERS}
HEAD = b"header"
EVENT_FIELDS: dict[str, Json] = {
    "id": "string",
    "ts": "long",
    "start": "long",
    "end": "long",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["RETRACT", "OTHER", "INSERT"]},
}


@st.composite
def values(draw: st.DrawFn) -> tuple[Json, bytes]:
    """A schema with the event's fields somewhere in it, and a value that may be damaged."""
    names = Names()
    extra = [(f"x{number}", types(draw, names, 1)) for number in range(draw(st.integers(0, 3)))]
    payloads = st.sampled_from(["bytes", ["null", "bytes"], ["bytes", "null"]])
    fields = draw(st.permutations([*EVENT_FIELDS.items(), *extra, ("payload", draw(payloads))]))
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    body = bytearray(datum(draw, schema))
    for _ in range(draw(st.integers(0, 2))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    surplus = draw(st.sampled_from([b"", b"", b"", b"\x00"]))
    cut = draw(st.sampled_from([None, None, None, -1]))
    return schema, bytes(body[:cut]) + surplus


def extractor_for(schema: Json) -> Extract | None:
    parsed: Any = fastavro.parse_schema(schema)
    return extractor_of(fields_of(parsed, parsed["__named_schemas"]), len(HEAD), WANTED)


def general(schema: Json, value: bytes) -> tuple[Any, ...] | None:
    parsed: Any = fastavro.parse_schema(schema)
    plan = plan_of(parsed, parsed["__named_schemas"], PLANNED)
    order = [field["name"] for field in schema["fields"] if field["name"] in PLANNED]
    try:
        found = dict(zip(order, read_fields(plan, value, len(HEAD)), strict=True))
    except Malformed:
        return None
    if found["kind"] not in Kind.__members__:
        return None
    wanted = (WANTED.end, WANTED.start, WANTED.id, WANTED.ts)
    return (*[found[name] for name in wanted], int(Kind[found["kind"]]), value)


@given(values())
@settings(deadline=None, max_examples=500)
def test_finds_what_the_general_reader_finds_or_is_in_doubt(drawn: tuple[Json, bytes]) -> None:
    schema, body = drawn
    extract = extractor_for(schema)
    assert extract is not None
    for _ in range(2):  # The second time from what was remembered.
        try:
            found = extract(HEAD + body)
        except DOUBTS:
            continue
        assert found == general(schema, HEAD + body)


MOMENT = 1_700_000_000_000


@given(st.integers(MOMENT, MOMENT + 100_000), st.text(max_size=10), st.binary(max_size=50))
@example(MOMENT, "x" * 63, b"")
@settings(deadline=None, max_examples=100)
def test_is_in_no_doubt_about_usual_values(ts: int, row_id: str, payload: bytes) -> None:
    kinds = [*EVENT_FIELDS.items(), ("payload", ["null", "bytes"])]
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": name, "type": kind} for name, kind in kinds],
    }

    def sized(raw: bytes) -> bytes:
        return encode_long(len(raw)) + raw

    times = encode_long(ts) + encode_long(ts - 5_000) + encode_long(ts + 5_000)
    body = sized(row_id.encode()) + times + b"\x04" + b"\x02" + sized(payload)
    extract = extractor_for(schema)
    assert extract is not None
    value = HEAD + body
    assert extract(value) == (ts + 5_000, ts - 5_000, row_id, ts, int(Kind.INSERT), value)


@pytest.mark.parametrize(
    "change", [{"id": "long"}, {"ts": "int"}, {"end": ["null", "long"]}, {"kind": "string"}]
)
def test_has_no_quick_way_for_unusual_types(change: dict[str, Json]) -> None:
    kinds = EVENT_FIELDS | change
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    assert extractor_for({"type": "record", "name": "E", "fields": fields}) is None
