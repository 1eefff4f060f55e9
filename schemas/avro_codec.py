"""Avro in single-object encoding, with the schemas of both sides known from the start.

A value is C3 01, the schema's 8-byte little-endian CRC-64-AVRO fingerprint, and the body. A match
is the header of its own schema, two longs, and the two inputs' bodies as they came: a record is the
concatenation of its fields (see `schemas.reader`).
"""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import fastavro
from fastavro.schema import fingerprint as schema_fingerprint
from fastavro.schema import to_parsing_canonical_form

from schemas.codec import UnknownSchema
from schemas.concatenation import Concatenation
from schemas.extractor import decoded
from schemas.layout import Layout, parsed_schema
from schemas.match_schema import Json, columns_of, match_schema, without_logical_types
from schemas.records import Fault, JoinType, Parts, Reason, Side
from schemas.varint import Malformed, encode_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from native.interface import Program
    from schemas.fields import Fields

MARKER: Final = b"\xc3\x01"
HEADER_SIZE: Final = 10
ABSENT: Final = b"\x00"
PRESENT: Final = b"\x02"
"""The index of a union's first and second branch, as Avro writes it."""


def fingerprint(schema: Json) -> bytes:
    """The CRC-64-AVRO fingerprint of the schema's parsing canonical form, little-endian."""
    return bytes.fromhex(schema_fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


class AvroCodec:
    """A `schemas.codec.Codec`.

    `schemas`: per side its writer schemas, as JSON; the first is the one new records are written
    with. `fields`: per side what the join reads. `unit`: the job's. `join`: what the output has
    besides matches. Raises ValueError, naming the side, for a schema that does not fit.
    """

    def __init__(
        self,
        schemas: tuple[Sequence[Json], Sequence[Json]],
        fields: tuple[Fields, Fields],
        unit: str = "ms",
        join: JoinType = JoinType.INNER,
    ) -> None:
        self._marks = marks_of(join)
        self._layouts = [_layouts(side, schemas[side], fields[side], unit) for side in Side]
        self._extracts = [
            {header: layout.extract for header, layout in side.items()} for side in self._layouts
        ]
        self._programs = [programs_of(side) for side in self._layouts]
        self._writers = [
            (MARKER + fingerprint(side[0]), parsed_schema(without_logical_types(side[0])))
            for side in schemas
        ]
        self._readers = {
            MARKER + fingerprint(schema): parsed_schema(without_logical_types(schema))
            for side in schemas
            for schema in side
        }
        self._side_schemas = [side[0] for side in schemas]
        newest = schemas[Side.LEFT][0], schemas[Side.RIGHT][0]
        self._newest = [MARKER + fingerprint(schema) for schema in newest]
        self._match_schema = match_schema(*newest, join)
        self._match_headers: dict[bytes, bytes] = {}
        self._concatenation = Concatenation(
            self._match_headers, HEADER_SIZE, self._marks, _not_configured
        )
        self._match_readers: dict[bytes, Json] = {}
        for left in schemas[Side.LEFT]:
            for right in schemas[Side.RIGHT]:
                schema = match_schema(left, right, join)
                header = MARKER + fingerprint(schema)
                pair = MARKER + fingerprint(left) + MARKER + fingerprint(right)
                self._match_headers[pair] = header
                self._match_readers[header] = parsed_schema(without_logical_types(schema))

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """The parts of these Kafka values in their order; a Fault where there are none."""
        return decoded(
            values,
            self._extracts[side],
            HEADER_SIZE,
            self._programs[side],
            partial(self._decode, side),
        )

    def _decode(self, side: Side, value: bytes | None) -> Parts | Fault:
        """What an extractor returns, the general way, or what is wrong."""
        if value is None:
            return Fault(Reason.NULL_VALUE, "a record without a value names no row")
        layouts = self._layouts[side]
        layout = layouts.get(value[:HEADER_SIZE])
        try:
            if layout is None:
                raise Malformed(_no_layout(value, layouts))  # noqa: TRY301
            return layout.read(value)
        except Malformed as error:
            return Fault(Reason.UNDECODABLE, str(error))

    @property
    def match_value(self) -> Callable[[int, int, bytes, bytes], bytes]:
        """As `Codec.match_value`: raises UnknownSchema for a schema that is not configured."""
        return self._concatenation

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """The output record of an input that nothing matches: the other side is null.

        Its schema is that of matches with the other side's first. Raises as `match_value` does.
        """
        both = list(self._newest)
        both[side] = value
        header = self._match_headers.get(b"".join([one[:HEADER_SIZE] for one in both]))
        if header is None:
            raise _not_configured(*both)
        return alone(header, start, end, side, self._marks[side] + value[HEADER_SIZE:])

    def match_schema(self) -> dict[str, Any]:
        """The schema of matches of newly written records."""
        return self._match_schema

    def side_schema(self, side: Side) -> Json:
        """The schema of newly written records of a side."""
        return self._side_schemas[side]

    def match_columns(self) -> list[tuple[str, Any]]:
        """The fields of both sides, each with its side's name before it."""
        return columns_of(self._match_schema)

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
        return header + encode_body(schema, record)


def programs_of(layouts: Mapping[bytes, Layout]) -> tuple[Program, ...]:
    """The programs of those schemas that have one; `layouts` are by header."""
    return tuple(
        layout.program._replace(header=header)
        for header, layout in layouts.items()
        if layout.program is not None
    )


def alone(header: bytes, start: int, end: int, side: int, body: bytes) -> bytes:
    """A match record whose one side is this, its union's mark included, and the other null."""
    sides = [ABSENT, ABSENT]
    sides[side] = body
    return b"".join((header, encode_times(start, end), *sides))


def marks_of(join: JoinType) -> list[bytes]:
    """What stands before the body of each side in a match: nothing where it cannot be missing."""
    return [PRESENT if optional else b"" for optional in join.optional]


def _not_configured(left: bytes, right: bytes) -> UnknownSchema:
    names = [value[len(MARKER) : HEADER_SIZE].hex() for value in (left, right)]
    return UnknownSchema(
        f"stored rows were written with the schemas {names[0]} (left) and {names[1]} (right), but "
        f"one of them is not configured"
    )


def decode_body(schema: Json, value: bytes, header_size: int) -> dict[str, Any]:
    """The record behind a header, of a schema as `parsed_schema` leaves it. Raises Malformed."""
    try:
        record: Any = fastavro.schemaless_reader(BytesIO(value[header_size:]), schema, None)
    except Exception as error:  # Whatever it raises is about these bytes.
        raise Malformed(f"{type(error).__name__}: {error}") from error
    assert isinstance(record, dict)
    return record


def encode_body(schema: Json, record: dict[str, Any]) -> bytes:
    """The record in a schema as `parsed_schema` leaves it. Raises ValueError where it is none."""
    body = BytesIO()
    try:
        fastavro.schemaless_writer(body, schema, record)
    except Exception as error:  # Whatever it raises is about this record.
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return body.getvalue()


def _read(value: bytes, readers: Mapping[bytes, Json]) -> dict[str, Any]:
    schema = readers.get(value[:HEADER_SIZE])
    if schema is None:
        raise UnknownSchema(_no_layout(value, readers))
    return decode_body(schema, value, HEADER_SIZE)


def _no_layout(value: bytes, known: Iterable[bytes]) -> str:
    if len(value) < HEADER_SIZE or not value.startswith(MARKER):
        return (
            f"not in Avro's single-object encoding: begins with {value[:HEADER_SIZE].hex(' ')!r}, "
            f"not with c3 01 and a fingerprint"
        )
    names = " or ".join(header[2:].hex() for header in known)
    return f"written with the schema of fingerprint {value[2:HEADER_SIZE].hex()}, not {names}"


def _layouts(side: Side, schemas: Sequence[Json], fields: Fields, unit: str) -> dict[bytes, Layout]:
    """Header -> layout, of every schema of a side."""
    layouts: dict[bytes, Layout] = {}
    for schema in schemas:
        try:
            layout = Layout(schema, fields, unit, HEADER_SIZE)
        except ValueError as error:
            raise ValueError(f"{side.name.lower()}.schema: {error}") from error
        layouts[MARKER + fingerprint(schema)] = layout
    return layouts
