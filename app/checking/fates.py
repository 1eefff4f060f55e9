"""What became of the rows of one id, from its records that were not rejected, in their order.

The join decides by the lane's watermark, which a batch does not have. Mostly that makes no
difference. With L the allowed lateness, D the max interval, a row known while wm <= end + L + D,

- an insert that was not rejected had ts >= wm - L, so wm <= its end + L;
- so it met what is known of any record of its id that ends no more than D before it;
- an insert of a live row's own interval is a duplicate: were the row forgotten, it would be late;
- one of another interval would be a conflict: as it was not rejected, the row was forgotten;
- a retraction that was not rejected found its row, unless it carries a later end than that.

Where these do not decide, the row may stand or not, and says so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fate(StrEnum):
    """What has become of a row."""

    STANDS = "stands"
    RETRACTED = "retracted"
    EITHER = "either"


class Taken(NamedTuple):
    """A record that was not rejected; `place` is its offset."""

    place: int
    retracts: bool
    start: int
    end: int


class _Known(NamedTuple):
    """The newest that is known of the id: a row, or a retraction (`place` None) that waits."""

    place: int | None
    start: int
    end: int
    fate: Fate


def fates(records: Iterable[Taken], max_interval: int) -> dict[int, Fate]:
    """By offset of the insert that made it, what became of each row of one id under one key."""
    rows: dict[int, Fate] = {}
    known: _Known | None = None
    for record in records:
        if record.retracts:
            known = _retracted(known, record)
        else:
            known = _inserted(known, record, max_interval)
        if known.place is not None:
            rows[known.place] = known.fate
    return rows


def _inserted(known: _Known | None, record: Taken, max_interval: int) -> _Known:
    place, _, start, end = record
    if known is None:
        return _Known(place, start, end, Fate.STANDS)
    if known.fate is Fate.RETRACTED:
        if end <= known.end + max_interval:
            return known  # Ignored: it was retracted before it came, or since.
        return _Known(place, start, end, Fate.EITHER)
    if (start, end) == (known.start, known.end):
        return known
    return _Known(place, start, end, known.fate)


def _retracted(known: _Known | None, record: Taken) -> _Known:
    _, _, start, end = record
    if known is None:
        return _Known(None, start, end, Fate.RETRACTED)
    if known.fate is Fate.RETRACTED:
        return known._replace(end=min(known.end, end))
    certain = end <= known.end
    return known._replace(fate=Fate.RETRACTED if certain else Fate.EITHER)
