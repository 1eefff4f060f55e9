from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversion import RecordConversion, Unfit
from app.datafiles import BLANK

KIND = {"type": "enum", "name": "Kind", "symbols": ["INSERT", "RETRACT"]}


def conversion(**fields: Any) -> RecordConversion:
    return RecordConversion(
        {
            "type": "record",
            "name": "R",
            "namespace": "n",
            "fields": [{"name": name, "type": schema} for name, schema in fields.items()],
        }
    )


def one(schema: Any, value: object) -> object:
    return conversion(f=schema).record({"f": value})["f"]


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_are_exact_as_numbers_and_as_text(number: int) -> None:
    assert one("long", number) == number == one("long", str(number))


@pytest.mark.parametrize(
    ("schema", "value", "result"),
    [
        ("int", "-7", -7),
        ("long", "+7", 7),
        ("string", "x", "x"),
        ("string", 17, "17"),
        ("string", BLANK, ""),
        ("bytes", "\x00\xff", b"\x00\xff"),
        ("bytes", b"\x80", b"\x80"),
        ("boolean", "True", True),
        ("boolean", False, False),
        ("double", "1.5", 1.5),
        ("float", 3, 3.0),
        (KIND, "RETRACT", "RETRACT"),
        (["null", "bytes"], None, None),
        (["null", "bytes"], BLANK, None),
        (["null", "bytes"], "", b""),
        (["null", "long", "string"], "x", "x"),
        (["null", "long", "string"], "5", 5),
        ({"type": "array", "items": "long"}, [1, "2"], [1, 2]),
        ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
        ({"type": "map", "values": "long"}, [("a", 1)], {"a": 1}),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5, 5),
        (
            {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", "int"]}]},
            {}, {"x": None},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_values(schema: Any, value: object, result: object) -> None:
    converted = one(schema, value)
    assert converted == result
    assert type(converted) in {type(result), type(BLANK)}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ("long", 1.0, "f must be an integer, but is 1.0"),
        ("long", True, "f must be an integer, but is True"),
        ("long", "1_000", "f must be an integer, but is '1_000'"),
        ("long", " 1", "f must be an integer, but is ' 1'"),
        ("long", "٣", "f must be an integer"),
        ("long", None, "f must be an integer, but is nothing"),
        ("long", BLANK, "f must be an integer, but is ''"),
        ("long", 2**63, "f must be an integer of 64 bits, but is 9223372036854775808"),
        ("int", 2**31, "f must be an integer of 32 bits"),
        ("string", 1.5, "f must be a text, but is 1.5"),
        ("string", None, "f must be a text, but is nothing"),
        ("bytes", "\u0100", "f are bytes, written as characters of code 0 to 255"),
        ("bytes", 5, "f must be a text or bytes, but is 5"),
        ("boolean", "yes", "f must be true or false, but is 'yes'"),
        ("double", "x", "f must be a number, but is 'x'"),
        ("double", True, "f must be a number, but is True"),
        (KIND, "insert", "f must be one of INSERT, RETRACT, but is 'insert'"),
        (["null", "long"], "x", "f must be an integer, but is 'x'"),
        (["string"], None, "f must be a text"),
        ("null", "x", "f must be empty"),
        ({"type": "array", "items": "long"}, [1, "x"], "f[1] must be an integer"),
        ({"type": "array", "items": "long"}, "x", "f must be a list"),
        ({"type": "map", "values": "long"}, {"a": "x"}, "f.a must be an integer"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "f must have 2 bytes, but has 3"),
        (
            {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
            {"x": "y"}, "f.x must be an integer, but is 'y'",
        ),
        (
            {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
            5, "f must be a record, but is 5",
        ),
        ("long", "9" * 100, "..."),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_told(schema: Any, value: object, message: str) -> None:
    with pytest.raises(Unfit) as caught:
        one(schema, value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_and_defaults() -> None:
    schema = {
        "type": "record", "name": "E", "fields": [
            {"name": "id", "type": "string"},
            {"name": "kind", "type": KIND, "default": "INSERT"},
            {"name": "payload", "type": ["null", "bytes"], "default": None},
        ],
    }  # fmt: skip
    made = RecordConversion(schema)
    assert made.columns == ("id", "kind", "payload")
    assert made.missing({"kind"}) == ["id"]
    insert = {"id": "a", "kind": "INSERT", "payload": None}
    assert made.record({"id": "a", "other": 1}) == insert
    assert made.record({"id": "a", "kind": BLANK, "payload": BLANK}) == insert
    assert made.record({"id": "a", "kind": None}) == insert
    with pytest.raises(Unfit, match="id is missing"):
        made.record({"kind": "INSERT"})


def test_a_type_may_hold_its_own_kind() -> None:
    schema = {
        "type": "record", "name": "Node", "namespace": "n", "fields": [
            {"name": "next", "type": ["null", "n.Node"]},
        ],
    }  # fmt: skip
    made = RecordConversion(
        {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
    )
    assert made.record({"f": {"next": {"next": None}}}) == {"f": {"next": {"next": None}}}
