from __future__ import annotations

import json
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form

import schemas
from schemas.avro_codec import AvroCodec, fingerprint
from schemas.codec import UnknownSchema
from schemas.fields import Fields, TimeUnits
from schemas.reader import EMPTY_ITEMS_MAX
from schemas.records import Event, Fault, Kind, Reason, Rejected, Side
from schemas.varint import Malformed, encode_long
from tests.lane import record_of

EVENT = json.loads(Path(schemas.__path__[0], "event.avsc").read_text())
FIELDS = Fields()


def single_object(schema: Any, record: dict[str, Any]) -> bytes:
    """A record as any other Avro library would write it."""
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    return b"\xc3\x01" + fingerprint(schema) + body.getvalue()


def event_value(**changes: Any) -> bytes:
    record = {"id": "a", "ts": 5, "start": 3, "end": 7, "kind": "INSERT", "payload": b"p"}
    return single_object(EVENT, record | changes)


def codec_of(schema: Any, fields: Fields = FIELDS, unit: str = "ms") -> AvroCodec:
    return AvroCodec(([schema], [EVENT]), (fields, FIELDS), unit)


def decode(codec: AvroCodec, value: bytes | None) -> Event | Rejected:
    return record_of(12, b"k", codec.decode_batch(Side.LEFT, [value])[0], "source")


def rejected(codec: AvroCodec, value: bytes | None, reason: Reason = Reason.UNDECODABLE) -> str:
    record = decode(codec, value)
    assert isinstance(record, Rejected)
    assert record.reason is reason
    assert (record.offset, record.source, record.match_id) == (12, "source", None)
    return record.detail


@pytest.fixture
def codec() -> AvroCodec:
    return codec_of(EVENT)


class TestFingerprint:
    @pytest.mark.parametrize(
        ("schema", "expected"),
        [  # From the Avro project's own list of canonical forms and fingerprints.
            ("null", 7195948357588979594),
            ("boolean", -6970731678124411036),
            ("int", 8247732601305521295),
            ("long", -3434872931120570953),
            ({"type": "fixed", "name": "foo", "size": 15}, 1756455273707447556),
            ({"type": "record", "name": "foo", "fields": []}, -4824392279771201922),
        ],
    )
    def test_is_little_endian_crc_64_avro(self, schema: Any, expected: int) -> None:
        assert fingerprint(schema) == struct.pack("<q", expected)

    def test_ignores_what_says_nothing_about_the_bytes(self) -> None:
        longer = json.loads(json.dumps(EVENT))
        longer["doc"] = "an event"
        longer["fields"][1]["type"] = {"type": "long", "logicalType": "timestamp-millis"}
        assert fingerprint(longer) == fingerprint(EVENT)


