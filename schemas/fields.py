"""What the join reads of a side's records, whatever they are encoded in."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from schemas.records import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final[Mapping[str, int]] = MappingProxyType({kind.name: int(kind) for kind in Kind})
"""What a kind is called where the side has no words of its own -> the kind."""


class TimeUnits(NamedTuple):
    """The declared unit of each time; None where nothing was declared.

    Then it is what the writer's schema says, else the job's unit.
    """

    ts: str | None = None
    start: str | None = None
    end: str | None = None


class Fields(NamedTuple):
    """Which fields of a side's records the join reads, and how.

    Several may be the same field. Without `kind` every record is an INSERT. `kinds`: the words
    that the kind may be, and what each stands for. `kind_may_miss`: where no schema says which
    fields there are, a record without that field is an INSERT.
    """

    id: str = "id"
    ts: str = "ts"
    start: str = "start"
    end: str = "end"
    kind: str | None = "kind"
    kinds: Mapping[str, int] = KINDS
    units: TimeUnits = TimeUnits()
    kind_may_miss: bool = False
