"""The strict reader against the general one, over schemas and bytes of every kind."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.reader import Plan, plan_of, read_fields
from schemas.records import INT64_MAX, INT64_MIN
from schemas.varint import Malformed, encode_long, read_int, read_long, take_long

Json = Any

int64 = (
    st.integers(INT64_MIN, INT64_MAX)
    | st.integers(-300, 300)
    | st.integers(1_700_000_000_000, 1_700_000_100_000)
)


def varint(number: int) -> bytes:
    """Zigzag as the specification says it."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    encoded = b""
    while zigzag >= 128:
        encoded += bytes([zigzag % 128 + 128])
        zigzag //= 128
    return encoded + bytes([zigzag])


@given(int64, st.binary(max_size=3), st.binary(max_size=3))
@settings(deadline=None, max_examples=500)
def test_numbers(number: int, before: bytes, after: bytes) -> None:
    encoded = encode_long(number)
    assert encoded == varint(number)
    body, at, end = before + encoded + after, len(before), len(before) + len(encoded)
    assert read_long(body, at) == (number, end)
    for _ in range(2):  # The second time from what was remembered.
        found: list[int] = []
        assert take_long(body, at, found) == end
        assert found == [number]
    if -(2**31) <= number < 2**31:
        assert read_int(body, at) == (number, end)
    else:
        with pytest.raises(Malformed, match="32 bits"):
            read_int(body, at)


class Names:
    """Full names of one schema's own types, each used once."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"ns{self.count % 3}.T{self.count}"


SIMPLE = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
NESTED = ["array", "map", "record", "union", "enum", "fixed"]


def types(draw: st.DrawFn, names: Names, depth: int) -> Json:
    kind = draw(st.sampled_from(SIMPLE + NESTED if depth else SIMPLE))
    if kind == "record":
        return record(draw, names, depth - 1)
    if kind == "union":
        return draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=4, unique=True))
    if kind not in NESTED:
        return draw(st.sampled_from([kind, {"type": kind}]))
    if kind in ("array", "map"):
        inner = types(draw, names, depth - 1)
        return {"type": kind, "items" if kind == "array" else "values": inner}
    part: Json = {"symbols": ["A", "B", "C"]} if kind == "enum" else {"size": 3}
    return {"type": kind, "name": names.next(), **part}


def record(draw: st.DrawFn, names: Names, depth: int) -> Json:
    count = draw(st.integers(0, 4))
    fields = [{"name": f"f{n}", "type": types(draw, names, depth)} for n in range(count)]
    return {"type": "record", "name": names.next(), "fields": fields}


def datum(draw: st.DrawFn, schema: Json) -> bytes:
    if isinstance(schema, list):
        index = draw(st.integers(0, len(schema) - 1))
        return varint(index) + datum(draw, schema[index])
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("array", "map"):
        return blocks(draw, schema)
    if kind == "record":
        return b"".join(datum(draw, field["type"]) for field in schema["fields"])
    if kind == "fixed":
        size = schema["size"]
        return draw(st.binary(min_size=size, max_size=size))
    if kind == "string":
        text = draw(st.text(max_size=3) | st.just("x" * 70)).encode()
        return varint(len(text)) + text
    return draw(
        {
            "null": st.just(b""),
            "boolean": st.sampled_from([b"\x00", b"\x01"]),
            "int": st.integers(-(2**31), 2**31 - 1).map(varint),
            "long": int64.map(varint),
            "float": st.binary(min_size=4, max_size=4),
            "double": st.binary(min_size=8, max_size=8),
            "bytes": st.binary(max_size=3).map(lambda raw: varint(len(raw)) + raw),
            "enum": st.sampled_from([varint(n) for n in range(3)]),
        }[kind]
    )


def blocks(draw: st.DrawFn, schema: Json) -> bytes:
    encoded = b""
    for _ in range(draw(st.integers(0, 2))):
        count = draw(st.integers(1, 2))
        items = b"".join(
            datum(draw, "string") + datum(draw, schema["values"])
            if schema["type"] == "map"
            else datum(draw, schema["items"])
            for _ in range(count)
        )
        sized = varint(-count) + varint(len(items))
        encoded += (sized if draw(st.booleans()) else varint(count)) + items
    return encoded + b"\x00"


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Json, bytes]:
    schema = record(draw, Names(), 2)
    return schema, datum(draw, schema)


def plan_for(schema: Json) -> Plan:
    parsed = fastavro.parse_schema(schema)
    assert isinstance(parsed, dict)
    names = {
        field["name"]: kind["type"] if isinstance(kind := field["type"], dict) else kind
        for field in schema["fields"]
    }
    wanted = {
        name: frozenset([kind])
        for name, kind in names.items()
        if kind in ("int", "long", "string", "enum")
    }
    return plan_of(parsed, parsed["__named_schemas"], wanted)


def read_by_fastavro(schema: Json, body: bytes) -> tuple[dict[str, Any], int]:
    stream = BytesIO(body)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert isinstance(found, dict)
    return found, stream.tell()


@given(bodies(), st.binary(min_size=1, max_size=3))
@settings(deadline=None, max_examples=250)
def test_takes_every_datum_and_nothing_shorter_or_longer(
    drawn: tuple[Json, bytes], surplus: bytes
) -> None:
    schema, body = drawn
    plan = plan_for(schema)
    values, size = read_by_fastavro(schema, body)
    assert size == len(body)
    found = read_fields(plan, b"head" + body, 4)
    assert all(value in values.values() for value in found)
    with pytest.raises(Malformed, match="follow the end"):
        read_fields(plan, body + surplus, 0)
    if body:
        with pytest.raises(Malformed):
            read_fields(plan, body[:-1], 0)


@given(bodies(), st.data())
@settings(deadline=None, max_examples=250)
def test_what_is_taken_is_a_datum_to_the_general_reader_too(
    drawn: tuple[Json, bytes], data: st.DataObject
) -> None:
    schema, body = drawn
    mangled = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        if mangled:
            at = data.draw(st.integers(0, len(mangled) - 1))
            mangled[at] = data.draw(st.integers(0, 255))
    try:
        read_fields(plan_for(schema), bytes(mangled), 0)
    except Malformed:
        return
    _, size = read_by_fastavro(schema, bytes(mangled))
    assert size == len(mangled)
