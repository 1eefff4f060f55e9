"""The tables of the configuration file: every key with its type, unit, default and meaning.

Invariant: a key that is not a field here is an error. The table of settings in the README is
compared with these fields, so a setting cannot exist without being documented.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticUndefined

from app import units
from schemas.times import RFC3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

Unit = Literal["ms", "us", "ns", "none"]

_LEGAL_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")
_TOPIC_LENGTH_MAX: Final = 249  # the broker's own limit
_OR_OFF: Final = 'duration, or events\' unit, or "off"'
TIMES: Final = ("ts", "start", "end")
TIME_UNITS: Final = ("s", "ms", "us", "ns", "none", RFC3339)
_PORT_MAX: Final = 65_535
TOKEN_LENGTH_MIN: Final = 16
_TOKEN: Final = re.compile(f"[!-~]{{{TOKEN_LENGTH_MIN},}}")
JOB_NAME_LENGTH_MAX: Final = _TOPIC_LENGTH_MAX - len("-changelog")


def _whole(value: object) -> object:
    # Pydantic takes `true` for 1 and 2.0 for 2; both are slips in a configuration file.
    if isinstance(value, bool | float):
        raise ValueError(f"must be an integer, but is {value!r}")  # noqa: TRY004 (pydantic's)
    return value


def _duration(value: object) -> object:
    # Only the form is checked here: what it means depends on the job's unit.
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"must be {units.DURATION_HINT}, but is {value!r}")  # noqa: TRY004
    return value


def _clock_duration(value: object) -> object:
    _duration(value)
    units.duration(value, "ms")  # type: ignore[arg-type]  # _duration has checked it
    return value


def _size(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"must be {units.SIZE_HINT}, but is {value!r}")  # noqa: TRY004
    units.size(value)
    return value


def _time_unit(value: object) -> object:
    said = value if isinstance(value, dict) else {"ts": value}
    if not said or set(said) - set(TIMES) or not set(said.values()) <= set(TIME_UNITS):
        units_ = ", ".join(f'"{unit}"' for unit in TIME_UNITS)
        raise ValueError(f"must be one of {units_}, or a table of them for ts, start and end")
    return value


def _topic(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, but is {value!r}")  # noqa: TRY004 (pydantic's)
    if not _LEGAL_TOPIC.fullmatch(value) or value in {".", ".."}:
        raise ValueError(f"must be letters, digits, '.', '_' and '-', but is {value!r}")
    if len(value) > _TOPIC_LENGTH_MAX:
        raise ValueError(f"must have at most {_TOPIC_LENGTH_MAX} characters, but has {len(value)}")
    return value


def _path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"must be a path, but is {value!r}")
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / Path(value).expanduser()


Duration = Annotated[int | str, BeforeValidator(_duration)]
"""A time in the events' unit: what an integer means depends on `unit`."""

ClockDuration = Annotated[int | str, BeforeValidator(_clock_duration)]
"""A time of the clock: an integer is in ms, whatever the events' unit."""

TimeUnit = Annotated[str | dict[str, str], BeforeValidator(_time_unit)]
"""The unit of all times of a side, or of each."""

Size = Annotated[int | str, BeforeValidator(_size)]
Whole = Annotated[int, BeforeValidator(_whole)]
TopicName = Annotated[str, BeforeValidator(_topic)]
FilePath = Annotated[Path, BeforeValidator(_path)]
"""A path; a relative one begins at the folder of the configuration file."""


def setting(default: Any, unit: str, meaning: str, **limits: Any) -> Any:  # noqa: ANN401
    """A field with what the README's table says of it; `...` as default makes it mandatory."""
    extra: Any = {"unit": unit}
    return Field(
        default, description=meaning, json_schema_extra=extra, validate_default=True, **limits
    )


class Table(BaseModel):
    """A table of the file: unknown keys are errors, values never change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class FieldNames(Table):
    """Which fields of a side's records carry what the join needs."""

    id: str = setting("id", "", "the field that identifies a row, unique on its side")
    ts: str = setting("ts", "", "the field of the event's time, inside its interval")
    start: str = setting("start", "", "the field of the interval's first moment")
    end: str = setting("end", "", "the field of the interval's last moment, inclusive")
    kind: str | None = setting(
        None, "", "the field that says INSERT, RETRACT or WATERMARK; without it all are inserts"
    )


class SideTable(Table):
    """`[left]` or `[right]`: one of the two inputs."""

    topic: TopicName = setting(..., "", "the topic to read")
    schema_file: FilePath | None = setting(
        None, "file", "the Avro schema of its values; without it the default event", alias="schema"
    )
    fields_: FieldNames | None = Field(None, alias="fields", description="the field map")
    kinds: dict[str, Literal["insert", "retract", "watermark"]] | None = setting(
        None,
        "",
        "a table: what the kind field may say, and whether that is insert, retract or watermark",
    )
    time_unit: TimeUnit | None = setting(
        None,
        "",
        "the unit of its times, or a table with one for each of ts, start and end; the job's "
        "if not said, and never finer",
    )

    @property
    def fields(self) -> FieldNames:
        """The field map; the default event and records like it may also carry a kind."""
        if self.fields_ is None:
            return FieldNames(kind="kind")
        if self.schema_file is None and self.fields_.kind is None:
            return self.fields_.model_copy(update={"kind": "kind"})
        return self.fields_


class OutputTable(Table):
    """`[output]`: where matches go."""

    topic: TopicName = setting(..., "", "the topic of the matches")


