"""Avro: inputs to events, and pairs of inputs to matches.

Single-object encoding: C3 01, the schema's 8-byte little-endian CRC-64-AVRO fingerprint, the body.
A match is *concatenated*: the header of its own schema, two longs, and the two inputs' bodies as
they came. That is right because a record is the concatenation of its fields, and only as long as
every body is exactly one datum of its schema (see `schemas.reader`).

Bad input is a value: `decode` never raises for what a message holds.
"""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form
from fastavro.schema import fingerprint as schema_fingerprint

from schemas.extractor import DOUBTS, Extract, Wanted, extractor_of
from schemas.match_schema import Json, match_schema, without_logical_types
from schemas.reader import Plan, fields_of, plan_of, read_fields
from schemas.records import Fault, Kind, Parts, Reason, Side
from schemas.varint import Malformed, encode_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARKER: Final = b"\xc3\x01"
HEADER_SIZE: Final = 10

_NUMBER: Final = frozenset(["int", "long"])
_TEXT: Final = frozenset(["string"])
_SYMBOL: Final = frozenset(["string", "enum"])
_KINDS: Final = {kind.name: int(kind) for kind in Kind}


class Fields(NamedTuple):
    """Which fields of a side's records the join reads.

    Several may be the same field. Without `kind` every record is an INSERT.
    """

    id: str = "id"
    ts: str = "ts"
    start: str = "start"
    end: str = "end"
    kind: str | None = "kind"


class UnknownSchema(ValueError):
    """A stored row or a match was written with a schema that is not configured (any more)."""


class _Layout(NamedTuple):
    """How one writer schema is read: the plan, and where in what it finds the fields stand.

    `extract` is the quick way to the same, if there is one.
    """

    plan: Plan
    extract: Extract | None
    id: int
    ts: int
    start: int
    end: int
    kind: int | None


