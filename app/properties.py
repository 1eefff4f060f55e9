"""Which librdkafka properties a job may set, and how they are found in TOML tables.

Invariant: whatever decides exactly-once, ownership or the placement of keys is set by the program
alone; a configuration that tries is refused by the property's name, under each of its aliases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Property = str | int | bool

_GROUP: Final = 'the consumer group is always the job\'s "name"'
_COMMIT: Final = "offsets are only committed in the transaction of their results"
_RESET: Final = 'where a job without state begins is said by "start"'
_COMMITTED: Final = "only committed records are ever joined"
_EXACTLY_ONCE: Final = "results are exactly-once only with it as it is"
_PLACEMENT: Final = "keys must land where every other producer puts them"
_LANES: Final = "lanes are moved one at a time, and left and right together"
_TOPICS: Final = 'topics are created by "spanjoin topics" alone'
_EOF: Final = "the end of a partition decides whether a side is idle"

REFUSED: Final[Mapping[str, str]] = {
    "group.id": _GROUP,
    "group.protocol.type": _GROUP,
    # A static member's lanes stay without an owner after it has left, until its session ends.
    "group.instance.id": _LANES,
    "enable.auto.commit": _COMMIT,
    "auto.commit.enable": _COMMIT,
    "auto.commit.interval.ms": _COMMIT,
    "enable.auto.offset.store": _COMMIT,
    "offset.store.method": _COMMIT,
    "offset.store.path": _COMMIT,
    "offset.store.sync.interval.ms": _COMMIT,
    "auto.offset.reset": _RESET,
    "isolation.level": _COMMITTED,
    "enable.partition.eof": _EOF,
    "transactional.id": _EXACTLY_ONCE,
    "enable.idempotence": _EXACTLY_ONCE,
    "enable.gapless.guarantee": _EXACTLY_ONCE,
    "acks": _EXACTLY_ONCE,
    "request.required.acks": _EXACTLY_ONCE,
    "partitioner": _PLACEMENT,
    "partition.assignment.strategy": _LANES,
    "allow.auto.create.topics": _TOPICS,
}
"""Property -> why it cannot be set. Aliases are entries of their own."""

_ONLY_VALUE: Final[Mapping[str, str]] = {"group.remote.assignor": "uniform"}

# The client takes topic properties in a table of this name as well, which would be a way round.
_NESTED_TOPIC_TABLE: Final = "default.topic.config"


def flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted names from nested tables: an unquoted `bootstrap.servers = ...` nests in TOML."""
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def refusal(name: str, value: object) -> str | None:
    """Why property `name` cannot be set to `value`; None if it can.

    The text completes the sentence "<property> ...".
    """
    if name == _NESTED_TOPIC_TABLE or name.startswith(_NESTED_TOPIC_TABLE + "."):
        return "cannot be set: write the property itself instead of a table of topic properties"
    if name in REFUSED:
        return f"cannot be set: {REFUSED[name]}"
    if name in _ONLY_VALUE and value != _ONLY_VALUE[name]:
        return f'cannot be set to anything but "{_ONLY_VALUE[name]}": {_LANES}'
    if not isinstance(value, str | int):
        return "must be a string, an integer, true or false"
    return None


def problems(kafka: Mapping[str, object]) -> list[str]:
    """What is wrong with the Kafka tables, each by its dotted key."""
    try:
        tables = split_tables(kafka)
    except ValueError as error:
        return [str(error)]
    found = []
    for table, values in tables.items():
        prefix = f"kafka.{table}." if table else "kafka."
        for name, value in values.items():
            reason = refusal(name, value)
            if reason:
                found.append(f"{prefix}{name} {reason}")
    if not tables[""].get("bootstrap.servers"):
        found.append(
            "kafka.bootstrap.servers is missing: write the brokers' addresses, such as "
            '"localhost:9092"'
        )
    return found


def split_tables(kafka: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """The flat properties of `[kafka]` ("" ), `[kafka.consumer]` and `[kafka.producer]`.

    Raises ValueError with "<table> ..." if consumer or producer is not a table.
    """
    tables: dict[str, dict[str, object]] = {}
    for part in ("consumer", "producer"):
        table = kafka.get(part, {})
        if not isinstance(table, dict):
            raise ValueError(f"kafka.{part} must be a table of properties")  # noqa: TRY004
        tables[part] = flatten(table)
    common = {name: value for name, value in kafka.items() if name not in tables}
    return {"": flatten(common), **tables}
