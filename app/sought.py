"""What is known of two rows that somebody asks about: by the lane's state, and by the topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.rows import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import Side


class Terms(NamedTuple):
    """What the lane joins by: L, D, its watermark (None: minus infinity), the unit of times."""

    lateness: int
    max_interval: int
    watermark: int | None
    unit: str

    @property
    def horizon(self) -> int:
        """How long after its end a row can match or be retracted."""
        return self.lateness + self.max_interval


class Stored(NamedTuple):
    """What the lane's state has of a row; `unmatched`: written as such by an outer join."""

    start: int
    end: int
    ts: int
    flags: int
    unmatched: bool = False


class Refusal(NamedTuple):
    """Why a record was rejected."""

    reason: str
    detail: str


class Sighting(NamedTuple):
    """A record of an input with the row's id. `taken`: it is before the position of the join.

    `resharded`: it was written and taken before a reshard, when its key may have had another lane.
    """

    partition: int
    offset: int
    key: bytes | None
    kind: int
    ts: int
    start: int
    end: int
    taken: bool = True
    refusal: Refusal | None = None
    resharded: bool = False


@dataclass(slots=True)
class Sought:
    """A row that is asked about, and all that was found of it, each in order.

    `searched` is False where only the state was asked; `rejects_from` is the offset from which the
    rejects were read. `elsewhere` is what has its id in another
    partition or under another key; `asked` are key and lane that were asked for. Of its topic,
    `older` offsets were not looked at, and `gone` ones are there no more.
    """

    side: Side
    id: str
    asked: tuple[bytes, int]
    stored: Sequence[Stored] = ()
    sightings: Sequence[Sighting] = ()
    elsewhere: Sequence[Sighting] = ()
    searched: bool = False
    rejects_from: int = 0
    older: int = 0
    gone: int = 0

    @property
    def name(self) -> str:
        """How it is called in a sentence."""
        return f"{self.side.name.lower()} {printable(self.id)}"

    @property
    def whole(self) -> bool:
        """Whether all that its topic ever had was looked at."""
        return self.searched and not (self.older or self.gone)