def fingerprint(schema: Json) -> bytes:
    """The CRC-64-AVRO fingerprint of the schema's parsing canonical form, little-endian."""
    return bytes.fromhex(schema_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


class AvroCodec:
    """The codec of one job, for both sides.

    `schemas`: per side its writer schemas, as JSON; the first is the one new records are written
    with. `fields`: per side what the join reads. `scales`: per side, how many of the job's units
    one unit of its times is. Raises ValueError, naming the side, for a schema that does not fit.
    """

    def __init__(
        self,
        schemas: tuple[Sequence[Json], Sequence[Json]],
        fields: tuple[Fields, Fields],
        scales: tuple[int, int] = (1, 1),
    ) -> None:
        self._scales = scales
        self._layouts = [
            _layouts(side, schemas[side], _wanted(fields[side]), fields[side]) for side in Side
        ]
        self._extracts = [
            {
                header: layout.extract or partial(_read_parts, layout)
                for header, layout in side.items()
            }
            for side in self._layouts
        ]
        self._writers = [
            (MARKER + fingerprint(side[0]), _parsed(without_logical_types(side[0])))
            for side in schemas
        ]
        self._readers = {
            MARKER + fingerprint(schema): _parsed(without_logical_types(schema))
            for side in schemas
            for schema in side
        }
        self._match_schema = match_schema(schemas[Side.LEFT][0], schemas[Side.RIGHT][0])
        self._match_headers: dict[bytes, bytes] = {}
        self._match_readers: dict[bytes, Json] = {}
        for left in schemas[Side.LEFT]:
            for right in schemas[Side.RIGHT]:
                schema = match_schema(left, right)
                header = MARKER + fingerprint(schema)
                self._match_headers[fingerprint(left) + fingerprint(right)] = header
                self._match_readers[header] = _parsed(without_logical_types(schema))

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """The parts of these Kafka values in their order; a Fault where there are none."""
        extracts, scale = self._extracts[side], self._scales[side]
        found: list[Parts | Fault] = []
        for value in values:
            if value is None:
                found.append(Fault(Reason.NULL_VALUE, "a record without a value names no row"))
                continue
            try:
                found.append(extracts[value[:HEADER_SIZE]](value))
            except DOUBTS:
                found.append(self._decode(side, value))
        return found if scale == 1 else [_scaled(parts, scale) for parts in found]

    def _decode(self, side: Side, value: bytes) -> Parts | Fault:
        """What an extractor returns, the general way, or what is wrong."""
        layouts = self._layouts[side]
        layout = layouts.get(value[:HEADER_SIZE])
        try:
            if layout is None:
                raise Malformed(_no_layout(value, layouts))  # noqa: TRY301
            return _read_parts(layout, value)
        except Malformed as error:
            return Fault(Reason.UNDECODABLE, str(error))

    def match_value(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """The match of these two inputs (Kafka values as they came), overlapping from start to end.

        Raises UnknownSchema if one was written with a schema that is not configured.
        """
        pair = left[2:HEADER_SIZE] + right[2:HEADER_SIZE]
        header = self._match_headers.get(pair)
        if header is None:
            raise UnknownSchema(
                f"stored rows were written with the schemas {left[2:HEADER_SIZE].hex()} (left) and "
                f"{right[2:HEADER_SIZE].hex()} (right), but one of them is not configured"
            )
        return b"".join(
            (
                header,
                encode_times(start, end),
                left[HEADER_SIZE:],
                right[HEADER_SIZE:],
            )
        )

    def match_schema(self) -> dict[str, Any]:
        """The schema of matches of newly written records."""
        return self._match_schema

    def decode_match(self, value: bytes) -> dict[str, Any]:
        """A match as a dictionary: start, end, and the two inputs as left and right.

        Values of logical types are the plain numbers, strings or bytes that carry them. Raises
        UnknownSchema for a match of other schemas, Malformed for anything else that is no match.
        """
        return _read(value, self._match_readers)

    def decode_event(self, value: bytes) -> dict[str, Any]:
        """An input of either side as a dictionary of all its fields; raises as `decode_match`."""
        return _read(value, self._readers)

    def encode_event(self, side: Side, record: dict[str, Any]) -> bytes:
        """A side's record in its first schema. Raises ValueError for one that does not fit it."""
        header, schema = self._writers[side]
        body = BytesIO()
        try:
            fastavro.schemaless_writer(body, schema, record)
        except Exception as error:  # Whatever it raises is about this record.
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return header + body.getvalue()


_INSERT: Final = int(Kind.INSERT)


def _read_parts(layout: _Layout, value: bytes) -> Parts:
    plan, _, id_at, ts_at, start_at, end_at, kind_at = layout
    found = read_fields(plan, value, HEADER_SIZE)
    kind = _INSERT if kind_at is None else _kind_of(found[kind_at])
    return found[end_at], found[start_at], str(found[id_at]), found[ts_at], kind, value


def _scaled(parts: Parts | Fault, scale: int) -> Parts | Fault:
    if isinstance(parts, Fault):
        return parts
    end, start, row_id, ts, kind, value = parts
    return end * scale, start * scale, row_id, ts * scale, kind, value


def _read(value: bytes, readers: Mapping[bytes, Json]) -> dict[str, Any]:
    schema = readers.get(value[:HEADER_SIZE])
    if schema is None:
        raise UnknownSchema(_no_layout(value, readers))
    try:
        record: Any = fastavro.schemaless_reader(BytesIO(value[HEADER_SIZE:]), schema, None)
    except Exception as error:  # Whatever it raises is about these bytes.
        raise Malformed(f"{type(error).__name__}: {error}") from error
    assert isinstance(record, dict)
    return record


def _kind_of(name: str) -> int:
    kind = _KINDS.get(name)
    if kind is None:
        raise Malformed(f"the kind {name!r} is none of {', '.join(_KINDS)}")
    return kind


def _no_layout(value: bytes, known: Iterable[bytes]) -> str:
    if len(value) < HEADER_SIZE or not value.startswith(MARKER):
        return (
            f"not in Avro's single-object encoding: begins with {value[:HEADER_SIZE].hex(' ')!r}, "
            f"not with c3 01 and a fingerprint"
        )
    names = " or ".join(header[2:].hex() for header in known)
    return f"written with the schema of fingerprint {value[2:HEADER_SIZE].hex()}, not {names}"


def _parsed(schema: Json) -> Json:
    try:
        return fastavro.parse_schema(schema)
    except UnknownType as error:
        raise ValueError(f"unknown type {error}") from error


def _wanted(fields: Fields) -> dict[str, frozenset[str]]:
    """Field name -> the Avro types it may have, for all that is read of it."""
    wanted = {fields.id: _NUMBER | _TEXT}
    times = (fields.ts, fields.start, fields.end)
    for name, allowed in [(time, _NUMBER) for time in times] + [(fields.kind, _SYMBOL)]:
        if name is not None:
            wanted[name] = wanted.get(name, allowed) & allowed
    return wanted


def _layouts(
    side: Side, schemas: Sequence[Json], wanted: dict[str, frozenset[str]], fields: Fields
) -> dict[bytes, _Layout]:
    """Header -> layout, of every schema of a side."""
    layouts: dict[bytes, _Layout] = {}
    for schema in schemas:
        try:
            parsed = _parsed(schema)
            named = parsed["__named_schemas"] if isinstance(parsed, dict) else {}
            plan = plan_of(parsed, named, wanted)
            extract = extractor_of(fields_of(parsed, named), HEADER_SIZE, Wanted(*fields))
        except (SchemaParseException, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{side.name.lower()}.schema: {error}") from error
        order = [field["name"] for field in parsed["fields"] if field["name"] in wanted]
        layouts[MARKER + fingerprint(schema)] = _Layout(
            plan,
            extract,
            id=order.index(fields.id),
            ts=order.index(fields.ts),
            start=order.index(fields.start),
            end=order.index(fields.end),
            kind=None if fields.kind is None else order.index(fields.kind),
        )
    return layouts