class TestDecode:
    @pytest.mark.parametrize("kind", list(Kind))
    def test_an_event(self, codec: AvroCodec, kind: Kind) -> None:
        value = event_value(kind=kind.name)
        assert decode(codec, value) == Event(12, b"k", "a", 5, 3, 7, kind, value, "source")

    def test_a_batch_keeps_its_order(self, codec: AvroCodec) -> None:
        good = event_value()
        other = event_value(id="b")
        found = codec.decode_batch(Side.RIGHT, [good, b"bad", None, other])
        assert [type(parts) for parts in found] == [tuple, Fault, Fault, tuple]
        assert [parts[2] for parts in found if not isinstance(parts, Fault)] == ["a", "b"]

    def test_a_null_value_is_named_so(self, codec: AvroCodec) -> None:
        assert rejected(codec, None, Reason.NULL_VALUE)

    @pytest.mark.parametrize(
        ("value", "detail"),
        [
            (b"", "single-object"),
            (b"\xc3", "single-object"),
            (b"\xc3\x01" + fingerprint(EVENT)[:7], "single-object"),
            (b"{}", "single-object"),
            (b"\x00\x00\x00\x00\x05" + b"x" * 20, "begins with '00 00 00 00 05"),
            (b"\xc3\x01" + bytes(8) + b"\x00", "fingerprint 0000000000000000"),
            (event_value() + b"\x00", "1 bytes follow"),
            (event_value()[:-1], "too early"),
            (event_value()[:10], "ends in the middle"),
            (event_value()[:14], "ends in the middle"),
        ],
    )
    def test_other_bytes_are_undecodable(self, codec: AvroCodec, value: bytes, detail: str) -> None:
        assert detail in rejected(codec, value)

    @pytest.mark.parametrize(
        ("body", "detail"),
        [
            (b"\x02\xff\x02\x02\x02\x00\x00", "not UTF-8"),
            (b"\x06\xed\xa0\x80\x02\x02\x02\x00\x00", "not UTF-8"),  # A lone surrogate.
            (b"\x01a\x02\x02\x02\x00\x00", "length is -1"),
            (b"\x02a\x02\x02\x02\x06\x00", "spanjoin.Kind has no number 3"),
            (b"\x02a\x02\x02\x02\x01\x00", "spanjoin.Kind has no number -1"),
            (b"\x02a\x02\x02\x02\x00\x04", "union has no number 2"),
            (b"\x02a\x02\x02\x02\x00\x01", "union has no number -1"),
            (b"\x02a" + b"\x80" * 10 + b"\x00\x02\x02\x00\x00", "more than ten bytes"),
            (b"\x02a" + b"\xff" * 9 + b"\x7f\x02\x02\x00\x00", "more than 64 bits"),
            (b"\x02a\x02\x02\x02\x00\x02\x7e", "too early"),
        ],
    )
    def test_a_body_is_one_datum_of_its_schema(
        self, codec: AvroCodec, body: bytes, detail: str
    ) -> None:
        assert detail in rejected(codec, b"\xc3\x01" + fingerprint(EVENT) + body)

    def test_int64_extremes(self, codec: AvroCodec) -> None:
        record = decode(codec, event_value(ts=-(2**63), start=2**63 - 1, end=-1))
        assert record[3:6] == (-(2**63), 2**63 - 1, -1)


def table(*fields: tuple[str, Any], **more: Any) -> Any:
    """A record schema of these fields."""
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "Row", "fields": listed, **more}


def point() -> Fields:
    """The fields of a point in time, all inserts."""
    return Fields("id", "ts", "ts", "ts", None)


