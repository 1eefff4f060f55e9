"""JSON: objects in UTF-8 in, objects out.

A match is `{"start":S,"end":E,"left":L,"right":R}`, L and R being the bytes of the inputs as they
came, so that every number in them keeps every digit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from schemas.codec import UnknownSchema
from schemas.json_reader import DOUBTS, JsonReader, object_of
from schemas.match_schema import MATCH, SIDES
from schemas.records import Fault, JoinType, Parts, Reason, Side
from schemas.times import RFC3339
from schemas.varint import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.fields import Fields

JSON_COLUMN: Final = "json"
"""The type of a column that has JSON texts; none of Avro's."""

_MATCH: Final = b'{"start":%d,"end":%d,"left":%b,"right":%b}'
_ABSENT: Final = b"null"
_BEGINNINGS: Final = frozenset(b"{ \t\r\n")
"""First bytes of an object; no other encoding of ours begins with one."""


class JsonCodec:
    """A `schemas.codec.Codec`; it never has a question to ask.

    `fields`: per side what the join reads. `unit`: the job's. `join`: what the output has besides
    matches. Raises ValueError, naming the side, for a unit that does not fit.
    """

    def __init__(
        self,
        fields: tuple[Fields, Fields],
        unit: str = "ms",
        join: JoinType = JoinType.INNER,
    ) -> None:
        self._join = join
        self._fields = fields
        self._readers = [JsonReader(one, unit) for one in fields]

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """The parts of these Kafka values in their order; a Fault where there are none."""
        reader = self._readers[side]
        extract = reader.extract
        found: list[Parts | Fault] = []
        for value in values:
            if value is None:
                found.append(Fault(Reason.NULL_VALUE, "a record without a value names no row"))
                continue
            try:
                found.append(extract(value))
            except DOUBTS:
                found.append(_decode(reader, value))
        return found

    def match_value(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """The match of these two inputs (Kafka values as they came), overlapping from start to end.

        Raises UnknownSchema if one is no JSON object.
        """
        if left[0] not in _BEGINNINGS or right[0] not in _BEGINNINGS:
            raise _another_format()
        return _MATCH % (start, end, left, right)

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """The output record of an input that nothing matches: the other side is null.

        Raises as `match_value` does.
        """
        if value[0] not in _BEGINNINGS:
            raise _another_format()
        sides = [_ABSENT, _ABSENT]
        sides[side] = value
        return _MATCH % (start, end, *sides)

    def match_schema(self) -> dict[str, Any]:
        """The JSON Schema of a match."""
        moment = {"type": "integer", "description": "of the overlap, in the job's unit"}
        sides = {
            name: {"anyOf": [self.side_schema(side), {"type": "null"}]}
            if optional
            else self.side_schema(side)
            for name, side, optional in zip(SIDES, Side, self._join.optional, strict=True)
        }
        return {
            "title": MATCH,
            "type": "object",
            "properties": {"start": moment, "end": moment, **sides},
            "required": ["start", "end", *SIDES],
        }

    def side_schema(self, side: Side) -> dict[str, Any]:
        """The JSON Schema of a side's records: what the join reads, and whatever else they have."""
        fields = self._fields[side]
        properties: dict[str, Any] = {fields.id: {"type": ["string", "integer"]}}
        for name, unit in zip((fields.ts, fields.start, fields.end), fields.units, strict=True):
            properties[name] = (
                {"type": "string", "format": "date-time"}
                if unit == RFC3339
                else {"type": ["number", "string"]}
            )
        required = list(properties)
        if fields.kind is not None:
            properties[fields.kind] = {"enum": list(fields.kinds)}
            required += [] if fields.kind_may_miss else [fields.kind]
        return {"type": "object", "properties": properties, "required": required}

    def match_columns(self) -> list[tuple[str, Any]]:
        """Both records as JSON texts: nobody knows their fields beforehand."""
        times = [(name, "long") for name in ("start", "end")]
        return [("id", "string"), *times, *((name, JSON_COLUMN) for name in SIDES)]

    def decode_match(self, value: bytes) -> dict[str, Any]:
        """A match as a dictionary: start, end, and the two inputs as left and right.

        In an unmatched row of an outer join the other side is None. Raises UnknownSchema where it
        is in another format, Malformed where it is no match.
        """
        match = self.decode_event(value)
        if not match.keys() >= {"start", "end", *SIDES}:
            raise Malformed(f"not a match: it has {', '.join(match)}")
        return match

    def decode_event(self, value: bytes) -> dict[str, Any]:
        """An input of either side as a dictionary of all its fields; raises as `decode_match`."""
        if not value or value[0] not in _BEGINNINGS:
            raise UnknownSchema(f"not in JSON: begins with {value[:10].hex(' ')!r}")
        return object_of(value)

    def encode_event(self, side: Side, record: dict[str, Any]) -> bytes:
        """A side's record as JSON. Raises ValueError for one that is none of its events."""
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        value = text.encode()
        self._readers[side].read(value)
        return value


def _another_format() -> UnknownSchema:
    return UnknownSchema("stored rows were written in another format than JSON")


def _decode(reader: JsonReader, value: bytes) -> Parts | Fault:
    """What an extractor returns, the general way, or what is wrong."""
    try:
        return reader.read(value)
    except Malformed as error:
        return Fault(Reason.UNDECODABLE, str(error))
