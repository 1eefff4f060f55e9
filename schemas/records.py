"""The words every layer shares: sides, kinds, events, rejects.

Times are int64 in the job's unit. Offsets are always *next* offsets: the position of a side is the
offset of the first record that has not been taken yet.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
NO_OFFSET: Final = -1
"""Where an offset is asked for and no record is meant."""


class Side(IntEnum):
    """One of the two inputs; the value is an index into pairs ordered (left, right)."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> Side:
        """The opposite side."""
        return Side(1 - self)


class Kind(IntEnum):
    """What an event does; the values are the positions in the Avro enum."""

    INSERT = 0
    RETRACT = 1
    WATERMARK = 2


class JoinType(StrEnum):
    """Which rows the output holds besides the matches; the values are the configuration's."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"

    @property
    def preserved(self) -> tuple[Side, ...]:
        """The sides whose rows are written also when nothing matches them."""
        return _PRESERVED[self]

    @property
    def optional(self) -> tuple[bool, bool]:
        """Whether the left side, and the right one, may be missing in an output record."""
        return Side.RIGHT in self.preserved, Side.LEFT in self.preserved


_PRESERVED: Final[dict[JoinType, tuple[Side, ...]]] = {
    JoinType.INNER: (),
    JoinType.LEFT: (Side.LEFT,),
    JoinType.RIGHT: (Side.RIGHT,),
    JoinType.FULL: (Side.LEFT, Side.RIGHT),
}


class Reason(StrEnum):
    """Why an input was rejected, in the order in which the checks are made."""

    NULL_VALUE = "null_value"
    UNDECODABLE = "undecodable"
    NULL_KEY = "null_key"
    OUT_OF_RANGE = "out_of_range"
    INVALID_INTERVAL = "invalid_interval"
    INTERVAL_TOO_LONG = "interval_too_long"
    FUTURE_TS = "future_ts"
    CONFLICTING_DUPLICATE = "conflicting_duplicate"
    LATE = "late"
    RETRACT_AFTER_HORIZON = "retract_after_horizon"
    TOO_LARGE = "too_large"


Parts = tuple[int, int, str, int, int, bytes]
"""(end, start, id, ts, kind, value) of a decoded record: those of an INSERT are its row as it is
stored. A plain tuple is made several times faster than a named one, and one is made of every
record."""


@final
class Fault(NamedTuple):
    """Why a record is not taken, with a detail for people."""

    reason: Reason
    detail: str


Arrival = tuple[int, int, int, bytes | None, Parts | Fault, object]
"""(rank, side, offset, key, parts or why there are none, source) of a record that waits for its
turn, see `app.merge` for its rank. A plain tuple, and its side a plain number, for the same reason.
"""


class Event(NamedTuple):
    """One decoded input record, by names, for everything but the hot path.

    `key` is None only where the message had no key. `value` is the whole Kafka value, framing
    included. `source` is the vendor's message, opaque to every pure module: rejects are copied
    from it at the edge.
    """

    offset: int
    key: bytes | None
    id: str
    ts: int
    start: int
    end: int
    kind: int
    value: bytes
    source: object


class Rejected(NamedTuple):
    """An input (or a match) that is not taken: a value, never an exception.

    `match_id` is set for a match, or an unmatched row, that is too large for its topic: the reject
    is written under that id with an empty value. Then `source` is the record that would have
    caused the match. Time alone makes a row unmatched, so there it is the row's side, and `offset`
    is NO_OFFSET. Else that is the source's own, so that a side's position can move past it.
    """

    offset: int
    reason: Reason
    detail: str
    source: object
    match_id: bytes | None = None


Record = Event | Rejected


def event_of(offset: int, key: bytes | None, parts: Parts, source: object) -> Event:
    """The parts of a record by their names."""
    end, start, row_id, ts, kind, value = parts
    return Event(offset, key, row_id, ts, start, end, kind, value, source)
