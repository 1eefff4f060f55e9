"""The one importer of pyarrow, which ships no types of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ArrowException: type[Exception] = pa.ArrowException
ParquetFile: Any = pq.ParquetFile

_PRIMITIVES: Mapping[str, Any] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def table_of(columns: Mapping[str, tuple[str, Sequence[Any]]]) -> Any:  # noqa: ANN401 (untyped)
    """A table in memory: column name -> Avro primitive and values, None for nothing."""
    # A batch of large values has more bytes than 32 bits can count.
    types = {**_PRIMITIVES, "bytes": pa.large_binary()}
    return pa.table({name: pa.array(values, types[of]) for name, (of, values) in columns.items()})


class NoColumn(Exception):
    """An Avro type whose values no Arrow type holds: a union of several, or one of itself."""


class ParquetWriter:
    """Writes rows with the given columns (name, Avro type) to a Parquet file or a stream.

    A value that no column type holds is written as what `as_text` makes of it.
    """

    def __init__(
        self,
        target: Path | BinaryIO,
        columns: Sequence[tuple[str, Any]],
        as_text: Callable[[object], str],
    ) -> None:
        named: dict[str, Any] = {}
        self._as_text = as_text
        self._texts: list[str] = []
        fields = []
        for name, schema in columns:
            try:
                column = arrow_type(schema, named)
            except NoColumn:
                column = pa.string()
                self._texts.append(name)
            fields.append(pa.field(name, column))
        self._schema = pa.schema(fields)
        self._writer = pq.ParquetWriter(target, self._schema, compression="zstd")

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows as one row group; a row without a column has nothing there."""
        for name in self._texts:
            for row in rows:
                if row.get(name) is not None:
                    row[name] = self._as_text(row[name])
        self._writer.write_table(pa.Table.from_pylist(rows, schema=self._schema))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def arrow_type(schema: Any, named: dict[str, Any]) -> Any:  # noqa: ANN401 (both untyped)
    """The Arrow type that holds every value of an Avro type exactly.

    `named` collects the types that have a name, to be found where the name stands for them.
    Raises NoColumn where there is none.
    """
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise NoColumn
        return arrow_type(branches[0], named)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES and schema not in named:
            raise NoColumn
        return _PRIMITIVES.get(schema) or named[schema]
    match schema["type"]:
        case "record" | "error":
            fields = [
                (field["name"], arrow_type(field["type"], named)) for field in schema["fields"]
            ]
            found = pa.struct(fields)
        case "enum":
            found = pa.string()
        case "fixed":
            found = pa.binary(schema["size"])
        case "array":
            return pa.list_(arrow_type(schema["items"], named))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"], named))
        case inner:
            return arrow_type(inner, named)
    named[schema["name"]] = found
    return found
