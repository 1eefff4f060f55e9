"""The one importer of pyarrow, which ships no types of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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


class ParquetWriter:
    """Writes rows with the given columns (name, Avro type) to a Parquet file."""

    def __init__(self, path: Path, columns: Sequence[tuple[str, Any]]) -> None:
        named: dict[str, Any] = {}
        fields = [pa.field(name, arrow_type(schema, named)) for name, schema in columns]
        self._schema = pa.schema(fields)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Append rows as one row group."""
        self._writer.write_table(pa.Table.from_pylist(rows, schema=self._schema))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def arrow_type(schema: Any, named: dict[str, Any]) -> Any:  # noqa: ANN401
    """The Arrow type that holds every value of an Avro type exactly; `named` collects names."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        types = [arrow_type(branch, named) for branch in branches]
        # Values of a union of several types have no column of their own: they are told as text.
        return types[0] if len(types) == 1 else pa.string()
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else named.get(schema, pa.string())
    match schema["type"]:
        case "record" | "error":
            fields = [
                pa.field(field["name"], arrow_type(field["type"], named))
                for field in schema["fields"]
            ]
            found = pa.struct(fields)
        case "enum":
            found = pa.string()
        case "fixed":
            found = pa.binary(schema["size"])
        case "array":
            found = pa.list_(arrow_type(schema["items"], named))
        case "map":
            found = pa.map_(pa.string(), arrow_type(schema["values"], named))
        case inner:
            return arrow_type(inner, named)
    if "name" in schema:
        space = schema.get("namespace")
        named[schema["name"]] = found
        named[f"{space}.{schema['name']}"] = found
    return found
