"""The Schema Registry, through the vendor's client: schemas by their ids, and ids for new ones.

Every call may wait for the network, so a worker makes them on a helper thread. Invariant: that an
id has no schema is said only where the registry itself says so; a registry that is away, busy or
hidden behind something else is Retry, and a person's business is UsageError.
"""

from __future__ import annotations

import json
import weakref
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from app import secrets
from app.errors import Retry, UsageError
from schemas.match_schema import inlined

if TYPE_CHECKING:
    from app.config import Config
    from schemas.match_schema import Json

NO_SUBJECT: Final = 40401
NO_VERSION: Final = 40402
NO_SCHEMA: Final = 40403
"""Error codes of a Schema Registry. A 404 without one comes from something else."""
REFERENCES_MAX: Final = 100
"""Schemas that one schema may refer to, directly or through others."""

_DEFAULTS: Final = {
    # The client would wait for an answer for ever.
    "timeout": 5.0,
    # Whoever asks asks again, and meanwhile says so.
    "max.retries": 0,
}
_WHOLE: Final = frozenset(
    ["cache.capacity", "max.retries", "retries.wait.ms", "retries.max.wait.ms"]
)
_REAL: Final = frozenset(["timeout", "cache.latest.ttl.sec"])
_REFUSED: Final = frozenset([HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY])
_NO_ID: Final = frozenset([HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY])
"""Whatever a registry has against an id, it will have next time."""
_WRONG_PLACE: Final = frozenset(
    [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND]
)
_AVRO: Final = "AVRO"


class NoSchema(Exception):
    """There is none that could be read; the text says why."""


class Registry:
    """The Schema Registry of a job."""

    def __init__(self, config: Config) -> None:
        """Raises UsageError where the client does not know a property."""
        self.address = _without_login(str(config.registry["url"]))
        _remember_logins(str(config.registry["url"]))
        properties = {name: _typed(name, value) for name, value in config.registry.items()}
        try:
            self._client = SchemaRegistryClient({**_DEFAULTS, **properties})
        except Exception as error:  # noqa: BLE001
            # Whatever it raises is about these properties; some texts repeat the address.
            text = str(error)
            for one in str(config.registry["url"]).split(","):
                whole = one.strip().rstrip("/")
                text = text.replace(whole, _one_without_login(whole))
            raise UsageError(f"{config.path}: schema.registry: {text}") from None
        # Whoever drops it closes its connections: a command has codecs here and there.
        weakref.finalize(self, self._client.close)
        self._answered = False

    def schema(self, schema_id: int) -> Json:
        """The schema with this id. Raises NoSchema, Retry, UsageError."""
        try:
            return self._avro(self._client.get_schema(schema_id))
        except Exception as error:  # noqa: BLE001 - the HTTP client's are many
            if _refused(error, _NO_ID):
                raise NoSchema(f"which the Schema Registry refuses ({_message(error)})") from None
            self._judge(error)
        raise NoSchema("which the Schema Registry does not have")

    def newest(self, subject: str) -> tuple[int, Json] | None:
        """The id and schema of a subject's latest version; None where there is no version.

        Raises NoSchema, Retry, UsageError.
        """
        self._client.clear_latest_caches()  # type: ignore[no-untyped-call] # It has no types.
        try:
            found = self._client.get_latest_version(subject)
            assert found.schema_id is not None
            return found.schema_id, self._avro(found.schema)
        except Exception as error:  # noqa: BLE001 - the HTTP client's are many
            self._judge(error)
        return None

    def register(self, subject: str, schema: Json) -> int:
        """The id of a schema under a subject, where it may have been before.

        Raises Retry, and UsageError where the registry refuses the schema.
        """
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        try:
            return self._client.register_schema(subject, Schema(text, _AVRO))
        except Exception as error:  # noqa: BLE001 - the HTTP client's are many
            if _refused(error, _REFUSED):
                raise UsageError(
                    f"the Schema Registry refuses a schema for subject {subject} "
                    f"({_message(error)}): set the subject's compatibility to NONE, or choose "
                    "another with schema.subject"
                ) from None
            self._judge(error)
        raise Retry(f"the Schema Registry at {self.address} takes no schema")

    def takes(self, subject: str, schema: Json) -> bool:
        """Whether a subject would take a schema. Raises Retry, UsageError."""
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        try:
            return self._client.test_compatibility(subject, Schema(text, _AVRO))
        except Exception as error:  # noqa: BLE001 - the HTTP client's are many
            if _refused(error, _REFUSED):
                return False
            self._judge(error)
        return True  # A subject that is not there yet takes anything.

    def _avro(self, schema: Schema) -> Json:
        """A schema as JSON, with what it refers to inside. Raises NoSchema, like the client."""
        self._answered = True
        if schema.schema_type != _AVRO:
            raise NoSchema(f"which is no Avro schema, but {schema.schema_type}")
        referenced: list[Json] = []
        self._collect(schema, referenced)
        own = _parsed(schema)
        return inlined(own, referenced) if referenced else own

    def _collect(self, schema: Schema, found: list[Json]) -> None:
        for reference in schema.references or ():
            if len(found) >= REFERENCES_MAX:
                raise NoSchema(f"which refers to more than {REFERENCES_MAX} others")
            part = self._client.get_version(str(reference.subject), reference.version or 1).schema
            found.append(_parsed(part))
            self._collect(part, found)

    def _judge(self, error: Exception) -> None:
        """Returns where the registry itself has said that there is no such thing."""
        if isinstance(error, NoSchema):
            raise error
        if isinstance(error, SchemaRegistryError):
            if error.error_code in (NO_SUBJECT, NO_VERSION, NO_SCHEMA):
                self._answered = True
                return
            if error.http_status_code in _WRONG_PLACE and not self._answered:
                raise UsageError(
                    f"there is no Schema Registry to talk to at {self.address}: it answers "
                    f"{error.http_status_code} ({_message(error)}); correct schema.registry"
                ) from None
        text = " ".join(str(error).split()) or type(error).__name__
        raise Retry(f"the Schema Registry at {self.address} does not answer: {text}") from None


def _refused(error: Exception, codes: frozenset[HTTPStatus]) -> bool:
    """Whether the registry itself, and nothing in front of it, has answered with one of these."""
    return (
        isinstance(error, SchemaRegistryError)
        and error.http_status_code in codes
        and (error.error_code or 0) > 0
    )


def _message(error: Exception) -> str:
    return str(getattr(error, "error_message", None) or "without a word")


def _parsed(schema: Schema) -> Json:
    text = schema.schema_str or ""
    try:
        return json.loads(text)
    except ValueError:
        # A primitive type may be written as its bare name.
        return text


def _typed(name: str, value: object) -> Any:  # noqa: ANN401 (the client's)
    """A property as the client wants it: the environment has texts only."""
    if isinstance(value, str) and name in _WHOLE | _REAL:
        try:
            return int(value) if name in _WHOLE else float(value)
        except ValueError:
            return value
    return value


def _remember_logins(addresses: str) -> None:
    """Never show the users and passwords that stand in addresses."""
    for one in addresses.split(","):
        login, mark, _ = one.rpartition("://")[2].rpartition("@")
        if mark:
            secrets.remember(login)


def _without_login(addresses: str) -> str:
    """The addresses without user and password."""
    return ",".join(_one_without_login(one.strip()) for one in addresses.split(","))


def _one_without_login(address: str) -> str:
    scheme, mark, rest = address.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
