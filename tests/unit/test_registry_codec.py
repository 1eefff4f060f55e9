from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest

from schemas.codec import UnknownSchema, Unresolved
from schemas.fields import Fields, TimeUnits
from schemas.match_schema import inlined, match_schema
from schemas.records import Fault, Kind, Reason, Side
from schemas.registry_codec import ABSENT_MAX, UNKNOWN_MAX, Absent, Answers, RegistryCodec
from schemas.varint import Malformed

POINT = Fields("id", "ts", "ts", "ts", "kind", kind_may_miss=True)


def table(*fields: tuple[str, Any], name: str = "Row") -> Any:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": listed}


OLD = table(("id", "string"), ("ts", "long"))
NEW = table(("more", "string"), ("ts", "long"), ("id", "string"))


def value_of(schema_id: int, schema: Any, record: dict[str, Any]) -> bytes:
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()


NOWHERE = Absent("written with schema 1, which is nowhere")
OLD_VALUE = value_of(1, OLD, {"id": "a", "ts": 5})
NEW_VALUE = value_of(2**31 - 1, NEW, {"more": "x", "ts": 6, "id": "b"})


def codec_of(schemas: dict[int, Any], fields: Fields = POINT, unit: str = "ms") -> RegistryCodec:
    codec = RegistryCodec((fields, POINT), unit)
    codec.learn(Answers(schemas=schemas))
    return codec


def decoded(codec: RegistryCodec, *values: bytes | None) -> list[Any]:
    found = codec.decode_batch(Side.LEFT, values)
    return [one if isinstance(one, Fault) else one[:5] for one in found]


def test_asks_for_every_schema_that_it_does_not_know_and_once_only() -> None:
    codec = codec_of({})
    with pytest.raises(Unresolved) as asked:
        decoded(codec, OLD_VALUE, NEW_VALUE, b"nonsense", None)
    assert asked.value.schemas == {1, 2**31 - 1}
    assert asked.value.decoded == []
    codec.learn(Answers(schemas={1: OLD, 2**31 - 1: NEW}))
    parts = [(5, 5, "a", 5, Kind.INSERT), (6, 6, "b", 6, Kind.INSERT)]
    assert decoded(codec, OLD_VALUE, NEW_VALUE) == parts
    assert decoded(codec, OLD_VALUE, NEW_VALUE) == parts


def test_what_stands_before_an_unknown_schema_is_decoded() -> None:
    codec = codec_of({1: OLD})
    strange = [b"\0\0\0\1" + bytes([n]) for n in range(200)]
    with pytest.raises(Unresolved) as asked:
        decoded(codec, None, OLD_VALUE, b"nonsense", *strange, OLD_VALUE)
    assert [type(one) for one in asked.value.decoded] == [Fault, tuple, Fault]
    assert asked.value.schemas == set(range(256, 256 + UNKNOWN_MAX))


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"", "not in a Schema Registry's wire format: begins with ''"),
        (b"\0\0\0\1", "begins with '00 00 00 01'"),
        (b"\xc3\x01abcdefgh", "begins with 'c3 01 61 62 63'"),
        (b'{"id": 1}', "not in a Schema Registry's wire format"),
        (b"\0\x80\0\0\0...", "written with schema 2147483648, which is no id"),
        (OLD_VALUE + b"x", "1 bytes follow the end of the record"),
        (OLD_VALUE[:-1], "the value ends in the middle of a field"),
    ],
)
def test_other_bytes_are_undecodable(value: bytes, detail: str) -> None:
    (fault,) = decoded(codec_of({1: OLD}), value)
    assert fault.reason is Reason.UNDECODABLE
    assert detail in fault.detail


def test_a_schema_that_nobody_has_registered_is_undecodable_for_a_while() -> None:
    codec = codec_of({1: NOWHERE})
    assert decoded(codec, OLD_VALUE, None) == [
        Fault(Reason.UNDECODABLE, "written with schema 1, which is nowhere"),
        Fault(Reason.NULL_VALUE, "a record without a value names no row"),
    ]
    codec.forget_absent()
    with pytest.raises(Unresolved):
        decoded(codec, OLD_VALUE)
    codec.learn(Answers(schemas={1: OLD}))
    assert decoded(codec, OLD_VALUE)[0][2] == "a"
    codec.learn(Answers(schemas={1: NOWHERE}))
    assert decoded(codec, OLD_VALUE)[0][2] == "a"


def test_nonsense_takes_no_memory_for_ever() -> None:
    codec = codec_of(dict.fromkeys(range(ABSENT_MAX), NOWHERE))
    assert len(codec._absent) == ABSENT_MAX
    codec.learn(Answers(schemas={ABSENT_MAX: NOWHERE}))
    assert len(codec._absent) == 1


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        (table(("id", "string")), "of schema 1, which does not fit: the schema has no field 'ts'"),
        ("string", "the schema is not a record"),
        (table(("id", "string"), ("ts", "string")), "field 'ts' is string, not int or long"),
        (
            table(("id", "string"), ("ts", {"type": "long", "logicalType": "timestamp-micros"})),
            "finer than",
        ),
        (table(("id", "Nowhere"), ("ts", "long")), "unknown type Nowhere"),
        ({"type": "record"}, "does not fit"),
    ],
)
def test_a_schema_that_does_not_fit_rejects_its_records_only(schema: Any, detail: str) -> None:
    codec = codec_of({1: schema, 2**31 - 1: NEW})
    fault, other = decoded(codec, OLD_VALUE, NEW_VALUE)
    assert fault.reason is Reason.UNDECODABLE
    assert detail in fault.detail
    assert other[2] == "b"


