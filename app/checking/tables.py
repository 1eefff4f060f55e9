"""What the job has read and written, as tables; and the batch join over them.

`events`: the inputs' records that can be decoded, up to the job's positions. `refused`: the rejects
topic. `rows`: the rows that were taken, each with its fate. `due`: of an outer join, before which
end each lane has decided about rows without a match. `pairs`: rows that overlap; `results`: those
and the unmatched rows. `expected` and `log`: what `app.comparison` compares. Keys, ids and values
are bytes, as they came; `part` is a row's part of a match id, and `place` its offset.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from app.arrow import table_of
from app.checking import sql
from app.checking.fates import Taken, fates
from schemas.match_id import unmatched_id
from schemas.records import INT64_MAX, INT64_MIN, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from app.kafka.rejects import Reject
    from app.kafka.scan import Read
    from schemas.records import Event, Side

Fated = tuple[str, int, int, str]
"""Side, lane and place of a row, and its fate."""

MEMORY_MAX: Final = "2GB"
"""Beyond that the database uses its file: workers may run on the same machine."""
FETCHED_ROWS: Final = 10_000
PARTITION_STEP: Final = 1 << 40
"""A match stays in one partition, where offsets order its records; so the partitions may be put one
behind the other."""


class Expected(NamedTuple):
    """What a result may be: its overlap and the values of both rows; None where there is none."""

    start: int
    end: int
    left: bytes | None
    right: bytes | None


def _may_be_row(event: Event) -> bool:
    held = INT64_MIN <= min(event.start, event.end) <= max(event.start, event.end) <= INT64_MAX
    return event.kind != Kind.WATERMARK and event.key is not None and held


class Tables:
    """A database of one comparison, in a file, so that it may be larger than memory."""

    def __init__(self, path: Path) -> None:
        self.database = duckdb.connect(str(path), config={"memory_limit": MEMORY_MAX})
        self.database.execute(sql.TABLES)

    def close(self) -> None:
        """Let the database go."""
        self.database.close()

    def add_events(self, side: Side, events: Iterable[tuple[int, Event]]) -> None:
        """Records of an input, each with its lane.

        A WATERMARK is no row; what has no key, or times that no table holds, was rejected.
        """
        found = [one for one in events if _may_be_row(one[1])]
        rows = [event for _, event in found]
        self._insert(
            "events",
            {
                "side": ("string", [side.name.lower()] * len(rows)),
                "lane": ("int", [lane for lane, _ in found]),
                "place": ("long", [event.offset for event in rows]),
                "key": ("bytes", [event.key for event in rows]),
                "part": ("bytes", [unmatched_id(side, event.id) for event in rows]),
                "retracts": ("boolean", [event.kind == Kind.RETRACT for event in rows]),
                "low": ("long", [event.start for event in rows]),
                "high": ("long", [event.end for event in rows]),
                "value": ("bytes", [event.value for event in rows]),
            },
        )

    def add_due(self, side: Side, ends: Mapping[int, int]) -> None:
        """By lane, the end before which it has decided about all rows of a preserved side."""
        self._insert(
            "due",
            {
                "side": ("string", [side.name.lower()] * len(ends)),
                "lane": ("int", list(ends)),
                "before": ("long", list(ends.values())),
            },
        )

    def add_rejects(self, rejects: Iterable[tuple[Side, Reject]]) -> None:
        """Records of the rejects topic, with the side they came from."""
        found = list(rejects)
        self._insert(
            "refused",
            {
                "side": ("string", [side.name.lower() for side, _ in found]),
                "lane": ("int", [reject.origin[1] for _, reject in found]),
                "place": ("long", [reject.origin[2] for _, reject in found]),
                "key": ("bytes", [reject.key for _, reject in found]),
                "reason": ("string", [reject.reason for _, reject in found]),
            },
        )

    def add_log(self, reads: Iterable[Read]) -> None:
        """Records of the output topic; one without a key is nobody's match."""
        found = [read for read in reads if read.key is not None]
        nothing = [None] * len(found)
        self._insert(
            "log",
            {
                "match": ("bytes", [read.key for read in found]),
                "gone": ("boolean", [read.value is None for read in found]),
                "place": ("long", [r.partition * PARTITION_STEP + r.offset for r in found]),
                "overlap_start": ("long", nothing),
                "overlap_end": ("long", nothing),
                "value": ("bytes", [read.value for read in found]),
            },
        )

    def _insert(self, name: str, columns: dict[str, tuple[str, list[Any]]]) -> None:
        self.database.register("batch", table_of(columns))
        self.database.execute(f"insert into {name} from batch")
        self.database.unregister("batch")

    def join(self, max_interval: int, match_bytes_max: int, *, begun_late: bool = False) -> None:
        """Join what was taken.

        `max_interval` is D, in the job's unit. A match whose id alone is larger than
        `match_bytes_max` was rejected without it. `begun_late` says that the job did not begin to
        read at the beginning.
        """
        self.database.execute("insert into stretches values (?)", [max_interval + 1])
        self.database.execute(sql.TAKEN)
        found: list[Fated] = []
        for (side, lane, *_), records in groupby(self._fetched(sql.OFTEN), itemgetter(0, 1, 2, 3)):
            taken = [Taken(*record[4:]) for record in records]
            for place, fate in fates(taken, max_interval).items():
                found.append((side, lane, place, str(fate)))
            if len(found) >= FETCHED_ROWS:
                self._add_fates(found)
                found = []
        self._add_fates(found)
        self.database.execute(sql.ROWS)
        if begun_late:
            self.database.execute(sql.BEGINNING)
        self.database.execute(sql.EXPECTED)
        self.database.execute(sql.TOO_LONG, [match_bytes_max])

    def _add_fates(self, found: list[Fated]) -> None:
        sides, lanes, places, names = map(list, zip(*found, strict=True)) if found else ([],) * 4
        self._insert(
            "fated",
            {
                "side": ("string", sides), "lane": ("int", lanes), "place": ("long", places),
                "fate": ("string", names),
            },
        )  # fmt: skip

    def matches(self) -> Iterator[tuple[bytes, list[Expected], bytes | None]]:
        """Each live match that a batch join has, too: its id, what it may be, what it is."""
        for match, found in groupby(self._fetched(sql.VALUES), itemgetter(0)):
            rows = list(found)
            yield match, [Expected(*row[1:5]) for row in rows], rows[0][5]

    def apart(self) -> int:
        """Keys that both sides have, but in no common partition."""
        return self._number(sql.APART)

    def extra_of_known_rows(self) -> int:
        """Live matches that no batch join has, although both rows are there."""
        names = [_parts_of(match) for (match,) in self._fetched(sql.EXTRA)]
        columns = {
            "left_part": ("bytes", [left for left, _ in names]),
            "right_part": ("bytes", [right for _, right in names]),
        }
        self.database.register("split", table_of(columns))
        try:
            return self._number(sql.KNOWN)
        finally:
            self.database.unregister("split")

    def either(self) -> int:
        """Expected matches that may stand or not."""
        return self._number("select count(*) from expected where fate = 'either'")

    def _number(self, query: str) -> int:
        return int(self.database.execute(query).fetchall()[0][0])

    def _fetched(self, query: str) -> Iterator[tuple[Any, ...]]:
        # On a cursor of its own: others are asked meanwhile.
        cursor = self.database.cursor()
        cursor.execute(query)
        while batch := cursor.fetchmany(FETCHED_ROWS):
            yield from batch


def _parts_of(name: bytes) -> tuple[bytes, bytes]:
    """Both sides' parts of an output key; that of an unmatched row has one."""
    left, _, right = name.partition(b"|")
    return (b"", left) if left.startswith(b"R:") else (left, right)
