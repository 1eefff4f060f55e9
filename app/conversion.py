"""Values of data files turned into the values of an Avro schema.

Invariant: exact or refused. An integer never passes through a float, and a text that is not wholly
what the schema says is an error that names the field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from app.datafiles import Blank
from schemas.records import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Schema = str | list[Any] | Mapping[str, Any]
    Convert = Callable[[object], object]

_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,30}")
_INT32: Final = 2**31
_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "false": False}
_BYTE_CODE_MAX: Final = 0xFF


class Unfit(ValueError):
    """A value that the schema has no place for; the text names the field."""


class RecordConversion:
    """Turns a row (column -> value) into a record of the schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """The schema of a record, with its named types resolved or defined on first use."""
        self._named: dict[str, Mapping[str, Any]] = {}
        self._fields = self._converters(schema)
        self._defaults = {
            field["name"]: field["default"] for field in schema["fields"] if "default" in field
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are taken, in the schema's order."""
        return tuple(self._fields)

    def missing(self, columns: set[str]) -> list[str]:
        """The columns without which no row can be a record."""
        return [name for name in self._fields if name not in columns and name not in self._defaults]

    def record(self, row: Mapping[str, object]) -> dict[str, object]:
        """One record; columns that are not fields are left out. Raises Unfit."""
        record: dict[str, object] = {}
        name = ""
        try:
            for name, convert in self._fields.items():
                value = row.get(name)
                # A default stands for what a file has no value for, too.
                if (value is None or isinstance(value, Blank)) and (
                    name not in row or self._defaults.get(name) is not None
                ):
                    value = self._default(name)
                record[name] = convert(value)
        except Unfit as error:
            raise _inside(name, error) from None
        return record

    def _default(self, name: str) -> object:
        if name not in self._defaults:
            raise Unfit("is missing")
        return self._defaults[name]

    def _converters(self, record: Mapping[str, Any]) -> dict[str, Convert]:
        return {field["name"]: self._converter(field["type"]) for field in record["fields"]}

    def _converter_of_named(self, name: str) -> Convert:
        def convert(value: object) -> object:
            # Looked up when used: a type may hold values of its own kind.
            return self._converter(self._named[name])(value)

        return convert

    def _converter(self, schema: Schema) -> Convert:  # noqa: PLR0911 (a table of types)
        if isinstance(schema, list):
            return _one_of([(_is_null(branch), self._converter(branch)) for branch in schema])
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            return self._converter_of_named(schema)
        for name in (schema.get("name"), _full_name(schema)):
            if name:
                self._named[name] = schema
        match schema["type"]:
            case "record" | "error":
                return _record_of(self._converters(schema))
            case "enum":
                return _symbol_of(schema["symbols"])
            case "array":
                return _list_of(self._converter(schema["items"]))
            case "map":
                return _map_of(self._converter(schema["values"]))
            case "fixed":
                return _fixed_of(schema["size"])
            case inner:
                return self._converter(inner)


def _full_name(schema: Mapping[str, Any]) -> str | None:
    name, space = schema.get("name"), schema.get("namespace")
    return f"{space}.{name}" if name and space and "." not in name else name


def _is_null(schema: Schema) -> bool:
    return schema == "null"


def _within(name: str, convert: Convert, value: object) -> object:
    try:
        return convert(value)
    except Unfit as error:
        raise _inside(name, error) from None


def _inside(name: str, error: Unfit) -> Unfit:
    """The error with the name of what holds the value before it."""
    text = str(error)
    return Unfit(f"{name}{text}" if text.startswith((".", "[")) else f"{name} {text}")


def _null(value: object) -> None:
    if value is not None and not isinstance(value, Blank):
        raise Unfit(f"must be empty, but is {_shown(value)}")


def _boolean(value: object) -> bool:
    if isinstance(value, str) and value.lower() in _TRUTHS:
        return _TRUTHS[value.lower()]
    if not isinstance(value, bool):
        raise Unfit(f"must be true or false, but is {_shown(value)}")
    return value


def _integer(low: int, high: int, bits: int) -> Convert:
    def convert(value: object) -> int:
        number = value
        # Not `int` alone: it also takes "1_000", " 7" and digits of other scripts.
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise Unfit(f"must be an integer, but is {_shown(value)}")
        if not low <= number <= high:
            raise Unfit(f"must be an integer of {bits} bits, but is {number}")
        return number

    return convert


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit(f"must be a number, but is {_shown(value)}")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise Unfit(f"must be a number, but is {_shown(value)}") from None


def _string(value: object) -> str:
    # An id that a file has as an integer is the same id; a float would have to be rounded.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Unfit(f"must be a text, but is {_shown(value)}")
    return value


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Unfit(f"must be a text or bytes, but is {_shown(value)}")
    odd = next((character for character in value if ord(character) > _BYTE_CODE_MAX), None)
    if odd is not None:
        raise Unfit(
            f"are bytes, written as characters of code 0 to 255 as in Avro's JSON, but has {odd!r}"
        )
    return value.encode("latin-1")


def _symbol_of(symbols: list[str]) -> Convert:
    def convert(value: object) -> str:
        if not isinstance(value, str) or value not in symbols:
            raise Unfit(f"must be one of {', '.join(symbols)}, but is {_shown(value)}")
        return value

    return convert


def _fixed_of(size: int) -> Convert:
    def convert(value: object) -> bytes:
        data = _bytes(value)
        if len(data) != size:
            raise Unfit(f"must have {size} bytes, but has {len(data)}")
        return data

    return convert


def _list_of(convert_item: Convert) -> Convert:
    def convert(value: object) -> list[object]:
        if not isinstance(value, list):
            raise Unfit(f"must be a list, but is {_shown(value)}")
        return [_within(f"[{place}]", convert_item, item) for place, item in enumerate(value)]

    return convert


def _map_of(convert_value: Convert) -> Convert:
    def convert(value: object) -> dict[str, object]:
        # Parquet's maps arrive as lists of pairs.
        pairs = dict(value) if isinstance(value, list) else value
        if not isinstance(pairs, dict):
            raise Unfit(f"must be a map, but is {_shown(value)}")
        return {name: _within(f".{name}", convert_value, item) for name, item in pairs.items()}

    return convert


def _record_of(fields: Mapping[str, Convert]) -> Convert:
    def convert(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise Unfit(f"must be a record, but is {_shown(value)}")
        return {
            name: _within(f".{name}", convert_field, value.get(name))
            for name, convert_field in fields.items()
        }

    return convert


def _one_of(branches: list[tuple[bool, Convert]]) -> Convert:
    """The first branch of a union that fits; null first where there is nothing."""
    nullable = any(is_null for is_null, _ in branches)
    others = [convert for is_null, convert in branches if not is_null]

    def convert(value: object) -> object:
        if nullable and (value is None or isinstance(value, Blank)):
            return None
        failure = Unfit("must not be empty")
        for convert_branch in others:
            try:
                return convert_branch(value)
            except Unfit as error:
                failure = error
        raise failure

    return convert


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


_SHOWN_MAX: Final = 60
_PRIMITIVES: Final[Mapping[str, Convert]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(-_INT32, _INT32 - 1, 32),
    "long": _integer(INT64_MIN, INT64_MAX, 64),
    "float": _real,
    "double": _real,
    "string": _string,
    "bytes": _bytes,
}
