"""The codec of a job: the schemas of both sides, from files, joined with their field maps."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from app.errors import UsageError
from schemas.avro_codec import AvroCodec
from schemas.fields import Fields, TimeUnits
from schemas.records import Side

if TYPE_CHECKING:
    from app.config import Config
    from schemas.codec import Codec

_DEFAULT = "event.avsc"


def side_schema(config: Config, side: Side) -> Any:  # noqa: ANN401 (JSON)
    """The Avro schema of a side's records. Raises UsageError where its file is no JSON."""
    path = config.side(side).schema_file
    if path is None:
        return json.loads(resources.files("schemas").joinpath(_DEFAULT).read_text("utf-8"))
    key = f"{side.name.lower()}.schema"
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{config.path}: {key}: {path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{config.path}: {key}: {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{config.path}: {key}: {path} is not JSON: {error}") from None


def side_fields(config: Config, side: Side, schema: Any) -> Fields:  # noqa: ANN401 (JSON)
    """The field map of a side.

    A schema of one's own without a field map is read by the default names; then it may have a
    kind, but need not.
    """
    table = config.side(side)
    names = table.fields
    kind = names.kind
    if table.fields_ is None and isinstance(schema, dict):
        there = {field.get("name") for field in schema.get("fields", ()) if isinstance(field, dict)}
        kind = kind if kind in there else None
    units = TimeUnits(table.time_unit, table.time_unit, table.time_unit)
    return Fields(names.id, names.ts, names.start, names.end, kind, units=units)


def make_codec(config: Config) -> Codec:
    """The codec of both sides. Raises UsageError naming the side whose schema does not fit."""
    schemas = [side_schema(config, side) for side in Side]
    left, right = (side_fields(config, side, schemas[side]) for side in Side)
    try:
        return AvroCodec(([schemas[Side.LEFT]], [schemas[Side.RIGHT]]), (left, right), config.unit)
    except ValueError as error:
        raise UsageError(f"{config.path}: {error}") from None
