"""`load`: a data file into one side, a record for each row, where every producer would put it.

Invariant: rows keep their order within a partition, and each is written once; a row that does not
fit the side's schema, or that a worker could not read, ends the load with its line, and with how
many rows came before it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from fastavro.schema import SchemaParseException, expand_schema

from app.conversion import RecordConversion, Unfit
from app.datafiles import Blank, DataFile, open_data
from app.errors import UsageError
from app.formats import make_codec
from app.json_rows import JsonRows
from app.kafka.cluster import Cluster
from app.kafka.load import BYTES_MAX, Loader, RecordTooLarge
from app.progress import progress
from app.readable import Readable, check_schema
from app.rights import may_write
from app.rows import counted
from app.topics import missing_input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from app.config import Config
    from app.datafiles import Row
    from app.kafka.cluster import Topic
    from app.progress import Advance
    from schemas.codec import Codec
    from schemas.records import Side

_PROGRESS_EVERY = 1_000


def load_file(config: Config, side: Side, path: Path, key: str, form: str | None) -> str:
    """Write a file's rows into a side; returns a line that says what was done.

    `key` names the column of the join key. Raises UsageError, Unreachable or Crash.
    """
    codec = make_codec(config, sure=True)
    if config.format_.format == "registry":
        check_schema(config, side, codec.side_schema(side))
    conversion = row_conversion(config, side, codec, key)
    readable = Readable(config, side, codec)
    topic = config.side(side).topic
    started = time.monotonic()
    with open_data(path, form) as data:
        found = opened_input(config, side)
        loader = Loader(config, topic, int(found.settings[BYTES_MAX]))
        with progress(f"loading {topic}", data.total, counted=False) as advance:
            _load(
                data,
                loader,
                lambda row: encoded(row, key, conversion, readable.encode),
                advance,
            )
    seconds = time.monotonic() - started
    return (
        f"{counted(loader.sent, 'record')} loaded from {path} into {side.name.lower()} topic "
        f'"{topic}" ({counted(found.partitions, "partition")}) in {seconds:.1f} s'
    )


def opened_input(config: Config, side: Side) -> Topic:
    """An input that may be written to. Raises UsageError, Unreachable or Crash."""
    topic = config.side(side).topic
    found = Cluster(config).topics([topic]).get(topic)
    if found is None:
        raise UsageError(missing_input(config, side))
    if not may_write(found):
        raise UsageError(f'{side.name.lower()} topic "{topic}" may not be written to: grant Write')
    return found


class Conversion(Protocol):
    """Turns rows of a file (column -> value) into records."""

    def record(self, row: Mapping[str, object]) -> dict[str, Any]:
        """One record. Raises Unfit."""


def row_conversion(config: Config, side: Side, codec: Codec, key: str = "key") -> Conversion:
    """How rows of a file become records of a side; `key` is the column of the join key.

    Raises UsageError on a schema that is wrong.
    """
    if config.format_.format == "json":
        return JsonRows(config.fields(side), key)
    try:
        expanded: Any = expand_schema(codec.side_schema(side))
    except (SchemaParseException, KeyError, TypeError) as error:
        raise UsageError(f"{side.name.lower()}.schema is not an Avro schema: {error}") from None
    return RecordConversion(expanded)


def _load(
    data: DataFile,
    loader: Loader,
    encoded: Callable[[Row], tuple[bytes | None, bytes]],
    advance: Advance,
) -> None:
    row = None
    try:
        for number, row in enumerate(data.rows()):
            loader.put(*encoded(row))
            if number % _PROGRESS_EVERY == 0:
                advance(data.done, data.total)
    except (Unfit, RecordTooLarge, UsageError) as error:
        loader.flush()
        were = "was" if loader.sent == 1 else "were"
        before = f"; {counted(loader.sent, 'row')} before it {were} loaded"
        if isinstance(error, UsageError):
            raise UsageError(f"{error}{before}") from None
        what = str(error) or "is larger than the topic's max.message.bytes allows"
        assert row is not None, "only a row can be unfit"
        raise UsageError(f"{data.wrong(row.place, what)}{before}") from None
    loader.flush()


def encoded(
    row: Row,
    key: str,
    conversion: Conversion,
    encode: Callable[[dict[str, object]], bytes],
) -> tuple[bytes | None, bytes]:
    """Key and value of a row. Raises Unfit where it is no record of its side."""
    if key not in row.values:
        known = ", ".join(row.values)
        raise Unfit(f"column {key} is missing: name the join key's with --key (there: {known})")
    record = conversion.record(row.values)
    try:
        return _key_bytes(key, row.values), encode(record)
    except Unfit:
        raise
    except UnicodeEncodeError:
        # JSON can spell half of a surrogate pair, which is no text.
        raise Unfit(f"{key} has a character that UTF-8 cannot hold") from None
    except ValueError as error:
        raise Unfit(f"does not fit the schema: {error}") from None


def _key_bytes(name: str, values: Mapping[str, Any]) -> bytes | None:
    """A key as other producers would write it: text as UTF-8, an integer in decimal digits.

    An empty cell of a CSV file is no key: taken for an empty one, rows without keys would meet.
    """
    value = values[name]
    if value is None or isinstance(value, Blank):
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    raise Unfit(f"{name} must be a text or an integer, but is {value!r}")
