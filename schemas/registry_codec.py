"""Avro in the wire format of Confluent's Schema Registry: 00, a 4-byte big-endian id, the body.

Which schema an id stands for, and which id a match schema has, is known to the registry only. The
codec asks by raising Unresolved, and is told with `learn`. Ids never change their meaning, so it
asks once. Rows in a job's state keep the ids of earlier writers; those are asked for like any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas.avro_codec import alone, decode_body, encode_body, marks_of, programs_of
from schemas.codec import UnknownSchema, Unresolved
from schemas.concatenation import Concatenation
from schemas.extractor import decoded
from schemas.layout import Layout, parsed_schema
from schemas.match_schema import Json, columns_of, match_schema, without_logical_types
from schemas.records import Fault, JoinType, Parts, Reason, Side
from schemas.varint import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from native.interface import Program
    from schemas.fields import Fields

MAGIC: Final = b"\x00"
HEADER_SIZE: Final = 5
ID_MAX: Final = 2**31 - 1
UNKNOWN_MAX: Final = 100
"""Ids that are asked for at once. The first is among them, so every answer brings a batch on."""
ABSENT_MAX: Final = 10_000
"""Ids that nobody has registered, and are not asked for again: nonsense may have any number."""


class Absent(NamedTuple):
    """There is no schema with that id; `why` completes the sentence "this record is ..."."""

    why: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What the registry said.

    `schemas`: id -> schema, or that there is none. `pairs`: ids of two writer schemas (left, right)
    -> the id of their match schema. `alone`: (side, id of its writer schema) -> that of the output
    schema of such a row without a match. `newest`: side -> the schema of its new records.
    `writers`: side -> the id of that schema, and the schema.
    """

    schemas: Mapping[int, Json | Absent] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    newest: Mapping[Side, Json] = field(default_factory=dict)
    writers: Mapping[Side, tuple[int, Json]] = field(default_factory=dict)
    alone: Mapping[tuple[Side, int], int] = field(default_factory=dict)


