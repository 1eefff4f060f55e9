"""Rows of data files turned into JSON records.

Without a schema every column is a field. Invariant: exact or refused: what JSON has no value for is
an error that names the column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.conversion import Unfit
from app.datafiles import Blank
from schemas.times import RFC3339, shown, whole_number
from schemas.varint import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.fields import Fields

_VALUES: Final = (str, int, float, bool, type(None))


class JsonRows:
    """Turns a row (column -> value) into a record of a side."""

    def __init__(self, fields: Fields, key: str) -> None:
        """`key` is the column of the join key, which is no field unless the join reads it."""
        times = (fields.ts, fields.start, fields.end)
        units = dict(zip(times, fields.units, strict=True))
        self._numbers = {name for name, unit in units.items() if unit != RFC3339}
        read = {fields.id, *times, fields.kind}
        self._left_out = {key} - read

    def record(self, row: Mapping[str, object]) -> dict[str, Any]:
        """One record; empty cells of a CSV file are no fields. Raises Unfit."""
        return {
            name: self._value(name, value)
            for name, value in row.items()
            if name not in self._left_out and not isinstance(value, Blank)
        }

    def _value(self, name: str, value: object) -> object:
        if name in self._numbers and isinstance(value, str):
            # A file without types has its numbers as texts.
            try:
                return whole_number(value)
            except Malformed:
                return value  # Its unit may allow what it is; the codec decides.
        return _checked(name, value)


def _checked(name: str, value: object) -> object:
    if isinstance(value, list):
        return [_checked(name, item) for item in value]
    if isinstance(value, dict):
        return {str(inner): _checked(f"{name}.{inner}", item) for inner, item in value.items()}
    if not isinstance(value, _VALUES):
        raise Unfit(f"{name} is {shown(value)}, for which JSON has no value")
    return value
