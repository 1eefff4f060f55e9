"""How the records of one Avro writer schema are read: which fields, in which units, how quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from schemas.extractor import Extract, Wanted, extractor_of
from schemas.program import program_of
from schemas.reader import Plan, fields_of, plan_of, read_fields
from schemas.records import Kind, Parts
from schemas.times import NO_UNIT, scale_of
from schemas.varint import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from native.interface import Program
    from schemas.fields import Fields
    from schemas.match_schema import Json

_NUMBER: Final = frozenset(["int", "long"])
_TEXT: Final = frozenset(["string"])
_SYMBOL: Final = frozenset(["string", "enum"])
_INSERT: Final = int(Kind.INSERT)

_UNITS: Final[Mapping[tuple[str, str | None], str]] = {
    ("int", "date"): "d",
    **{
        ("long", f"{local}timestamp-{name}"): unit
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""(type, logical type) -> its unit."""
_OF_A_DAY: Final = frozenset([("int", "time-millis"), ("long", "time-micros")])


class _Order(NamedTuple):
    """Where the parts of an event stand among the wanted fields of a record."""

    id: int
    ts: int
    start: int
    end: int
    kind: int | None


class Layout:
    """One writer schema, as one side reads it.

    `extract` is the quickest way to a value's parts: it raises one of `extractor.DOUBTS` where
    `read` has to decide. `program` is the same for the compiled loop, but for
    the header; None if there is none.
    """

    __slots__ = ("_header_size", "_kinds", "_order", "_plan", "_scales", "extract", "program")

    def __init__(self, schema: Json, fields: Fields, unit: str, header_size: int) -> None:
        """`unit` is the job's. Raises ValueError where the schema does not fit."""
        try:
            parsed: Any = parsed_schema(schema)
            named = parsed["__named_schemas"] if isinstance(parsed, dict) else {}
            fields = _fields_in(parsed, fields)
            wanted = _wanted(fields)
            self._plan: Plan = plan_of(parsed, named, wanted)
            self._scales = _scales(parsed, fields, unit)
            names = Wanted(*fields[:5], fields.kinds, self._scales)
            parts = fields_of(parsed, named)
            quick = extractor_of(parts, header_size, names)
            self.program: Program | None = quick and program_of(parts, named, names)
        except (SchemaParseException, TypeError, KeyError) as error:
            raise ValueError(str(error)) from error
        self._kinds = fields.kinds
        self._header_size = header_size
        self._order = _order([field["name"] for field in parsed["fields"]], wanted, fields)
        self.extract: Extract = quick or self.read

    def read(self, value: bytes) -> Parts:
        """The parts of a Kafka value, header included. Raises Malformed."""
        found = read_fields(self._plan, value, self._header_size)
        order, scales = self._order, self._scales
        kind = _INSERT if order.kind is None else kind_of(found[order.kind], self._kinds)
        return (
            found[order.end] * scales[2],
            found[order.start] * scales[1],
            str(found[order.id]),
            found[order.ts] * scales[0],
            kind,
            value,
        )


def kind_of(name: str, kinds: Mapping[str, int]) -> int:
    """What a record's kind stands for. Raises Malformed."""
    kind = kinds.get(name)
    if kind is None:
        raise Malformed(f"the kind {name!r} is none of {', '.join(kinds)}")
    return kind


def parsed_schema(schema: Json) -> Json:
    """The schema as fastavro reads it. Raises ValueError, SchemaParseException."""
    try:
        return fastavro.parse_schema(schema)
    except UnknownType as error:
        raise ValueError(f"unknown type {error}") from error


def _fields_in(schema: Json, fields: Fields) -> Fields:
    """The fields without the kind, where the schema has none and need not."""
    if not fields.kind_may_miss or not isinstance(schema, dict):
        return fields
    there = [field["name"] for field in schema.get("fields", ())]
    return fields if fields.kind in there else fields._replace(kind=None)


def _wanted(fields: Fields) -> dict[str, frozenset[str]]:
    """Field name -> the Avro types it may have, for all that is read of it."""
    wanted = {fields.id: _NUMBER | _TEXT}
    times = (fields.ts, fields.start, fields.end)
    for name, allowed in [(time, _NUMBER) for time in times] + [(fields.kind, _SYMBOL)]:
        if name is not None:
            wanted[name] = wanted.get(name, allowed) & allowed
    return wanted


def _order(names: list[str], wanted: Mapping[str, object], fields: Fields) -> _Order:
    order = [name for name in names if name in wanted]
    return _Order(
        id=order.index(fields.id),
        ts=order.index(fields.ts),
        start=order.index(fields.start),
        end=order.index(fields.end),
        kind=None if fields.kind is None else order.index(fields.kind),
    )


def _scales(schema: Json, fields: Fields, unit: str) -> tuple[int, int, int]:
    """How many of the job's units one unit of ts, start and end is."""
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    names = (fields.ts, fields.start, fields.end)
    ts, start, end = (
        _scale(name, kinds[name], declared, unit)
        for name, declared in zip(names, fields.units, strict=True)
    )
    return ts, start, end


def _scale(name: str, kind: Json, declared: str | None, unit: str) -> int:
    said = _logical_unit(name, kind)
    if unit == NO_UNIT and declared in (None, NO_UNIT):
        return 1  # A plain number, whatever it may mean elsewhere.
    if None not in (said, declared) and said != declared:
        raise ValueError(
            f'field {name!r} has the unit "{said}" by its logical type, but time_unit says '
            f'"{declared}"'
        )
    try:
        return scale_of(said or declared, unit)
    except ValueError as error:
        raise ValueError(f"the unit of field {name!r} {error}") from None


def _logical_unit(name: str, kind: Json) -> str | None:
    """The unit that a time's logical type says; of a union, that of its numbers."""
    kind = _unwrapped(kind)
    branches = map(_unwrapped, kind) if isinstance(kind, list) else [kind]
    logical = [
        (branch["type"], branch.get("logicalType")) if isinstance(branch, dict) else (branch, None)
        for branch in branches
    ]
    if not _OF_A_DAY.isdisjoint(logical):
        raise ValueError(f"field {name!r} is a time of a day, not a moment")
    units = {_UNITS.get(one) for one in logical if one[0] in _NUMBER}
    if len(units) > 1:
        raise ValueError(f"field {name!r} is a union of numbers with different units")
    return next(iter(units), None)


def _unwrapped(kind: Json) -> Json:
    """A type without what is around it: {"type": {"type": "long"}} is {"type": "long"}."""
    while isinstance(kind, dict) and isinstance(kind["type"], dict | list):
        kind = kind["type"]
    return kind
