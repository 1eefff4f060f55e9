"""`watermark`: one WATERMARK event into each partition of a side.

Invariant: nothing is written that a worker would not take for a watermark.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from app.conversion import Unfit
from app.errors import UsageError
from app.formats import make_codec
from app.kafka.load import BYTES_MAX, Loader
from app.loading import opened_input, row_conversion
from app.readable import Readable
from app.validity import fault_of, limits_of
from schemas.records import Fault, Kind, event_of

if TYPE_CHECKING:
    from app.config import Config
    from schemas.records import Parts, Side


def send_watermark(config: Config, side: Side, at: str) -> str:
    """Say that a side has come as far as `at` in every partition; returns what was done.

    `at` is a time as a row of a file has it that is loaded into that side. Raises UsageError,
    Unreachable or Crash.
    """
    value = _value(config, side, at)
    topic = config.side(side).topic
    found = opened_input(config, side)
    loader = Loader(config, topic, int(found.settings[BYTES_MAX]))
    for partition in range(found.partitions):
        loader.put(None, value, partition)
    loader.flush()
    return f'watermark {at} sent to the {found.partitions} partitions of "{topic}"'


def _value(config: Config, side: Side, at: str) -> bytes:
    fields, name = config.fields(side), side.name.lower()
    word = next((word for word, kind in fields.kinds.items() if kind == Kind.WATERMARK), None)
    if fields.kind is None or word is None:
        raise UsageError(
            f"nothing in a record of the {name} side can say that it is a watermark: name the "
            f"field with {name}.fields.kind, and its word with {name}.kinds"
        )
    codec = make_codec(config, sure=True)
    # A field may be several of these.
    row: dict[str, Any] = {fields.id: "", fields.start: at, fields.end: at, fields.ts: at}
    row[fields.kind] = word
    try:
        record = row_conversion(config, side, codec).record(row)
        value = Readable(config, side, codec).encode(record)
        _check(config, codec.decode_batch(side, [value])[0])
    except ValueError as error:
        why = str(error) if isinstance(error, Unfit) else f"does not fit the schema: {error}"
        raise UsageError(f"no watermark of the {name} side can be made of {at!r}: {why}") from None
    return value


def _check(config: Config, parts: Parts | Fault) -> None:
    """Raises Unfit where a worker would reject it now."""
    assert not isinstance(parts, Fault), "it was read as one that is none"
    now, ahead = config.now_in_unit(time.time() * 1000), config.max_future
    latest = None if now is None or ahead is None else now + ahead
    limits = limits_of(config.lateness, config.max_interval, latest)
    fault = fault_of(event_of(0, None, parts, None), limits)
    if fault is not None:
        raise Unfit(f"would be rejected as {fault[0]}: {fault[1]}")
