"""The codec of a job: how its values are encoded, and what the join reads of them."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from app.errors import UsageError
from schemas.avro_codec import AvroCodec
from schemas.json_codec import JsonCodec
from schemas.layout import Layout
from schemas.records import JoinType, Side
from schemas.registry_codec import HEADER_SIZE, Absent, RegistryCodec

if TYPE_CHECKING:
    from app.config import Config
    from app.kafka.registry import Registry
    from schemas.codec import Codec
    from schemas.match_schema import Json

_DEFAULT: Final = "event.avsc"
TELL_SCHEMA: Final = (
    "a producer registers it with its first record; or name a file with left.schema or right.schema"
)


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


def make_codec(config: Config, *, sure: bool = False) -> Codec:
    """The codec of a command: it has no questions, but may wait for the Schema Registry.

    `sure`: the default event is no schema of a side whose field map it does not fit.
    Raises UsageError naming the side whose schema does not fit.
    """
    codec, schemas = worker_codec(config), job_schemas(config, sure=sure)
    if schemas is None:
        return codec
    from app.lookups import Answered  # noqa: PLC0415 - seldom needed

    assert isinstance(codec, RegistryCodec)
    return Answered(codec, schemas)


def worker_codec(config: Config) -> Codec:
    """The codec of a worker: pure, so it may have questions to `job_schemas`.

    Raises UsageError naming the side whose schema does not fit.
    """
    fields = config.fields(Side.LEFT), config.fields(Side.RIGHT)
    join = JoinType(config.join.type)
    try:
        match config.format_.format:
            case "json":
                return JsonCodec(fields, config.unit, join)
            case "registry":
                return RegistryCodec(fields, config.unit, join)
            case _:
                left, right = (side_schema(config, side) for side in Side)
                return AvroCodec(([left], [right]), fields, config.unit, join)
    except ValueError as error:
        raise UsageError(f"{config.path}: {error}") from None


def job_schemas(config: Config, *, sure: bool = False) -> JobSchemas | None:
    """The Schema Registry of a job, None where it has none. Raises UsageError, but asks nothing.

    `sure`: as of `make_codec`.
    """
    if config.format_.format != "registry":
        return None
    from app.kafka.registry import Registry  # noqa: PLC0415 - half a second of imports

    return JobSchemas(config, Registry(config), sure=sure)


class JobSchemas:
    """`app.lookups.Schemas` of a job: which subject, and which file, is whose."""

    def __init__(self, config: Config, registry: Registry, *, sure: bool = False) -> None:
        self._config = config
        self._sure = sure
        self._registry = registry
        self.address = registry.address
        self.join = JoinType(config.join.type)

    def by_id(self, schema_id: int) -> Json | Absent:
        """The schema with this id, or that there is none, and why."""
        from app.kafka.registry import NoSchema  # noqa: PLC0415 - as above

        try:
            return self._registry.schema(schema_id)
        except NoSchema as why:
            return Absent(f"written with schema {schema_id}, {why}")

    def newest(self, side: Side) -> Json:
        """The schema in the side's file, else the latest of its subject, else the default event.

        A worker takes that for a side that has never been written to, whatever its field map says:
        it becomes the side that is missing in the first unmatched rows of the other one.
        """
        known = self.known(side)
        return self._default(side) if known is None else known

    def known(self, side: Side) -> Json | None:
        """The same, None where nobody has said yet what the side's records look like."""
        if self._from_file(side):
            return side_schema(self._config, side)
        found = self._latest(side)
        return None if found is None else found[1]

    def writer(self, side: Side) -> tuple[int, Json]:
        """The same with its id; a schema that is not the subject's yet is registered."""
        found = None if self._from_file(side) else self._latest(side)
        if found is not None:
            return found
        schema = side_schema(self._config, side) if self._from_file(side) else self._default(side)
        return self._registry.register(self._subject(side), schema), schema

    def register_match(self, schema: Json) -> int:
        """The id of a match schema, registered if need be."""
        return self._registry.register(self._config.match_subject, schema)

    def takes_match(self, schema: Json) -> bool:
        """Whether a match schema would be taken."""
        return self._registry.takes(self._config.match_subject, schema)

    def _default(self, side: Side) -> Json:
        schema = side_schema(self._config, side)
        try:
            Layout(schema, self._config.fields(side), self._config.unit, HEADER_SIZE)
        except ValueError:
            if self._sure:
                raise UsageError(f"{self.unknown(side)}: {TELL_SCHEMA}") from None
        return schema

    def unknown(self, side: Side) -> str:
        """That nobody has said yet what a side's records look like, for people."""
        name = side.name.lower()
        return f"the Schema Registry has no schema of {name}, subject {self._subject(side)}, yet"

    def _from_file(self, side: Side) -> bool:
        return self._config.side(side).schema_file is not None

    def _subject(self, side: Side) -> str:
        return f"{self._config.side(side).topic}-value"

    def _latest(self, side: Side) -> tuple[int, Json] | None:
        from app.kafka.registry import NoSchema  # noqa: PLC0415 - as above

        try:
            return self._registry.newest(self._subject(side))
        except NoSchema as why:
            raise UsageError(
                f"the Schema Registry's subject {self._subject(side)} has a schema {why}"
            ) from None