class RegistryCodec:
    """A `schemas.codec.Codec`.

    `fields`: per side what the join reads. `unit`: the job's. `join`: what the output has besides
    matches.
    """

    def __init__(
        self,
        fields: tuple[Fields, Fields],
        unit: str = "ms",
        join: JoinType = JoinType.INNER,
    ) -> None:
        self._join = join
        self._marks = marks_of(join)
        self._fields = fields
        self._unit = unit
        self._schemas: dict[int, Json] = {}
        self._readers: dict[int, Json] = {}
        self._absent: dict[int, str] = {}
        self._layouts: list[dict[bytes, Layout]] = [{}, {}]
        self._extracts: list[dict[bytes, Any]] = [{}, {}]
        self._programs: list[tuple[Program, ...]] = [(), ()]
        self._unfit: list[dict[bytes, str]] = [{}, {}]
        self._match_headers: dict[bytes, bytes] = {}
        self._concatenation = Concatenation(
            self._match_headers, HEADER_SIZE, self._marks, self._unknown
        )
        self._alone_headers: list[dict[bytes, bytes]] = [{}, {}]
        self._newest: dict[Side, Json] = {}
        self._writers: dict[Side, tuple[bytes, Json]] = {}

    def learn(self, answers: Answers) -> None:
        """Take what the registry said."""
        for schema_id, schema in answers.schemas.items():
            if schema_id in self._schemas:
                continue
            if isinstance(schema, Absent):
                if len(self._absent) >= ABSENT_MAX:
                    self._absent.clear()
                self._absent[schema_id] = schema.why
            else:
                self._learn_schema(schema_id, schema)
        for (left, right), match in answers.pairs.items():
            self._match_headers[_header(left) + _header(right)] = _header(match)
        for (side, schema_id), match in answers.alone.items():
            self._alone_headers[side][_header(schema_id)] = _header(match)
        self._newest |= answers.newest
        for side, (schema_id, schema) in answers.writers.items():
            self._writers[side] = _header(schema_id), parsed_schema(without_logical_types(schema))

    def forget_absent(self) -> None:
        """Ask again for ids that nobody had registered: a registry may be behind another one."""
        self._absent.clear()

    def _learn_schema(self, schema_id: int, schema: Json) -> None:
        self._schemas[schema_id] = schema
        self._absent.pop(schema_id, None)
        header = _header(schema_id)
        for side in Side:
            try:
                layout = Layout(schema, self._fields[side], self._unit, HEADER_SIZE)
            except ValueError as error:
                self._unfit[side][header] = f"of schema {schema_id}, which does not fit: {error}"
            else:
                self._layouts[side][header] = layout
                self._extracts[side][header] = layout.extract
                self._programs[side] = programs_of(self._layouts[side])

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """The parts of these Kafka values in their order; a Fault where there are none.

        Raises Unresolved with the first UNKNOWN_MAX ids in them that are not known.
        """
        unknown: dict[int, None] = {}

        def general(value: bytes | None) -> Parts | Fault | int:
            parts = self._decode(side, value)
            if isinstance(parts, int):
                unknown[parts] = None
            return parts

        found = decoded(values, self._extracts[side], HEADER_SIZE, self._programs[side], general)
        if not unknown:
            return found  # type: ignore[return-value] # Ids are in it only if some are unknown.
        unresolved = Unresolved(schemas=islice(unknown, UNKNOWN_MAX))
        unresolved.decoded = list(takewhile(lambda parts: not isinstance(parts, int), found))  # type: ignore[arg-type]
        raise unresolved

    def _decode(self, side: Side, value: bytes | None) -> Parts | Fault | int:
        """What an extractor returns, the general way; or what is wrong, or an unknown id."""
        if value is None:
            return Fault(Reason.NULL_VALUE, "a record without a value names no row")
        header = value[:HEADER_SIZE]
        layout = self._layouts[side].get(header)
        try:
            if layout is not None:
                return layout.read(value)
            schema_id = _id_in(value)
            why = self._unfit[side].get(header) or self._absent.get(schema_id)
        except Malformed as error:
            return Fault(Reason.UNDECODABLE, str(error))
        return schema_id if why is None else Fault(Reason.UNDECODABLE, why)

    @property
    def match_value(self) -> Callable[[int, int, bytes, bytes], bytes]:
        """As `Codec.match_value`: raises Unresolved where their match schema has no known id.

        Raises UnknownSchema if one was not written with a schema of the registry.
        """
        return self._concatenation

    def _unknown(self, left: bytes, right: bytes) -> Exception:
        left_id, right_id = self._ids_in(left, right)
        return Unresolved(pairs=[(left_id, right_id)])

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """The output record of an input that nothing matches: the other side is null.

        Its schema is that of matches with the other side's newest. Raises as `match_value` does.
        """
        header = self._alone_headers[side].get(value[:HEADER_SIZE])
        if header is None:
            (schema_id,) = self._ids_in(value)
            raise Unresolved(alone=[(Side(side), schema_id)])
        return alone(header, start, end, side, self._marks[side] + value[HEADER_SIZE:])

    def _ids_in(self, *values: bytes) -> list[int]:
        """The ids in these headers. Raises UnknownSchema for what is known to be none."""
        try:
            ids = [_id_in(value) for value in values]
        except Malformed as error:
            raise UnknownSchema(f"stored rows were written in another format: {error}") from None
        for schema_id in ids:
            if schema_id in self._absent:
                raise UnknownSchema(f"stored rows are {self._absent[schema_id]}")
        return ids

    def match_schema(self) -> dict[str, Any]:
        """The schema of matches of newly written records."""
        return match_schema(self.side_schema(Side.LEFT), self.side_schema(Side.RIGHT), self._join)

    def side_schema(self, side: Side) -> Json:
        """The schema of newly written records of a side."""
        if side not in self._newest:
            raise Unresolved(newest={side})
        return self._newest[side]

    def match_columns(self) -> list[tuple[str, Any]]:
        """The fields of both sides in their newest schemas, each with its side's name before it."""
        return columns_of(self.match_schema())

    def decode_match(self, value: bytes) -> dict[str, Any]:
        """A match as a dictionary: start, end, and the two inputs as left and right.

        Values of logical types are the plain numbers, strings or bytes that carry them. Raises
        UnknownSchema for a match of other schemas, Malformed for anything else that is no match.
        """
        return self.decode_event(value)

    def decode_event(self, value: bytes) -> dict[str, Any]:
        """An input of either side as a dictionary of all its fields; raises as `decode_match`."""
        try:
            schema_id = _id_in(value)
        except Malformed as error:
            raise UnknownSchema(str(error)) from None
        if schema_id not in self._readers:
            if schema_id in self._absent:
                raise UnknownSchema(self._absent[schema_id])
            if schema_id not in self._schemas:
                raise Unresolved(schemas=[schema_id])
            schema = without_logical_types(self._schemas[schema_id])
            self._readers[schema_id] = parsed_schema(schema)
        return decode_body(self._readers[schema_id], value, HEADER_SIZE)

    def encode_event(self, side: Side, record: dict[str, Any]) -> bytes:
        """A side's record in its newest schema. Raises ValueError for one that does not fit it."""
        if side not in self._writers:
            raise Unresolved(writers=[side])
        header, schema = self._writers[side]
        return header + encode_body(schema, record)


def _header(schema_id: int) -> bytes:
    return MAGIC + schema_id.to_bytes(HEADER_SIZE - 1, "big")


def _id_in(value: bytes) -> int:
    """The id in a value's header. Raises Malformed."""
    if len(value) < HEADER_SIZE or not value.startswith(MAGIC):
        raise Malformed(
            f"not in a Schema Registry's wire format: begins with "
            f"{value[:HEADER_SIZE].hex(' ')!r}, not with 00 and an id"
        )
    schema_id = int.from_bytes(value[1:HEADER_SIZE], "big")
    if schema_id > ID_MAX:
        raise Malformed(f"written with schema {schema_id}, which is no id of a Schema Registry")
    return schema_id
