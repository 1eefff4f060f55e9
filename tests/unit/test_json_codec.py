from __future__ import annotations

import json

import pytest

from schemas.codec import UnknownSchema
from schemas.fields import Fields, TimeUnits
from schemas.json_codec import JsonCodec
from schemas.json_reader import NESTING_MAX
from schemas.records import Fault, Kind, Reason, Side
from schemas.varint import Malformed

DEFAULT = Fields(kind_may_miss=True)
EVENT = b'{"id":"a","ts":5,"start":3,"end":7}'
PARTS = (7, 3, "a", 5, Kind.INSERT)


def codec_of(fields: Fields = DEFAULT, unit: str = "ms") -> JsonCodec:
    return JsonCodec((fields, DEFAULT), unit)


def parts_of(value: bytes, fields: Fields = DEFAULT, unit: str = "ms") -> object:
    """What is taken out of a value, which must be the value itself; or the detail of its fault."""
    (found,) = codec_of(fields, unit).decode_batch(Side.LEFT, [value])
    if isinstance(found, Fault):
        assert found.reason is Reason.UNDECODABLE
        return found.detail
    assert found[5] is value
    return found[:5]


def with_ts(text: str) -> bytes:
    return EVENT.replace(b'"ts":5', f'"ts":{text}'.encode())


def test_an_event() -> None:
    assert parts_of(EVENT) == PARTS
    assert parts_of(b' {\n"end": 7, "start": 3, "x": [{}], "ts": 5, "id": "a"}\n') == PARTS


def test_a_batch_keeps_its_order() -> None:
    found = codec_of().decode_batch(Side.RIGHT, [EVENT, None, b"", EVENT.replace(b'"a"', b'"b"')])
    assert [one[0] if isinstance(one, Fault) else one[2] for one in found] == [
        "a",
        Reason.NULL_VALUE,
        Reason.UNDECODABLE,
        "b",
    ]


@pytest.mark.parametrize(
    ("text", "ts"),
    [
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", 2**63),  # For the join to reject as out of range.
        ("18446744073709551616", 2**64),
        ("5.0", 5),
        ("5e0", 5),
        ("0.5E1", 5),
        ("9007199254740993.0", 2**53 + 1),
        ('"9007199254740993"', 2**53 + 1),
        ('"5"', 5),
        ("-0", 0),
    ],
)
def test_times_are_exact(text: str, ts: int) -> None:
    assert parts_of(with_ts(text)) == (7, 3, "a", ts, Kind.INSERT)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("5.5", "field 'ts' is '5.5': digits would be lost in the job's unit"),
        ("1e999", "field 'ts' is '1e999', not a number of at most 40 digits"),
        ("5" * 50, "not a number of at most 40 digits"),
        ('"5 "', "field 'ts' is '5 ', not a number of at most 40 digits"),
        ('"2025-03-03T06:00:00Z"', "not a number"),
        ("true", "field 'ts' is true, not a number"),
        ("null", "field 'ts' is null, not a number"),
        ("[5]", "field 'ts' is a list, not a number"),
        ('{"ts":5}', "field 'ts' is an object, not a number"),
        ("NaN", "NaN is no JSON"),
        ("-Infinity", "-Infinity is no JSON"),
        ("05", "not JSON: "),
        ("0x5", "not JSON: "),
        ("+5", "not JSON: "),
    ],
)
def test_times_that_are_none_are_undecodable(text: str, detail: str) -> None:
    found = parts_of(with_ts(text))
    assert isinstance(found, str)
    assert detail in found


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"", "not JSON"),
        (b"null", "not a JSON object, but null"),
        (b"[]", "not a JSON object, but a list"),
        (b'"x"', "not a JSON object, but the text 'x'"),
        (b"5", "not a JSON object, but the number 5"),
        (EVENT[:-1], "not JSON"),
        (EVENT + b"x", "not JSON: Extra data at character 35"),
        (EVENT + EVENT, "not JSON: Extra data"),
        (b"\xef\xbb\xbf" + EVENT, "not JSON"),
        (EVENT.decode().encode("utf-16"), "not UTF-8"),
        (EVENT.replace(b'"a"', b'"\xff"'), "not UTF-8: invalid start byte at byte 7"),
        (EVENT.replace(b'"a"', b'"\xed\xa0\x80"'), "not UTF-8"),
        (EVENT.replace(b'"a"', b'"\\ud800"'), r"'\ud800' has half of a surrogate pair"),
        (EVENT[:-1] + b',"x":["\\uDFFF"]}', "half of a surrogate pair"),
        (EVENT[:-1] + b',"\\uDFFF":1}', "half of a surrogate pair"),
        (EVENT.replace(b'"a"', b'"a\n"'), "not JSON: Invalid control character"),
        (EVENT[:-1] + b",}", "not JSON"),
        (EVENT.replace(b'"', b"'"), "not JSON"),
        (EVENT.replace(b'"ts"', b'"at"'), "there is no field 'ts'"),
        (EVENT[:-1] + b',"ts":5}', "field 'ts' is there twice"),
        (EVENT[:-1] + b',"t\\u0073":6}', "field 'ts' is there twice"),
        (EVENT.replace(b'"a"', b"1.5"), "field 'id' is the number 1.5, not a string"),
        (EVENT.replace(b'"a"', b"true"), "field 'id' is true, not a string or an integer"),
        (EVENT.replace(b'"a"', b"null"), "field 'id' is null, not a string or an integer"),
    ],
)
def test_what_is_no_event_is_undecodable(value: bytes, detail: str) -> None:
    found = parts_of(value)
    assert isinstance(found, str)
    assert detail in found


