from __future__ import annotations

from typing import Any

import fastavro
import pytest

from schemas.match_schema import match_schema, without_logical_types

Json = Any


def record(name: str, *types: Json, **more: Any) -> Json:
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **more}


def sides(left: Json, right: Json) -> tuple[Json, Json]:
    """The types of the two sides in their match schema, which any library must take."""
    schema = match_schema(left, right)
    fastavro.parse_schema(schema)
    assert schema["name"] == "spanjoin.Match"
    assert [field["name"] for field in schema["fields"]] == ["start", "end", "left", "right"]
    assert [field["type"] for field in schema["fields"][:2]] == ["long", "long"]
    return schema["fields"][2]["type"], schema["fields"][3]["type"]


def test_each_side_is_nested_as_it_is() -> None:
    left, right = record("a.Flight", "long", doc="A flight."), record("b.Weather", "string")
    assert sides(left, right) == (left, right)


def test_the_same_schema_on_both_sides_is_defined_once() -> None:
    both = record("spanjoin.Event", "long")
    assert sides(both, {**both, "doc": "Prose makes no difference."}) == (both, "spanjoin.Event")


def test_a_name_without_a_namespace_is_in_that_of_the_match() -> None:
    nested = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    left, right = sides(record("Flight", nested, "Color", ["null", "Flight"]), record("W", "int"))
    assert left["name"] == "spanjoin.Flight"
    kinds = [field["type"] for field in left["fields"]]
    assert kinds[0]["name"] == "spanjoin.Color"
    assert kinds[1:] == ["spanjoin.Color", ["null", "spanjoin.Flight"]]
    assert right["name"] == "spanjoin.W"


def test_a_nested_name_is_in_the_namespace_around_it() -> None:
    nested = {"type": "fixed", "name": "F", "size": 2}
    left, _ = sides(record("Row", nested, {"type": "F"}, namespace="a.b"), record("W"))
    assert left["name"] == "a.b.Row"
    assert "namespace" not in left
    assert left["fields"][0]["type"]["name"] == "a.b.F"
    assert left["fields"][1]["type"] == "a.b.F"


def test_names_that_mean_different_things_are_told_apart() -> None:
    shared = {"type": "enum", "name": "a.Shared", "symbols": ["X"]}
    left = record("a.Row", "long", record("a.Inner", "int"), shared)
    right = record(
        "a.Row", "string", record("a.Inner", "long", ["null", "a.Row"]), shared, "a.Inner"
    )
    _, renamed = sides(left, right)
    assert renamed["name"] == "a.RowRight"
    inner, enum, again = (field["type"] for field in renamed["fields"][1:])
    assert inner["name"] == again == "a.InnerRight"
    assert inner["fields"][1]["type"] == ["null", "a.RowRight"]
    assert enum == "a.Shared"


def test_a_new_name_is_really_new() -> None:
    left = record("a.Row", "long", record("a.RowRight", "int"))
    right = record("a.Row", "string", record("a.RowRight2", "int"))
    _, renamed = sides(left, right)
    assert renamed["name"] == "a.RowRight3"


def test_an_outer_type_differs_where_an_inner_one_does() -> None:
    left = record("a.Row", record("a.Inner", "int"))
    right = record("a.Row", record("a.Inner", "long"))
    _, renamed = sides(left, right)
    assert (renamed["name"], renamed["fields"][0]["type"]["name"]) == ("a.RowRight", "a.InnerRight")


def test_equal_recursive_types_are_equal() -> None:
    both = record("a.List", ["null", "a.List"], {"type": "array", "items": "a.List"})
    assert sides(both, both) == (both, "a.List")


def test_logical_types_tell_types_apart() -> None:
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    assert sides(record("a.T", stamp), record("a.T", "long"))[1]["name"] == "a.TRight"


def test_a_type_called_like_the_match_gives_way() -> None:
    left, right = sides(record("Match", "long"), record("spanjoin.Match", "long"))
    assert left["name"] == "spanjoin.MatchLeft"
    assert right["name"] == "spanjoin.MatchRight"


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ("long", "long"),
        ({"type": "long", "logicalType": "x"}, {"type": "long"}),
        (["null", {"type": "int", "logicalType": "date"}], ["null", {"type": "int"}]),
        (
            {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "scale": 2}},
            {"type": "map", "values": {"type": "bytes", "scale": 2}},
        ),
        (
            record("R", {"type": {"type": "long", "logicalType": "x"}}),
            record("R", {"type": {"type": "long"}}),
        ),
    ],
)
def test_logical_types_can_be_left_out(schema: Json, plain: Json) -> None:
    assert without_logical_types(schema) == plain
