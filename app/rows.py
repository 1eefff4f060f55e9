"""Matches as rows: a table for people, JSON lines, CSV or Parquet for programs.

Invariant: integers are written with every digit and bytes without loss (in JSON and CSV as
characters of code 0 to 255, as in Avro's JSON encoding; in Parquet as they are).
"""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TextIO

from app.units import TICKS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from app.config import Config

SIDES: Final = ("left", "right")
ROWS_PER_GROUP: Final = 50_000
CHANGE: Final = "change"
_NOTHING: Final = "-"
_LENGTHS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# JSON allows them as they are, but some programs take them for the end of a line, and terminals
# for commands.
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}

Row = dict[str, Any]
"""id, start, end, left, right; the last two are whole input records, or None where an outer join
found none. `change` when following."""


class Sink(Protocol):
    """Takes rows one after the other."""

    def write(self, row: Row) -> None:
        """Take one row."""

    def close(self) -> None:
        """Write what is still held back."""


class JsonLines:
    """One JSON object a line, records nested."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        """Write a line."""
        self._stream.write(f"{_text(row)}\n")

    def close(self) -> None:
        """Nothing is held back."""


class Csv:
    """A line of column names, then one line a row; nested values as JSON."""

    def __init__(self, stream: TextIO, columns: Sequence[str]) -> None:
        self._columns = columns
        self._writer = csv.writer(stream, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, row: Row) -> None:
        """Write a line."""
        flat = {**row, **flatten(row)}
        self._writer.writerow([_cell(flat.get(column)) for column in self._columns])

    def close(self) -> None:
        """Nothing is held back."""


class Parquet:
    """A file with a typed column for each field."""

    def __init__(self, target: Path | BinaryIO, columns: Sequence[tuple[str, Any]]) -> None:
        # Half a second of imports, which the other formats need not wait for.
        from app.arrow import ParquetWriter  # noqa: PLC0415

        self._writer = ParquetWriter(target, columns, _text)
        self._rows: list[Row] = []

    def write(self, row: Row) -> None:
        """Hold the row until a row group is full."""
        self._rows.append({**row, **flatten(row)})
        if len(self._rows) >= ROWS_PER_GROUP:
            self._writer.write(self._rows)
            self._rows = []

    def close(self) -> None:
        """Write the last row group and the file's end."""
        if self._rows:
            self._writer.write(self._rows)
        self._writer.close()


def flatten(row: Row) -> Row:
    """A row with each side's fields beside each other, by prefixed names."""
    flat: Row = {}
    for name, value in row.items():
        if name in SIDES:
            if value is not None:
                flat |= {f"{name}_{inner}": inner_value for inner, inner_value in value.items()}
        else:
            flat[name] = value
    return flat


def plain(value: object) -> Any:  # noqa: ANN401 (JSON)
    """A value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, dict | list) else plain(value)


def _text(value: object) -> str:
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.translate(_ESCAPES)


class Words:
    """What a table says of a match: its overlap as times, each side by its id and its data."""

    def __init__(self, config: Config) -> None:
        self._unit = config.unit
        self._fields = {
            "left": config.left.fields,
            "right": config.right.fields,
        }

    def cells(self, row: Row) -> tuple[str, str, str]:
        """Overlap, left, right."""
        overlap = f"{moment(row['start'], self._unit)} - {moment(row['end'], self._unit)}"
        left, right = (
            _NOTHING if row[side] is None else self.record(side, row[side]) for side in SIDES
        )
        return overlap, left, right

    def record(self, side: str, record: Mapping[str, Any]) -> str:
        """One side's id and data, without what the join made of it."""
        names = self._fields[side]
        known = {names.id, names.ts, names.start, names.end, names.kind}
        data = [
            f"{name}={_short(value)}"
            for name, value in record.items()
            if name not in known and value is not None
        ]
        return printable(" ".join([str(record.get(names.id, "?")), *data]))


def counted(count: int, noun: str) -> str:
    """So many of them, for people."""
    plural = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{plural}"


def moment(ticks: int, unit: str) -> str:
    """An event's time in UTC, or as it is where the unit or the calendar has no word for it."""
    per_ms = TICKS_PER_MS.get(unit)
    if per_ms is None:
        return str(ticks)
    seconds, rest = divmod(ticks, 1000 * per_ms)
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return str(ticks)
    text = f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{rest:0{len(str(1000 * per_ms)) - 1}d}" if rest else text


def duration(ticks: int, unit: str) -> str:
    """A length of time in whole units, the largest first; a plain number where the unit is none."""
    per_ms = TICKS_PER_MS.get(unit)
    if per_ms is None:
        return str(ticks)
    parts = []
    rest = abs(ticks)
    for name, ms in _LENGTHS:
        count, rest = divmod(rest, ms * per_ms)
        if count:
            parts.append(f"{count} {name}")
    if rest or not parts:
        parts.append(f"{rest} {unit}")
    return ("-" if ticks < 0 else "") + " ".join(parts)


def printable(text: str) -> str:
    """A text without characters that would move a terminal's cursor or change its colours."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _short(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
