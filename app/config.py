"""The configuration of a job: one TOML file, overridable by environment, checked as a whole.

Invariant: a `Config` that exists is usable: names are legal and distinct, times are exact integers
in the job's unit, and no Kafka property breaks a guarantee. Problems are told in one line each by
their dotted key.
"""

from __future__ import annotations

import os
import tomllib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from app import environment, problems, properties, secrets, units
from app.errors import UsageError
from app.settings import (
    JOB_NAME_LENGTH_MAX,
    Duration,
    HttpTable,
    JoinTable,
    LogTable,
    OutputTable,
    SchemaTable,
    SideTable,
    StateTable,
    Table,
    TopicName,
    TurnTable,
    Unit,
    setting,
    settings_of,
)
from schemas.fields import KINDS, Fields, TimeUnits
from schemas.records import Kind, Side
from schemas.times import RFC3339, scale_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from app.properties import Property

_HALF_RANGE: Final = 2**63


def _check_kafka(kafka: dict[str, object]) -> dict[str, object]:
    if found := properties.problems(kafka):
        raise PydanticCustomError(
            problems.WHOLE, "{text}", {"text": problems.SEPARATOR.join(found)}
        )
    return kafka


class Config(Table):
    """A whole, checked configuration. Times without a unit in their name are in the job's unit."""

    name: TopicName = setting(
        ...,
        "",
        "the consumer group; prefix of changelog, rejects and transactional ids",
        max_length=JOB_NAME_LENGTH_MAX,
    )
    start: Literal["earliest", "latest"] = setting(
        "earliest", "", "where a job without state begins to read"
    )
    unit: Unit = setting("ms", "", 'the unit of all event times; "none": plain numbers')
    kafka: Annotated[dict[str, object], AfterValidator(_check_kafka)] = Field(
        default_factory=dict,
        validate_default=True,
        # It may hold passwords.
        repr=False,
        description='any librdkafka property; "bootstrap.servers" is mandatory; [kafka.consumer] '
        "and [kafka.producer] for one kind of client",
    )
    left: SideTable
    right: SideTable
    output: OutputTable
    format_: SchemaTable = Field({}, validate_default=True, alias="schema")
    join: JoinTable
    turn: TurnTable = Field({}, validate_default=True)
    state: StateTable = Field({}, validate_default=True)
    http: HttpTable = Field({}, validate_default=True)
    log: LogTable = Field({}, validate_default=True)

    _path: Path = PrivateAttr(default=Path("spanjoin.toml"))

    def side(self, side: Side) -> SideTable:
        """The table of one side."""
        return (self.left, self.right)[side]

    @property
    def path(self) -> Path:
        """The file it was read from."""
        return self._path

    @property
    def changelog_topic(self) -> str:
        """The topic that carries the state."""
        return f"{self.name}-changelog"

    @property
    def rejects_topic(self) -> str:
        """The topic of inputs that were not taken."""
        return f"{self.name}-rejects"

    @cached_property
    def lateness(self) -> int:
        """Allowed lateness L, in the job's unit."""
        return self._ticks("join.allowed_lateness", self.join.allowed_lateness)

    @cached_property
    def max_interval(self) -> int:
        """Max interval D, in the job's unit."""
        return self._ticks("join.max_interval", self.join.max_interval)

    @cached_property
    def max_skew(self) -> int:
        """How far a side may be read ahead, in the job's unit."""
        return self._ticks("join.max_skew", self.join.max_skew)

    @cached_property
    def max_future(self) -> int | None:
        """How far ahead of the clock an event may be, in the job's unit; None = any."""
        raw = self.join.max_future
        said = "max_future" in self.join.model_fields_set
        if raw == "off" or (self.unit == "none" and not said):
            return None
        if self.unit == "none":
            raise ValueError(
                'join.max_future must be "off" because unit = "none" has nothing to do with a clock'
            )
        return self._ticks("join.max_future", raw)

    @cached_property
    def idle_timeout_ms(self) -> int | None:
        """How long a side must be silent to be idle, in ms of the clock; None = never idle."""
        raw = self.join.idle_timeout
        if raw == "off":
            return None
        # A clock's time: an integer is in the events' unit where that is a time, else in ms.
        per_ms = units.TICKS_PER_MS.get(self.unit, 1)
        ticks = _named("join.idle_timeout", raw, "ms" if self.unit == "none" else self.unit)
        if ticks == 0:
            raise ValueError('join.idle_timeout must be greater than 0, or "off"')
        return -(-ticks // per_ms)

    @cached_property
    def kafka_common(self) -> dict[str, Property]:
        """The properties of every client."""
        return self._properties("")

    def consumer_properties(self) -> dict[str, Property]:
        """The user's properties of a consumer."""
        return self.kafka_common | self._properties("consumer")

    def producer_properties(self) -> dict[str, Property]:
        """The user's properties of a producer."""
        return self.kafka_common | self._properties("producer")

    def admin_properties(self) -> dict[str, Property]:
        """The user's properties of an admin client."""
        return dict(self.kafka_common)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses to begin at, for messages."""
        return str(self.kafka_common["bootstrap.servers"])

    def now_in_unit(self, now_ms: float) -> int | None:
        """The clock's time in the job's unit; None if the unit has nothing to do with a clock."""
        ticks = units.TICKS_PER_MS.get(self.unit)
        if ticks is None:
            return None
        # Not in one product: ns since 1970 have more digits than a float.
        whole = int(now_ms)
        return whole * ticks + int((now_ms - whole) * ticks)

    @cached_property
    def ticks_per_ms(self) -> int:
        """How many of the job's units are a ms; plain numbers count as ms."""
        return units.TICKS_PER_MS.get(self.unit, 1)

    def fields(self, side: Side) -> Fields:
        """What the join reads of a side's records.

        Without a field map they are read by the default names; then they may have a kind, but
        need not.
        """
        table = self.side(side)
        names, said, unit = table.fields, table.kinds, table.time_unit
        kind = names.kind
        if self.format_.format != "avro" and table.fields_ is not None:
            kind = table.fields_.kind
        return Fields(
            names.id,
            names.ts,
            names.start,
            names.end,
            kind,
            KINDS if said is None else {word: int(Kind[said[word].upper()]) for word in said},
            TimeUnits(**unit) if isinstance(unit, dict) else TimeUnits(unit, unit, unit),
            kind_may_miss=table.fields_ is None,
        )

    @property
    def registry(self) -> dict[str, object]:
        """The properties of the Schema Registry's client."""
        return properties.flatten(self.format_.registry)

    @property
    def match_subject(self) -> str:
        """The subject of match schemas in the Schema Registry."""
        return self.format_.subject or f"{self.output.topic}-value"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if found := list(self._problems()):
            text = problems.SEPARATOR.join(found)
            raise PydanticCustomError(problems.WHOLE, "{text}", {"text": text})
        return self

    def _problems(self) -> list[str]:
        found = self._topic_problems()
        for resolve in _RESOLVED:
            try:
                getattr(self, resolve)
            except ValueError as error:
                found.append(str(error))
        if not found and self.lateness + 4 * self.max_interval >= _HALF_RANGE:
            found.append(
                "join.allowed_lateness + 4 x join.max_interval must be below 2^63, "
                "or no event would be in range"
            )
        if (self.http.tls_certificate is None) != (self.http.tls_key is None):
            found.append("http.tls_certificate and http.tls_key need each other: set both or none")
        for side in Side:
            found += self._side_problems(side)
        url = self.registry.get("url")
        if self.format_.format == "registry" and not (isinstance(url, str) and url):
            found.append("schema.registry.url is missing: write the address of the Schema Registry")
        elif self.format_.format != "registry" and self.format_.registry:
            found.append('schema.registry needs schema.format = "registry"')
        return found

    def _side_problems(self, side: Side) -> list[str]:
        table, name = self.side(side), side.name.lower()
        fields, form = self.fields(side), self.format_.format
        found = []
        for own in dict.fromkeys(fields.units):
            try:
                scale_of(own, self.unit)
            except ValueError as error:
                found.append(f"{name}.time_unit {error}")
            if own == RFC3339 and form != "json":
                found.append(f'{name}.time_unit is "{own}", which only JSON has: an Avro time is '
                             "a number")  # fmt: skip
        if table.kinds is not None and fields.kind is None:
            found.append(f"{name}.kinds says what a kind means, but {name}.fields.kind names no "
                         "field")  # fmt: skip
        # A record that may come without a kind is an insert without one.
        always = not fields.kind_may_miss or (form == "avro" and table.schema_file is None)
        if table.kinds is not None and always and "insert" not in table.kinds.values():
            found.append(f"{name}.kinds has no word for an insert, so no row is read: add it, "
                         'such as c = "insert"')  # fmt: skip
        if form == "json" and table.schema_file is not None:
            found.append(f"{name}.schema is the file of an Avro schema, which JSON does not have")
        return found

    def _topic_problems(self) -> list[str]:
        if self.left.topic == self.right.topic:
            both = f'left.topic and right.topic are both "{self.left.topic}"'
            return [f"{both}: a topic cannot be joined with itself; copy one side to another topic"]
        named = {self.left.topic: "left.topic", self.right.topic: "right.topic"}
        found = []
        for key, topic in (
            ("output.topic", self.output.topic),
            ("the changelog (name + -changelog)", self.changelog_topic),
            ("the rejects topic (name + -rejects)", self.rejects_topic),
        ):
            if topic in named:
                found.append(f'{key} and {named[topic]} are both "{topic}": choose another name')
            named[topic] = key
        return found

    def _ticks(self, key: str, raw: Duration) -> int:
        return _named(key, raw, self.unit)

    def _properties(self, table: str) -> dict[str, Property]:
        values = properties.split_tables(self.kafka)[table]
        return {name: value for name, value in values.items() if isinstance(value, str | int)}


_RESOLVED: Final = (
    "lateness",
    "max_interval",
    "max_skew",
    "max_future",
    "idle_timeout_ms",
)


def _named(key: str, raw: Duration, unit: str) -> int:
    try:
        return units.duration(raw, unit)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


def load_config(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Read and check the configuration file; `environ` overrides its values.

    Raises UsageError: one line that names the file and each wrong setting by its dotted key.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; give the configuration with -c FILE") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not valid TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        folder = path.absolute().parent
        environment.refuse_slips(environ, (one.key for one in settings_of(Config)))
        whole = secrets.resolve(environment.overlay(document, environ), folder)
        secrets.remember_all(whole)
        config = Config.model_validate(whole, context={"folder": folder})
    except ValidationError as error:
        raise UsageError(f"{path}: {problems.describe(error, Config)}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    config._path = path  # noqa: SLF001 (its own module)
    return config