class TestFieldMap:
    def test_other_names_without_a_kind_are_inserts(self) -> None:
        schema = table(("x", "double"), ("at", "long"), ("who", "string"), ("until", "int"))
        codec = codec_of(schema, Fields("who", "at", "at", "until", None))
        value = single_object(schema, {"x": 1.5, "at": 10, "who": "me", "until": 20})
        assert decode(codec, value) == Event(12, b"k", "me", 10, 10, 20, 0, value, "source")

    def test_numbers_can_be_ids_and_strings_kinds(self) -> None:
        schema = table(("id", "long"), ("ts", "long"), ("op", ["null", "string"]))
        codec = codec_of(schema, Fields("id", "ts", "ts", "ts", "op"))
        value = single_object(schema, {"id": -7, "ts": 3, "op": "RETRACT"})
        assert decode(codec, value) == Event(12, b"k", "-7", 3, 3, 3, 1, value, "source")
        for op, detail in (
            ("UPSERT", "none of INSERT, RETRACT, WATERMARK"),
            (None, "'op' is null"),
        ):
            odd = single_object(schema, {"id": -7, "ts": 3, "op": op})
            assert detail in rejected(codec, odd)

    @pytest.mark.parametrize(
        ("kind", "logical", "unit", "factor"),
        [
            ("long", "timestamp-millis", "ms", 1),
            ("long", "timestamp-millis", "ns", 1_000_000),
            ("long", "local-timestamp-micros", "us", 1),
            ("long", "timestamp-nanos", "ns", 1),
            ("int", "date", "ms", 86_400_000),
            ("long", "timestamp-micros", "none", 1),
            ("int", "timestamp-micros", "ms", 1),  # Not of a long: then it means nothing.
            ("long", "something-else", "ms", 1),
        ],
    )
    def test_a_logical_type_says_the_unit(
        self, kind: str, logical: str, unit: str, factor: int
    ) -> None:
        stamp = {"type": kind, "logicalType": logical}
        schema = table(("id", {"type": "string", "logicalType": "uuid"}), ("ts", ["null", stamp]))
        codec = codec_of(schema, point(), unit)
        value = codec.encode_event(Side.LEFT, {"id": "not a uuid", "ts": 123456})
        assert decode(codec, value)[2:5] == ("not a uuid", 123456 * factor, 123456 * factor)
        plain = codec_of(table(("id", "string"), ("ts", stamp)), point(), unit)
        value = plain.encode_event(Side.LEFT, {"id": "a", "ts": -2})
        assert decode(plain, value)[3:6] == (-2 * factor,) * 3

    @pytest.mark.parametrize(
        ("stamp", "declared", "unit", "message"),
        [
            ({"type": "long", "logicalType": "timestamp-micros"}, None, "ms", 'set unit = "us"'),
            ("long", "ns", "ms", "the unit of field 'ts' is \"ns\", finer than"),
            ({"type": "long", "logicalType": "timestamp-millis"}, "us", "us", "but time_unit says"),
            ({"type": "long", "logicalType": "time-micros"}, None, "us", "a time of a day"),
            ({"type": "int", "logicalType": "time-millis"}, None, "ms", "a time of a day"),
            (["int", {"type": "long", "logicalType": "timestamp-millis"}], None, "ms", "different"),
            ("long", "s", "none", "cannot be turned into"),
        ],
    )
    def test_a_unit_that_would_lose_digits_is_refused(
        self, stamp: Any, declared: str | None, unit: str, message: str
    ) -> None:
        units = TimeUnits(declared, declared, declared)
        with pytest.raises(ValueError, match=message):
            codec_of(table(("id", "string"), ("ts", stamp)), point()._replace(units=units), unit)

    def test_each_time_has_its_own_unit(self) -> None:
        fields = FIELDS._replace(units=TimeUnits("s", None, "ms"))
        value = event_value(ts=5, start=-3, end=7)
        assert decode(codec_of(EVENT, fields, "us"), value)[3:6] == (5_000_000, -3, 7_000)

    def test_a_kind_has_the_words_it_is_given(self) -> None:
        kinds = {"c": int(Kind.INSERT), "r": int(Kind.INSERT), "d": int(Kind.RETRACT)}
        enum = {"type": "enum", "name": "Op", "symbols": ["r", "u", "d", "c"]}
        for op in (enum, "string"):
            schema = table(("id", "string"), ("ts", "long"), ("op", op))
            codec = codec_of(schema, Fields("id", "ts", "ts", "ts", "op", kinds))
            values = [single_object(schema, {"id": "a", "ts": 3, "op": op}) for op in "crdu"]
            *known, unknown = codec.decode_batch(Side.LEFT, values)
            kinds_of = [parts[4] for parts in known if not isinstance(parts, Fault)]
            assert kinds_of == [Kind.INSERT, Kind.INSERT, Kind.RETRACT]
            assert unknown == Fault(Reason.UNDECODABLE, "the kind 'u' is none of c, r, d")

    def test_everything_else_is_passed_over(self) -> None:
        inner = table(("n", "null"), ("b", "boolean"), name="Inner")
        schema = table(
            ("f", "float"),
            ("list", {"type": "array", "items": inner}),
            ("map", {"type": "map", "values": "bytes"}),
            ("more", ["null", "Inner"]),
            ("fixed", {"type": "fixed", "name": "F", "size": 3}),
            ("again", "F"),
            ("id", "string"),
            ("ts", "long"),
        )
        codec = codec_of(schema, point())
        record = {
            "f": 1.0, "list": [{"n": None, "b": True}] * 3, "map": {"k": b"v", "\xe9": b""},
            "more": {"n": None, "b": False}, "fixed": b"abc", "again": b"abc", "id": "x", "ts": 9,
        }  # fmt: skip
        assert decode(codec, single_object(schema, record))[2:4] == ("x", 9)

    @pytest.mark.parametrize(
        ("schema", "fields", "message"),
        [
            ("string", FIELDS, "left.schema: the schema is not a record"),
            (table(("id", "string")), FIELDS, "left.schema: the schema has no field 'end'"),
            (EVENT, FIELDS._replace(ts="id"), "left.schema: field 'id' is string, not int or long"),
            (EVENT, FIELDS._replace(id="kind"), "left.schema: field 'kind' is enum, not string"),
            (EVENT, FIELDS._replace(id="payload"), "field 'payload' is null or bytes, not int or"),
            (EVENT, FIELDS._replace(kind="ts"), "field 'ts' is long, not "),
            ({"type": "record"}, FIELDS, "left.schema: "),
            (table(("id", "nowhere.Defined")), FIELDS, "left.schema: unknown type nowhere.Defined"),
        ],
    )
    def test_what_does_not_fit_is_told_at_the_start(
        self, schema: Any, fields: Fields, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            codec_of(schema, fields)


class TestHostileInput:
    def test_deep_nesting_is_undecodable(self) -> None:
        schema = table(("id", "string"), ("ts", "long"), ("next", ["null", "Row"]))
        codec = codec_of(schema, point())
        header = b"\xc3\x01" + fingerprint(schema)
        shallow, deep = (header + b"\x02a\x02\x02" * n + b"\x02a\x02\x00" for n in (10, 100_000))
        assert isinstance(decode(codec, shallow), Event)
        assert "nested too deeply" in rejected(codec, deep)

    @pytest.mark.parametrize(
        "items", ["null", {"type": "fixed", "name": "Nothing", "size": 0}, "double"]
    )
    def test_a_huge_list_takes_no_time(self, items: Any) -> None:
        schema = table(
            ("id", "string"), ("ts", "long"), ("list", {"type": "array", "items": items})
        )
        codec = codec_of(schema, point())
        count = b"\xfe" + b"\xff" * 8 + b"\x01"
        header = b"\xc3\x01" + fingerprint(schema) + b"\x02a\x02"
        assert isinstance(decode(codec, header + count + b"\x00"), Rejected)
        if items != "double":
            assert "items without a byte" in rejected(codec, header + count + b"\x00")
            most, more = (encode_long(EMPTY_ITEMS_MAX + one) + b"\x00" for one in (0, 1))
            assert isinstance(decode(codec, header + most), Event)
            assert "1001 items without a byte" in rejected(codec, header + more)

    def test_a_block_that_lies_about_its_size_is_undecodable(self) -> None:
        schema = table(("id", "string"), ("ts", "long"), ("l", {"type": "array", "items": "long"}))
        codec = codec_of(schema, point())
        header = b"\xc3\x01" + fingerprint(schema) + b"\x02a\x02"
        assert isinstance(decode(codec, header + b"\x03\x04\x02\x02\x00"), Event)
        assert "another length" in rejected(codec, header + b"\x03\x06\x02\x02\x00")


class TestMatch:
    def test_any_avro_library_reads_a_match(self, codec: AvroCodec) -> None:
        left, right = event_value(), event_value(id="b", end=2**62)
        value = codec.match_value(-3, 2**62, left, right)
        schema = codec.match_schema()
        assert value[:10] == b"\xc3\x01" + fingerprint(schema)
        stream = BytesIO(value[10:])
        match = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
        assert stream.tell() == len(value) - 10
        assert isinstance(match, dict)
        assert (match["start"], match["end"]) == (-3, 2**62)
        assert [match[side]["id"] for side in ("left", "right")] == ["a", "b"]
        assert codec.decode_match(value) == match

    def test_each_pair_of_writer_schemas_has_its_own(self) -> None:
        newer = {**EVENT, "fields": [*EVENT["fields"], {"name": "n", "type": "int", "default": 0}]}
        codec = AvroCodec(([newer, EVENT], [EVENT]), (FIELDS, FIELDS))
        old = event_value()
        new = codec.encode_event(Side.LEFT, {"id": "n", "ts": 5, "start": 5, "end": 5, "n": 3})
        right = event_value(id="r")
        values = [codec.match_value(5, 5, left, right) for left in (old, new)]
        assert values[0][:10] != values[1][:10]
        assert values[1][:10] == b"\xc3\x01" + fingerprint(codec.match_schema())
        assert [codec.decode_match(value)["left"].get("n") for value in values] == [None, 3]
        with pytest.raises(UnknownSchema, match=fingerprint(newer).hex()):
            codec_of(EVENT).match_value(5, 5, new, right)

    def test_what_is_no_match_is_told(self, codec: AvroCodec) -> None:
        value = codec.match_value(3, 7, event_value(), event_value())
        with pytest.raises(UnknownSchema, match="written with the schema of fingerprint"):
            codec.decode_match(event_value())
        with pytest.raises(UnknownSchema, match="single-object"):
            codec.decode_match(b"")
        with pytest.raises(Malformed):
            codec.decode_match(value[:12])

    def test_an_event_that_does_not_fit_is_told(self, codec: AvroCodec) -> None:
        with pytest.raises(ValueError, match="start"):
            codec.encode_event(Side.LEFT, {"id": "a", "ts": 1, "start": "x", "end": 2})

    def test_the_event_schema_is_the_documented_one(self) -> None:
        assert to_parsing_canonical_form(EVENT) == (
            '{"name":"spanjoin.Event","type":"record","fields":[{"name":"id","type":"string"},'
            '{"name":"ts","type":"long"},{"name":"start","type":"long"},{"name":"end","type":"long"},'
            '{"name":"kind","type":{"name":"spanjoin.Kind","type":"enum",'
            '"symbols":["INSERT","RETRACT","WATERMARK"]}},'
            '{"name":"payload","type":["null","bytes"]}]}'
        )


class TestWideTypes:
    def test_an_enum_can_have_more_symbols_than_a_byte_counts(self) -> None:
        symbols = [f"S{n}" for n in range(200)] + ["RETRACT"]
        kind = {"type": "enum", "name": "Many", "symbols": symbols}
        schema = table(("op", kind), ("id", "string"), ("ts", "long"), ("again", "Many"))
        codec = codec_of(schema, Fields("id", "ts", "ts", "ts", "op"))
        value = single_object(schema, {"op": "RETRACT", "id": "a", "ts": 1, "again": "S150"})
        record = decode(codec, value)
        assert isinstance(record, Event)
        assert record.kind == Kind.RETRACT
        wrong = single_object(schema, {"op": "S150", "id": "a", "ts": 1, "again": "S0"})
        assert "'S150' is none of" in rejected(codec, wrong)

    def test_a_union_can_hold_the_fields_of_an_event(self) -> None:
        branches = [{"type": "fixed", "name": f"F{n}", "size": n} for n in range(70)]
        schema = table(
            ("wide", [*branches, "null"]),
            ("id", ["null", "int", "string"]),
            ("ts", ["boolean", "long"]),
        )
        codec = codec_of(schema, point())
        for row_id, expected in (("a", "a"), (12, "12")):
            value = single_object(schema, {"wide": None, "id": row_id, "ts": 5})
            assert decode(codec, value)[2:5] == (expected, 5, 5)
        for record, detail in (
            ({"wide": None, "id": None, "ts": 5}, "field 'id' is null"),
            ({"wide": None, "id": "a", "ts": True}, "field 'ts' is boolean"),
        ):
            assert detail in rejected(codec, single_object(schema, record))

    def test_ever_new_times_are_read_and_written_right(self) -> None:
        codec = codec_of(EVENT)
        for number in range(5_000):
            ts = 1_700_000_000_000 + number * 100_000
            value = codec.encode_event(
                Side.LEFT, {"id": "a", "ts": ts, "start": ts - 1, "end": ts + 1}
            )
            assert decode(codec, value)[3:6] == (ts, ts - 1, ts + 1)
            match = codec.match_value(ts, -ts, value, value)
            assert match[10:22] == encode_long(ts) + encode_long(-ts)
        assert codec.decode_match(match)["end"] == -ts