def test_each_schema_says_its_own_units_and_whether_it_has_a_kind() -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    kind = {"type": "enum", "name": "Kind", "symbols": ["WATERMARK", "INSERT"]}
    schema = table(("kind", kind), ("ts", millis), ("id", "long"))
    value = value_of(3, schema, {"kind": "WATERMARK", "ts": 7, "id": 12})
    codec = codec_of({1: OLD, 3: schema}, POINT, "us")
    assert decoded(codec, OLD_VALUE, value) == [
        (5, 5, "a", 5, Kind.INSERT),
        (7000, 7000, "12", 7000, Kind.WATERMARK),
    ]
    seconds = POINT._replace(units=TimeUnits("s", "s", "s"))
    assert decoded(codec_of({1: OLD}, seconds), OLD_VALUE)[0][0] == 5000


def test_a_match_has_the_schema_of_its_pair() -> None:
    codec = codec_of({1: OLD, 2**31 - 1: NEW})
    with pytest.raises(Unresolved) as asked:
        codec.match_value(1, 2, OLD_VALUE, NEW_VALUE)
    assert asked.value.pairs == {(1, 2**31 - 1)}
    codec.learn(Answers(pairs={(1, 2**31 - 1): 77}))
    value = codec.match_value(-1, 2**62, OLD_VALUE, NEW_VALUE)
    assert value[:5] == b"\0\0\0\0\x4d"
    with pytest.raises(Unresolved) as asked:
        codec.decode_match(value)
    assert asked.value.schemas == {77}
    schema = match_schema(OLD, NEW)
    codec.learn(Answers(schemas={77: schema}))
    match = {"start": -1, "end": 2**62, "left": {"id": "a", "ts": 5},
             "right": {"more": "x", "ts": 6, "id": "b"}}  # fmt: skip
    assert codec.decode_match(value) == match
    assert fastavro.schemaless_reader(BytesIO(value[5:]), fastavro.parse_schema(schema), None) == (
        match
    )
    assert codec.decode_event(NEW_VALUE)["more"] == "x"
    with pytest.raises(Malformed):
        codec.decode_match(value[:-1])


def test_rows_of_a_lost_schema_or_another_format_are_told() -> None:
    codec = codec_of({1: NOWHERE, 2**31 - 1: NEW})
    with pytest.raises(UnknownSchema, match="stored rows are written with schema 1"):
        codec.match_value(1, 2, OLD_VALUE, NEW_VALUE)
    with pytest.raises(UnknownSchema, match="stored rows were written in another format"):
        codec.match_value(1, 2, b"\xc3\x01.........", NEW_VALUE)
    with pytest.raises(UnknownSchema, match="which is nowhere"):
        codec.decode_event(OLD_VALUE)
    with pytest.raises(UnknownSchema, match="wire format"):
        codec.decode_event(b"{}")


def test_new_records_have_the_newest_schema() -> None:
    codec = codec_of({})
    with pytest.raises(Unresolved) as asked:
        codec.match_schema()
    assert asked.value.newest == {Side.LEFT}, "each side is asked for when it is needed"
    codec.learn(Answers(newest={Side.LEFT: OLD, Side.RIGHT: NEW}))
    assert codec.match_schema() == match_schema(OLD, NEW)
    assert codec.side_schema(Side.RIGHT) == NEW
    assert [name for name, _ in codec.match_columns()][-1] == "right_id"
    with pytest.raises(Unresolved) as asked:
        codec.encode_event(Side.LEFT, {"id": "a", "ts": 5})
    assert asked.value.writers == {Side.LEFT}
    codec.learn(Answers(writers={Side.LEFT: (1, OLD)}))
    assert codec.encode_event(Side.LEFT, {"id": "a", "ts": 5}) == OLD_VALUE
    with pytest.raises(ValueError, match="ts"):
        codec.encode_event(Side.LEFT, {"id": "a"})


def test_questions_can_be_put_together() -> None:
    both = Unresolved([1], [(1, 2)]).and_also(Unresolved([3], (), [Side.LEFT], [Side.RIGHT]))
    assert both.schemas == {1, 3}
    assert both.pairs == {(1, 2)}
    assert str(both) == (
        "schema 1, schema 3, the match of schemas 1 and 2, the schema of left, the schema of right"
    )


def test_what_a_schema_refers_to_is_defined_where_it_is_first_named() -> None:
    inner = {"type": "enum", "name": "Color", "namespace": "a", "symbols": ["RED"]}
    place = table(("color", "Color"), ("again", "Color"), name="a.Place")
    schema = table(("id", "string"), ("ts", "long"), ("one", "a.Place"), ("two", "a.Place"))
    whole = inlined(schema, [place, inner])
    assert fastavro.parse_schema(whole)
    one, two = whole["fields"][2]["type"], whole["fields"][3]["type"]
    assert (one["name"], two) == ("a.Place", "a.Place")
    assert one["fields"][0]["type"]["symbols"] == ["RED"]
    assert one["fields"][1]["type"] == "a.Color"
    assert inlined(OLD, [])["fields"] == OLD["fields"]
