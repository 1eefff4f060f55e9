"""Environment variables laid over the configuration file.

`SPANJOIN_JOIN__MAX_INTERVAL` is `join.max_interval`. In the tables of the clients, whose property
names contain dots, `_` stands for a dot: `SPANJOIN_KAFKA__CONSUMER__FETCH_MIN_BYTES`. With
`_FROM_FILE` after the name of a setting, the variable has the path of a file with its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.secrets import FROM_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX: Final = "SPANJOIN_"
_FILE_SUFFIX: Final = f"_{FROM_FILE.upper()}"
# Other names without "__" are left alone: orchestrators invent some of their own for a service
# of this name, such as SPANJOIN_PORT or SPANJOIN_SERVICE_HOST.
_TOP_LEVEL: Final = ("NAME", "START", "UNIT")
_PROPERTIES: Final = (
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username",
    "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.key.password", "client.id", "debug", "group.protocol", "session.timeout.ms",
    "heartbeat.interval.ms", "max.poll.interval.ms", "fetch.min.bytes", "transaction.timeout.ms",
    "compression.type", "linger.ms",
)  # fmt: skip
"""Of the Kafka clients, those that people set: a slip in another one's name is not noticed."""
_OF_REGISTRY: Final = ("url", "basic.auth.user.info")
_ADDRESS: Final = ("tcp://", "udp://", "sctp://")
"""How a ..._PORT begins that an orchestrator invented, say of a service `spanjoin-http`."""


def overlay(document: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """A copy of `document` with each variable's value put at its dotted key.

    Raises ValueError, naming the variable, where its path runs through something not a table.
    """
    result = _copy(document)
    for variable in sorted(environ):
        rest = variable.removeprefix(PREFIX)
        if rest == variable or ("__" not in rest and rest not in _TOP_LEVEL):
            continue
        value: object = environ[variable]
        if rest.endswith(_FILE_SUFFIX):
            rest = rest.removesuffix(_FILE_SUFFIX)
            value = {FROM_FILE: value}
        _put(result, variable, _path(rest), value)
    return result


def refuse_slips(environ: Mapping[str, str], settings: Iterable[str]) -> None:
    """Raise ValueError where a name would be one of `settings`, had it `__` between the tables.

    Such a one does nothing, and nobody would know.
    """
    known = {}
    for right in _variables(settings):
        for suffix in ("", _FILE_SUFFIX):
            known[_joined(PREFIX + right + suffix)] = PREFIX + right + suffix
    for variable in sorted(environ):
        right = known.get(_joined(variable), variable)
        if right != variable and not environ[variable].startswith(_ADDRESS):
            raise ValueError(f"{variable} is not a setting: did you mean {right}?")


def _joined(variable: str) -> str:
    return variable.replace("__", "_")


def _variables(settings: Iterable[str]) -> Iterable[str]:
    """What comes after the prefix, of all settings that are known by name."""
    for key in settings:
        yield key.replace(".", "__").upper()
    for name in _PROPERTIES:
        for table in ("KAFKA", "KAFKA__CONSUMER", "KAFKA__PRODUCER"):
            yield f"{table}__{name.replace('.', '_').upper()}"
    for name in _OF_REGISTRY:
        yield f"SCHEMA__REGISTRY__{name.replace('.', '_').upper()}"


def _path(rest: str) -> list[str]:
    tables = rest.lower().split("__")
    if _is_client(tables):
        tables[-1] = tables[-1].replace("_", ".")
    return tables


def _is_client(path: list[str]) -> bool:
    """Whether this is a property of a client, which may contain dots."""
    return path[0] == "kafka" or (path[:2] == ["schema", "registry"] and len(path) > 2)  # noqa: PLR2004 - below the table


def _put(document: dict[str, object], variable: str, path: list[str], value: object) -> None:
    table = document
    for name in path[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(  # noqa: TRY004 (the caller tells it as a wrong value)
                f"{variable} does not name a setting: {name} is not a table"
            )
        table = inner
    if _is_client(path):
        _remove_dotted(table, path[-1].split("."))
    table[path[-1]] = value


def _remove_dotted(table: dict[str, object], parts: list[str]) -> None:
    """Take an unquoted, hence nested, `bootstrap.servers` out: the variable replaces it."""
    inner = table.get(parts[0])
    if len(parts) == 1:
        if not isinstance(inner, dict):
            table.pop(parts[0], None)
    elif isinstance(inner, dict):
        _remove_dotted(inner, parts[1:])


def _copy(table: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _copy(value) if isinstance(value, dict) else value for name, value in table.items()
    }
