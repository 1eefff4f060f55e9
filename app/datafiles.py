"""Rows of CSV, JSON lines and Parquet files, one after the other, with their place in the file.

Invariant: a file is read as a stream, whatever its size, and integers arrive as they are written.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FIELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest field of a CSV file; larger ones are a missing quote, as a rule."""
ROWS_PER_BATCH: Final = 10_000
STANDARD_INPUT: Final = Path("-")
_SUFFIXES: Final[Mapping[str, str]] = {
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Blank(str):
    """The empty field of a CSV file: an empty text, or nothing where a field may be nothing."""

    __slots__ = ()


BLANK: Final = Blank()


class Row(NamedTuple):
    """A row and where it stands: its line in a text file, its number in a Parquet file, from 1."""

    place: int
    values: Mapping[str, Any]


class DataFile:
    """An open data file. `total` and `done` are for a progress bar: bytes, or rows of Parquet."""

    def __init__(self, path: Path, form: str, stream: BinaryIO) -> None:
        self.path = path
        self.form = form
        self._stream = stream
        self.done = 0
        self.total: int | None = None
        if path != STANDARD_INPUT:
            self.total = path.stat().st_size

    def rows(self) -> Iterator[Row]:
        """All rows. Raises UsageError that names file and line."""
        readers: Mapping[str, Callable[[], Iterator[Row]]] = {
            "csv": self._csv,
            "jsonl": self._json_lines,
            "parquet": self._parquet,
        }
        return readers[self.form]()

    def wrong(self, place: int, what: str) -> UsageError:
        """An error at a place of this file."""
        return UsageError(f"{self.path}:{place}: {what}")

    def _csv(self) -> Iterator[Row]:
        csv.field_size_limit(FIELD_BYTES_MAX)
        text = io.TextIOWrapper(
            self._stream, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        reader = csv.reader(map(_sound, text), strict=True)
        try:
            header = next(reader, None)
            if header is None:
                raise self.wrong(1, "the file is empty; its first line must name the columns")
            repeated = {name for name in header if header.count(name) > 1}
            if repeated:
                raise self.wrong(1, f"column {min(repeated)} is there twice")
            for fields in reader:
                self._advance()
                if len(fields) == len(header):
                    cells = (field or BLANK for field in fields)
                    yield Row(reader.line_num, dict(zip(header, cells, strict=True)))
                elif fields:
                    raise self.wrong(
                        reader.line_num,
                        f"has {len(fields)} columns, but the first line has {len(header)}",
                    )
        except csv.Error as error:
            raise self.wrong(reader.line_num, f"is not valid CSV: {error}") from None
        except UnicodeDecodeError as error:
            raise self.wrong(reader.line_num + 1, f"is not UTF-8: {error.reason}") from None
        finally:
            # The stream is not ours to close, which the wrapper would do when it is collected.
            text.detach()

    def _json_lines(self) -> Iterator[Row]:
        for place, line in enumerate(self._stream, 1):
            self.done += len(line)
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except UnicodeDecodeError as error:
                raise self.wrong(place, f"is not UTF-8: {error.reason}") from None
            except ValueError as error:
                reason = getattr(error, "msg", str(error))
                raise self.wrong(place, f"is not valid JSON: {reason}") from None
            if not isinstance(values, dict):
                raise self.wrong(place, 'must be an object, such as {"id": "a", ...}')
            yield Row(place, values)

    def _parquet(self) -> Iterator[Row]:
        # Half a second of imports, which the other formats need not wait for.
        from app.arrow import ArrowException, ParquetFile  # noqa: PLC0415

        if self.path == STANDARD_INPUT:
            raise UsageError("Parquet cannot be read from standard input: give the file's name")
        try:
            file = ParquetFile(self._stream)
            self.total = file.metadata.num_rows
            for batch in file.iter_batches(ROWS_PER_BATCH):
                for values in batch.to_pylist():
                    self.done += 1
                    yield Row(self.done, values)
        except (ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{self.path}: cannot be read as Parquet: {reason}") from None

    def _advance(self) -> None:
        if self.total is not None:
            self.done = self._stream.tell()


def _sound(line: str) -> str:
    """A line as it is. Raises UnicodeDecodeError where its bytes are not UTF-8.

    The wrapper decodes many lines at once and would not know which one it is; it lets surrogates
    stand for such bytes instead, which UTF-8 itself has no form for.
    """
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8")


def named_format(path: Path) -> str | None:
    """The format that a file's name says, None where it says none."""
    return _SUFFIXES.get(path.suffix.lower())


def format_of(path: Path, form: str | None) -> str:
    """The format that the file's name says, or else the one that was asked for.

    One `--format` may be given with two files, of which only one needs it. Raises UsageError where
    neither says it.
    """
    found = named_format(path) or form
    if found is None:
        raise UsageError(f"{path}: say its format with --format csv, jsonl or parquet")
    return found


@contextmanager
def open_data(path: Path, form: str | None) -> Iterator[DataFile]:
    """Open a data file, or standard input for `-`. Raises UsageError where it cannot be."""
    form = format_of(path, form)
    if path == STANDARD_INPUT:
        yield DataFile(path, form, sys.stdin.buffer)
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    with stream:
        yield DataFile(path, form, stream)
