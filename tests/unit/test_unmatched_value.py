"""Output records of outer joins in every format: a side that may be missing, and one that is."""

from __future__ import annotations

import io
import json
from importlib import resources
from typing import Any

import fastavro
import pytest

from app.lookups import answers_to
from app.rows import flatten
from schemas.avro_codec import AvroCodec
from schemas.codec import UnknownSchema, Unresolved
from schemas.fields import Fields
from schemas.json_codec import JsonCodec
from schemas.match_schema import columns_of, match_schema
from schemas.records import JoinType, Side
from schemas.registry_codec import RegistryCodec

Json = Any
EVENT = json.loads(resources.files("schemas").joinpath("event.avsc").read_text())
OTHER = {
    "type": "record", "name": "Reading", "namespace": "plant",
    "fields": [{"name": name, "type": "long"} for name in ("start", "end", "ts")]
    + [{"name": "id", "type": "string"}, {"name": "kind", "type": "string"}],
}  # fmt: skip
FIELDS = Fields("id", "ts", "start", "end", "kind")
LEFT = {"id": "a", "ts": 1, "start": 1, "end": 5, "kind": "INSERT", "payload": b"\x00"}
RIGHT = {"start": 3, "end": 9, "ts": 3, "id": "b", "kind": "INSERT"}
OUTER = [JoinType.LEFT, JoinType.RIGHT, JoinType.FULL]


class Schemas:
    """A registry of a test: ids are positions."""

    address = "http://localhost:8081"

    def __init__(self, join: JoinType) -> None:
        self.join = join
        self.known: list[Json] = [EVENT, OTHER]

    def by_id(self, schema_id: int) -> Json | str:
        return self.known[schema_id]

    def newest(self, side: Side) -> Json:
        return (EVENT, OTHER)[side]

    def writer(self, side: Side) -> tuple[int, Json]:
        return int(side), self.newest(side)

    def register_match(self, schema: Json) -> int:
        if schema not in self.known:
            self.known.append(schema)
        return self.known.index(schema)


def registry_codec(join: JoinType, schemas: Schemas) -> RegistryCodec:
    codec = RegistryCodec((FIELDS, FIELDS), "ms", join)
    codec.learn(answers_to(Unresolved(schemas=[0, 1], writers=list(Side)), schemas))
    return codec


def read_avro(schema: Json, body: bytes) -> Json:
    """By a library, to the last byte."""
    stream = io.BytesIO(body)
    record = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return record


@pytest.mark.parametrize("join", OUTER)
@pytest.mark.parametrize("same", [False, True])
def test_the_schema_of_a_side_that_may_be_missing(join: JoinType, same: bool) -> None:
    schema = match_schema(EVENT, EVENT if same else OTHER, join)
    fastavro.parse_schema(schema)
    kinds = [field["type"] for field in schema["fields"][2:]]
    assert [isinstance(kind, list) for kind in kinds] == list(join.optional)
    assert [field.get("default", 1) for field in schema["fields"][2:]] == [
        None if optional else 1 for optional in join.optional
    ]
    inner = match_schema(EVENT, EVENT if same else OTHER)
    plain = [kind[1] if isinstance(kind, list) else kind for kind in kinds]
    assert plain == [field["type"] for field in inner["fields"][2:]]
    assert columns_of(schema) == columns_of(inner)


@pytest.mark.parametrize("join", OUTER)
def test_avro(join: JoinType) -> None:
    codec = AvroCodec(([EVENT], [OTHER]), (FIELDS, FIELDS), "ms", join)
    values = [codec.encode_event(Side.LEFT, LEFT), codec.encode_event(Side.RIGHT, RIGHT)]
    match = codec.match_value(3, 5, *values)
    whole = {"start": 3, "end": 5, "left": LEFT, "right": RIGHT}
    assert read_avro(codec.match_schema(), match[10:]) == whole
    assert codec.decode_match(match) == whole
    for side in join.preserved:
        value = codec.unmatched_value(side, 1, 5, values[side])
        record: dict[str, Any] = {"start": 1, "end": 5, "left": None, "right": None}
        record[("left", "right")[side]] = (LEFT, RIGHT)[side]
        assert value[:10] == match[:10]
        assert read_avro(codec.match_schema(), value[10:]) == record
        assert codec.decode_match(value) == record
    foreign = b"\xc3\x01" + bytes(8)
    with pytest.raises(UnknownSchema, match="0000000000000000 \\(left\\) and"):
        codec.unmatched_value(Side.LEFT, 1, 5, foreign)


@pytest.mark.parametrize("join", OUTER)
def test_registry(join: JoinType) -> None:
    schemas = Schemas(join)
    codec = registry_codec(join, schemas)
    values = [codec.encode_event(Side.LEFT, LEFT), codec.encode_event(Side.RIGHT, RIGHT)]
    for side in join.preserved:
        with pytest.raises(Unresolved) as asked:
            codec.unmatched_value(side, 1, 5, values[side])
        assert asked.value.alone == {(side, int(side))}
        assert str(asked.value) == f"rows of schema {int(side)} alone"
        codec.learn(answers_to(asked.value.and_also(Unresolved(schemas=[0])), schemas))
        value = codec.unmatched_value(side, 1, 5, values[side])
        # One schema for all that this pair of writers can give.
        assert int.from_bytes(value[1:5], "big") == 2
        record: dict[str, Any] = {"start": 1, "end": 5, "left": None, "right": None}
        record[("left", "right")[side]] = (LEFT, RIGHT)[side]
        assert read_avro(schemas.known[2], value[5:]) == record
    with pytest.raises(Unresolved) as asked:
        codec.match_value(3, 5, *values)
    codec.learn(answers_to(asked.value, schemas))
    match = codec.match_value(3, 5, *values)
    assert match[1:5] == b"\0\0\0\2"
    assert read_avro(schemas.known[2], match[5:])["left"] == LEFT
    assert len(schemas.known) == 3
    assert schemas.known[2] == match_schema(EVENT, OTHER, join)
    with pytest.raises(UnknownSchema, match="another format"):
        codec.unmatched_value(Side.LEFT, 1, 5, b"{}")


@pytest.mark.parametrize("join", OUTER)
def test_json(join: JoinType) -> None:
    codec = JsonCodec((FIELDS, FIELDS), "ms", join)
    left = b'{"id": "a","ts":1,"start":1,"end":5,"kind":"INSERT","n":9007199254740993}'
    value = codec.unmatched_value(Side.LEFT, 1, 5, left)
    assert value == b'{"start":1,"end":5,"left":' + left + b',"right":null}'
    assert codec.decode_match(value)["right"] is None
    assert codec.unmatched_value(Side.RIGHT, 1, 5, left) == (
        b'{"start":1,"end":5,"left":null,"right":' + left + b"}"
    )
    sides = [codec.match_schema()["properties"][name] for name in ("left", "right")]
    assert ["anyOf" in side for side in sides] == list(join.optional)
    with pytest.raises(UnknownSchema, match="another format"):
        codec.unmatched_value(Side.LEFT, 1, 5, b"\xc3\x01")


def test_a_row_without_a_side_has_no_columns_of_it() -> None:
    row = {"id": "R:b", "start": 3, "end": 9, "left": None, "right": RIGHT}
    assert flatten(row).keys() == {"id", "start", "end", *(f"right_{name}" for name in RIGHT)}
