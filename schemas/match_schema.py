"""The schema of a match: two longs and the two input records, each typed by its own schema.

Written as one would write it by hand: both schemas nested in `spanjoin.Match` as they are, so a
name without a namespace is in `spanjoin`. Invariant: every full name in it means one thing. A type
that both sides define alike is defined once and named the second time; where they differ, the
right side's is renamed. Names are no part of the encoding: no byte of a match depends on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.records import JoinType, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Json = Any
"""A schema as JSON gives it: a name, a list (union), or a dictionary."""

NAMESPACE: Final = "spanjoin"
MATCH: Final = "spanjoin.Match"
SIDES: Final = ("left", "right")
"""The fields of a match that hold the two input records."""
_PRIMITIVES: Final = frozenset(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)
_NAMED: Final = frozenset(["record", "enum", "fixed"])
_KINDS: Final = _PRIMITIVES | _NAMED | {"array", "map"}
_PROSE: Final = frozenset(["doc", "aliases"])
"""Attributes that say nothing about a value."""


def match_schema(left: Json, right: Json, join: JoinType = JoinType.INNER) -> dict[str, Any]:
    """The schema of the output of records with these two schemas, which must be valid.

    A side that an outer join's record may lack is a union with null, null first.
    """
    taken: dict[str, Json] = {MATCH: None}
    placed = (
        _placed(_absolute(left, NAMESPACE), taken, "Left"),
        _placed(_absolute(right, NAMESPACE), taken, "Right"),
    )
    return {
        "type": "record",
        "name": MATCH,
        "fields": [
            {"name": "start", "type": "long"},
            {"name": "end", "type": "long"},
            *(
                {"name": side.name.lower(), "type": ["null", record], "default": None}
                if optional
                else {"name": side.name.lower(), "type": record}
                for side, record, optional in zip(Side, placed, join.optional, strict=True)
            ),
        ],
    }


def columns_of(match: Json) -> list[tuple[str, Json]]:
    """Columns (name, Avro type) of a match schema: each side's fields, with its name before."""
    match = _absolute(match, NAMESPACE)
    columns: list[tuple[str, Json]] = [("id", "string")]
    defined = dict(_definitions(match))
    for field in match["fields"]:
        name, kind = field["name"], field["type"]
        if name in SIDES:
            # In an outer join, null comes first.
            kind = kind[-1] if isinstance(kind, list) else kind
            # One that equals the other side's is written as its name.
            record = defined[kind] if isinstance(kind, str) else kind
            columns += [(f"{name}_{inner['name']}", inner["type"]) for inner in record["fields"]]
        else:
            columns.append((name, kind))
    return columns


def inlined(schema: Json, referenced: Iterable[Json]) -> Json:
    """The schema with the types of other schemas, which it names, defined where it first does."""
    defined: dict[str, Json] = {}
    for each in referenced:
        defined |= dict(_definitions(_absolute(each, NAMESPACE)))
    placed: set[str] = set()

    def place(part: Json) -> Json:
        if isinstance(part, str) and part in defined and part not in placed:
            part = defined[part]
        if isinstance(part, dict) and part["type"] in _NAMED:
            if part["name"] in placed:
                return part["name"]
            placed.add(part["name"])
        return _with_parts(part, place)

    return place(_absolute(schema, NAMESPACE))


def without_logical_types(schema: Json) -> Json:
    """The same types, but that every value is of the plain type that carries it."""
    if isinstance(schema, dict):
        schema = {name: part for name, part in schema.items() if name != "logicalType"}
    return _with_parts(schema, without_logical_types)


def _with_parts(schema: Json, change: Callable[[Json], Json]) -> Json:
    """The schema with each type that stands directly in it changed."""
    if isinstance(schema, list):
        return [change(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    changed = dict(schema)
    if isinstance(schema["type"], dict | list):
        changed["type"] = change(schema["type"])
    for name in ("items", "values"):
        if name in schema:
            changed[name] = change(schema[name])
    if "fields" in schema:
        changed["fields"] = [{**field, "type": change(field["type"])} for field in schema["fields"]]
    return changed


def _absolute(schema: Json, namespace: str) -> Json:
    """The schema with full names; what has no namespace of its own is in `namespace`."""
    if isinstance(schema, dict) and isinstance(schema["type"], str):
        kind = schema["type"]
        if kind not in _KINDS:  # A name, written as {"type": name}.
            schema = kind
        elif kind in _NAMED:
            full = str(schema["name"])
            if "." not in full:
                full = f"{schema.get('namespace', namespace) or NAMESPACE}.{full}"
            namespace = full.rpartition(".")[0]
            schema = {name: part for name, part in schema.items() if name != "namespace"}
            schema["name"] = full
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVES or "." in schema else f"{namespace}.{schema}"
    return _with_parts(schema, lambda part: _absolute(part, namespace))


def _placed(schema: Json, taken: dict[str, Json], suffix: str) -> Json:
    """The schema with no name that `taken` has for another type; adds its own to `taken`."""
    defined = dict(_definitions(schema))
    names: dict[str, str] = {}
    shared: set[str] = set()
    for name in defined:
        meaning = _meaning(name, defined, set())
        if name in taken and taken[name] == meaning:
            shared.add(name)
        new, number = name, 1
        while name not in shared and (new in taken or (new != name and new in defined)):
            new = f"{name}{suffix}{number if number > 1 else ''}"
            number += 1
        names[name] = new
        taken[new] = meaning
    return _rename(schema, names, shared)


def _definitions(schema: Json) -> Iterator[tuple[str, Json]]:
    """Every named type that the schema defines, the outer before the inner."""
    if isinstance(schema, dict) and schema["type"] in _NAMED:
        yield schema["name"], schema
    parts: list[Json] = []
    _with_parts(schema, parts.append)
    for part in parts:
        yield from _definitions(part)


def _meaning(schema: Json, defined: dict[str, Json], seen: set[str]) -> Json:
    """The schema with each name's definition in its place, where it is first met; no prose."""
    if isinstance(schema, str) and schema in defined and schema not in seen:
        schema = defined[schema]
    if isinstance(schema, dict):
        if schema["type"] in _NAMED:
            if schema["name"] in seen:
                return schema["name"]
            seen.add(schema["name"])
        schema = {name: part for name, part in schema.items() if name not in _PROSE}
        if "fields" in schema:
            schema["fields"] = [
                {name: part for name, part in field.items() if name not in _PROSE}
                for field in schema["fields"]
            ]
    return _with_parts(schema, lambda part: _meaning(part, defined, seen))


def _rename(schema: Json, names: dict[str, str], shared: set[str]) -> Json:
    if isinstance(schema, str):
        return names.get(schema, schema)
    if isinstance(schema, dict) and schema["type"] in _NAMED:
        name = schema["name"]
        if name in shared:
            return name
        schema = {**schema, "name": names[name]}
    return _with_parts(schema, lambda part: _rename(part, names, shared))