class SchemaTable(Table):
    """`[schema]`: how values are encoded."""

    format: Literal["avro", "json", "registry"] = setting(
        "avro", "", "the encoding of values on both sides"
    )
    registry: dict[str, Any] = Field(
        default_factory=dict,
        # It may hold passwords.
        repr=False,
        description="any property of confluent-kafka's SchemaRegistryClient; url is mandatory "
        'with format = "registry"',
    )
    subject: str = setting(
        "", "", "the subject that match schemas are registered under; output.topic and -value"
    )


class JoinTable(Table):
    """`[join]`: the bounds of the join in event time."""

    allowed_lateness: Duration = setting(
        ...,
        "duration, or events' unit",
        "how far behind the watermark an insert may still come (L)",
    )
    max_interval: Duration = setting(
        ..., "duration, or events' unit", "the longest interval, end - start (D)"
    )
    max_future: Duration = setting(
        "1d",
        _OR_OFF,
        'how far ahead of the clock an event may be; unit "none" has no clock, hence "off"',
    )
    idle_timeout: Duration = setting(
        "off", _OR_OFF, "after how long a side without records stops being waited for"
    )
    max_skew: Duration = setting(
        0,
        "duration, or events' unit",
        "how far one side may be read ahead of the other, in event time",
    )
    type: Literal["inner", "left", "right", "full"] = setting(
        "inner", "", "whose rows are written also when nothing matches them"
    )
    partitioners: Literal["same", "any"] = setting(
        "same", "", "whether a job may have sides that were visibly written with different ones"
    )


class TurnTable(Table):
    """`[turn]`: the size of one transaction."""

    max_records: Whole = setting(
        10_000, "records", "the most records of one turn", ge=1, le=1_000_000
    )
    max_wait: ClockDuration = setting(
        "5ms", "duration, or ms", "how long a turn waits for its first records"
    )

    @property
    def max_wait_ms(self) -> int:
        """How long a turn waits for its first records, in ms of the clock."""
        return units.duration(self.max_wait, "ms")


BLOCK_CACHE_PART: Final = 8
"""One in so many bytes of `state.cache_memory`. What a turn needs is read in the store's order, and
so each block once: memory does more as windows."""


class StateTable(Table):
    """`[state]`: the local copy of the join's state."""

    dir: FilePath = setting("state", "directory", "where the state lives; one worker each")
    cache_memory: Size = setting(
        "256MB", "size, or bytes", "the memory for windows and the store's cache, of one worker"
    )
    cleanup_delay: ClockDuration = setting(
        "10m", "duration, or ms", "how long the local copy of a lane that moved away is kept"
    )
    stale_copies: Whole = setting(
        16, "lanes", "how many such copies are kept at most, the newest; 0 = none", ge=0
    )

    @property
    def block_cache_bytes(self) -> int:
        """The memory for RocksDB's cache, of `cache_memory`."""
        return units.size(self.cache_memory) // BLOCK_CACHE_PART

    @property
    def windows_bytes(self) -> int:
        """The memory for windows: the rest of `cache_memory`."""
        return units.size(self.cache_memory) - self.block_cache_bytes

    @property
    def cleanup_delay_ms(self) -> int:
        """How long the local copy of a lane that moved away is kept, in ms of the clock."""
        return units.duration(self.cleanup_delay, "ms")


class HttpTable(Table):
    """`[http]`: the server for probes, metrics and status."""

    host: str = setting("127.0.0.1", "", "the address to listen on")
    port: Whole = setting(0, "", "the port to listen on; 0 = no server", ge=0, le=_PORT_MAX)
    advertised: str = setting(
        "",
        "host:port",
        "how others reach this server; host and port if not said, for 0.0.0.0 the machine's name",
    )
    token: str = setting(
        "",
        "",
        "16 or more characters that whoever asks for more than probes and metrics must bear; "
        "nobody need if not said",
        repr=False,
    )
    tls_certificate: FilePath | None = setting(
        None, "file", "the server's certificates (PEM), with which it speaks HTTPS"
    )
    tls_key: FilePath | None = setting(None, "file", "the private key of the first of them (PEM)")
    tls_ca: FilePath | None = setting(
        None, "file", "who may have signed them (PEM), for `query`; the system's if not said"
    )

    @field_validator("advertised")
    @classmethod
    def _of_both(cls, advertised: str) -> str:
        host, _, port = advertised.rpartition(":")
        if advertised and not (
            host and port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
        ):
            raise ValueError(f"must be host:port, with a port up to {_PORT_MAX}")
        return advertised

    @field_validator("token")
    @classmethod
    def _long_enough(cls, token: str) -> str:
        if token and not _TOKEN.fullmatch(token):
            raise ValueError(
                f"must be {TOKEN_LENGTH_MIN} or more printable ASCII characters without a space"
            )
        return token


class LogTable(Table):
    """`[log]`: what is told on standard error."""

    format: Literal["human", "json"] = setting("human", "", "lines for people or JSON lines")
    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "", "the least level told"
    )


class Setting(NamedTuple):
    """A row of the README's table; `default` as it would be written in the file."""

    key: str
    unit: str
    default: str
    meaning: str


def settings_of(table: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """Every setting of a table and of the tables in it, in the order of the file."""
    for name, field in table.model_fields.items():
        key = prefix + (field.alias or name)
        inner = table_in(field.annotation)
        if inner is not None:
            yield from settings_of(inner, f"{key}.")
            continue
        extra = field.json_schema_extra
        unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
        yield Setting(key, unit, _default(field), field.description or "")


def table_in(annotation: object) -> type[BaseModel] | None:
    """The table that a field holds, or may hold; None if it holds a value."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "mandatory"
    default = field.get_default()
    if default in (None, "", PydanticUndefined):
        return ""
    return str(default) if isinstance(default, int) else f'"{default}"'
