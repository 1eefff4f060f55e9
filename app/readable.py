"""Whether a worker will take what `load` writes, as far as schemas and units decide that.

Invariant: what a worker would reject as undecodable is not written, and where a whole schema or the
unit of a whole file is wrong, nothing is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from app.conversion import Unfit
from app.errors import UsageError
from app.suspicion import Suspicion, likely_unit
from schemas.layout import Layout
from schemas.records import Fault
from schemas.registry_codec import HEADER_SIZE
from schemas.times import NANOSECONDS_OF

if TYPE_CHECKING:
    from app.config import Config
    from schemas.codec import Codec
    from schemas.match_schema import Json
    from schemas.records import Side


def check_schema(config: Config, side: Side, schema: Json) -> None:
    """That the schema which a Schema Registry job writes with is one that it can read.

    Of schemas in files the codec itself says so: there a writer has no other. Raises UsageError.
    """
    name = side.name.lower()
    try:
        Layout(schema, config.fields(side), config.unit, HEADER_SIZE)
    except ValueError as error:
        own = config.side(side).schema_file
        whose = f"the newest schema of subject {config.side(side).topic}-value"
        raise UsageError(
            f"{whose if own is None else f'{name}.schema'} does not fit the job, whose workers "
            f"would reject each record: {error}; correct unit, {name}.time_unit or {name}.fields, "
            f"or name a schema that fits with {name}.schema; nothing was written"
        ) from None


class Readable:
    """Encodes records of a side, and reads each of them again as a worker will."""

    def __init__(self, config: Config, side: Side, codec: Codec) -> None:
        self._config = config
        self._side = side
        self._codec = codec
        self._suspicion = Suspicion(config)
        self._any = False

    def encode(self, record: dict[str, Any]) -> bytes:
        """A record's value. Raises Unfit for one that is no event, ValueError for no record."""
        value = self._codec.encode_event(self._side, record)
        (parts,) = self._codec.decode_batch(self._side, [value])
        if isinstance(parts, Fault):
            raise Unfit(f"would be rejected as {parts.reason}: {parts.detail}")
        if not self._any:
            self._any = True
            self._check_unit(record, parts[3])
            self._suspicion.look(self._side, parts)
        return value

    def _check_unit(self, record: dict[str, Any], ts: int) -> None:
        """That the file has its times in the unit of their schema.

        Where that is coarser than the file's, all of them come to lie in the far future. Odd times
        may be meant, so only those are refused that a worker would reject.
        """
        config = self._config
        now, written = config.now_in_unit(time.time() * 1000), record[config.fields(self._side).ts]
        if now is None or config.max_future is None or ts <= now + config.max_future:
            return
        if not isinstance(written, int) or written <= 0:
            return
        tick = NANOSECONDS_OF[config.unit] * (ts // written)
        unit = next((name for name, size in NANOSECONDS_OF.items() if size == tick), config.unit)
        likely = likely_unit(written, unit)
        if likely is not None:
            raise Unfit(
                f'has the time {written}, which looks like "{likely}" but is read as "{unit}", and '
                f"would be rejected as future_ts: correct the file, or the unit that time_unit or "
                f"the schema says"
            )