def test_names_may_stand_twice_where_nobody_reads_them() -> None:
    assert parts_of(EVENT[:-1] + b',"x":1,"x":2,"y":{"id":1,"ts":2}}') == PARTS
    assert parts_of(EVENT[:-1] + b',"x":"\\"ts\\":9"}') == PARTS


@pytest.mark.parametrize(
    ("text", "row_id"),
    [
        ("12", "12"),
        ("12.0", "12"),
        ("1" * 30, "1" * 30),
        ("18446744073709551615", "18446744073709551615"),
        ('"\\u00e9"', "\u00e9"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('""', ""),
    ],
)
def test_ids_are_texts(text: str, row_id: str) -> None:
    assert parts_of(EVENT.replace(b'"a"', text.encode())) == (7, 3, row_id, 5, Kind.INSERT)


def test_nesting_is_bounded() -> None:
    deep = EVENT[:-1] + b',"x":%b}'
    assert parts_of(deep % (b"[" * (NESTING_MAX - 1) + b"]" * (NESTING_MAX - 1))) == PARTS
    for levels in (NESTING_MAX, 100_000):
        found = parts_of(deep % (b'[{"x":' * (levels // 2) + b"1" + b"}]" * (levels // 2)))
        assert isinstance(found, str)
        assert "nested" in found
    wide = b"[" + b"[]," * 100_000 + b"1]"
    assert parts_of(deep % wide) == PARTS


def test_a_kind_has_the_words_it_is_given() -> None:
    fields = Fields(kind="op", kinds={"c": Kind.INSERT, "d": Kind.RETRACT})
    for word, expected in (
        ('"c"', Kind.INSERT),
        ('"d"', Kind.RETRACT),
        ('"u"', "the kind 'u' is none of c, d"),
        ("null", "field 'op' is null, not a string"),
        ("1", "field 'op' is the number 1, not a string"),
        ("[]", "field 'op' is a list, not a string"),
    ):
        value = EVENT[:-1] + f',"op":{word}}}'.encode()
        found = parts_of(value, fields)
        assert found == (expected if isinstance(expected, str) else (*PARTS[:4], expected))
    assert parts_of(EVENT, fields) == "there is no field 'op'"
    assert parts_of(EVENT[:-1] + b',"kind":"RETRACT"}') == (*PARTS[:4], Kind.RETRACT)
    assert parts_of(EVENT[:-1] + b',"kind":"INSERT","kind":"INSERT"}') == (
        "field 'kind' is there twice"
    )
    assert parts_of(EVENT[:-1] + b',"x":{"kind":"RETRACT"}}') == PARTS


def test_a_field_map_of_ones_own() -> None:
    fields = Fields("who/\u00e9", "at", "at", "until", None, units=TimeUnits("s", "s", "rfc3339"))
    value = '{"who/\u00e9":7,"at":1740981600.25,"until":"2025-03-03T06:00:01.5Z"}'.encode()
    assert parts_of(value, fields) == (1740981601500, 1740981600250, "7", 1740981600250, 0)
    assert parts_of(value.replace(b"/", b"\\/"), fields) == parts_of(value, fields)
    assert parts_of(value.replace(b".25", b".2505"), fields) == (
        "field 'at' is '1740981600.2505': digits would be lost in the job's unit"
    )
    number = value.replace(b'"2025-03-03T06:00:01.5Z"', b"5")
    assert parts_of(number, fields) == "field 'until' is the number 5, not an RFC 3339 text"


def test_a_match_is_the_inputs_as_they_came() -> None:
    codec = codec_of()
    right = b' {"n": 1.10, "id": "b", "ts": 9007199254740993, "start": 1, "end": 1e2}\n'
    value = codec.match_value(-3, 2**62, EVENT, right)
    assert value == b'{"start":-3,"end":%d,"left":%b,"right":%b}' % (2**62, EVENT, right)
    assert codec.decode_match(value) == {
        "start": -3,
        "end": 2**62,
        "left": json.loads(EVENT),
        "right": {"n": 1.1, "id": "b", "ts": 2**53 + 1, "start": 1, "end": 100.0},
    }
    assert codec.decode_event(right)["ts"] == 2**53 + 1


def test_what_is_no_match_is_told() -> None:
    codec = codec_of()
    for value in (b"", b"\xc3\x01", b"\x00\x00\x00\x00\x01"):
        with pytest.raises(UnknownSchema):
            codec.decode_match(value)
    for value in (EVENT, b"{", b'{"start":1,"end":2,"left":{},"right":%b}' % (b"1" * 5000)):
        with pytest.raises(Malformed):
            codec.decode_match(value)
    with pytest.raises(UnknownSchema, match="another format"):
        codec.match_value(1, 2, EVENT, b"\xc3\x01...")


def test_an_event_that_does_not_fit_is_told() -> None:
    codec = codec_of()
    record = {"id": "\u00e9", "ts": 2**53 + 1, "start": 3, "end": 7}
    assert codec.encode_event(Side.LEFT, record) == (
        b'{"id":"\xc3\xa9","ts":9007199254740993,"start":3,"end":7}'
    )
    with pytest.raises(ValueError, match="there is no field 'end'"):
        codec.encode_event(Side.LEFT, {"id": "a", "ts": 1, "start": 3})
    with pytest.raises(ValueError, match="not JSON compliant"):
        codec.encode_event(Side.LEFT, record | {"x": float("nan")})


def test_people_are_shown_what_a_match_looks_like() -> None:
    fields = Fields("no", "at", "at", "to", "op", {"c": 0}, TimeUnits("s", "s", "rfc3339"))
    codec = codec_of(fields)
    shown = codec.match_schema()
    assert shown["required"] == ["start", "end", "left", "right"]
    assert shown["properties"]["left"] == {
        "type": "object",
        "properties": {
            "no": {"type": ["string", "integer"]},
            "at": {"type": ["number", "string"]},
            "to": {"type": "string", "format": "date-time"},
            "op": {"enum": ["c"]},
        },
        "required": ["no", "at", "to", "op"],
    }
    assert shown["properties"]["right"]["required"] == ["id", "ts", "start", "end"]
    assert codec.match_columns()[-1] == ("right", "json")
