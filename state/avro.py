"""Avro records in single-object encoding: C3 01, the schema's fingerprint, the body.

Invariant: a record stays readable for as long as its schema is among those given here, whatever
the newest one is.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from fastavro import schemaless_reader, schemaless_writer
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAGIC: Final = b"\xc3\x01"
_BODY_AT: Final = len(_MAGIC) + 8


class Unreadable(ValueError):
    """Bytes that are no record of a schema known here: damaged, or written by a newer version."""


class Format:
    """An Avro record type with all the schemas it was ever written with, the newest first."""

    def __init__(self, schemas: Sequence[dict[str, Any]]) -> None:
        self._schema = parse_schema(schemas[0])
        self._writers = {_fingerprint(schema): parse_schema(schema) for schema in schemas}
        self._head = _MAGIC + _fingerprint(schemas[0])

    def encode(self, record: Mapping[str, object]) -> bytes:
        """The framed record. Raises what fastavro raises for a record that is not of the schema."""
        body = BytesIO()
        body.write(self._head)
        schemaless_writer(body, self._schema, record)
        return body.getvalue()

    def decode(self, value: bytes) -> dict[str, Any]:
        """The record as the newest schema has it. Raises Unreadable."""
        if value[: len(_MAGIC)] != _MAGIC:
            raise Unreadable(f"not in Avro single-object encoding: begins with {value[:2].hex()}")
        writer = self._writers.get(value[len(_MAGIC) : _BODY_AT])
        if writer is None:
            raise Unreadable(
                f"schema {value[len(_MAGIC) : _BODY_AT].hex()} is unknown here: written by a newer "
                f"version?"
            )
        body = BytesIO(value)
        body.seek(_BODY_AT)
        reader = None if value.startswith(self._head) else self._schema
        try:
            record = schemaless_reader(body, writer, reader)
        except (ArithmeticError, EOFError, LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"damaged: {type(error).__name__} {error}") from error
        if body.tell() != len(value) or not isinstance(record, dict):
            raise Unreadable(f"damaged: {len(value) - body.tell()} bytes too many")
        return record


def _fingerprint(schema: Mapping[str, Any]) -> bytes:
    canonical = to_parsing_canonical_form(dict(schema))
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
