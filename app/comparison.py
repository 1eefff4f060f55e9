"""The log of matches against what a batch join says, in SQL; for the demo and for `check`.

Two tables are compared. `expected` has a row for each match that can ever have been written: match
(its id), fate ("stands", "retracted", or "either" where the inputs do not say), overlap_start,
overlap_end. `log` has a row for each record of the output topic: match, gone (whether it is a
tombstone), overlap_start and overlap_end (null where they are not to be compared), place (grows
within a match).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import duckdb

# What each match went through, beside what should have become of it.
JUDGED_SQL: Final = """
create or replace table judged as
with found as (
    select
        match,
        count(*) filter (not gone) as inserts,
        count(*) filter (gone) as tombstones,
        not arg_max(gone, place) as live,
        arg_min(gone, place) as first_gone,
        bool_or(not gone and not before_gone) as twice,
        any_value(overlap_start) filter (not gone) as overlap_start,
        any_value(overlap_end) filter (not gone) as overlap_end
    from (
        select *, lag(gone, 1, true) over (partition by match order by place) as before_gone
        from log
    )
    group by match
)
select
    match,
    fate,
    coalesce(live, false) as live,
    coalesce(inserts, 0) as inserts,
    coalesce(tombstones, 0) as tombstones,
    coalesce(first_gone, false) as first_gone,
    coalesce(twice, false) as twice,
    coalesce(
        expected.overlap_start <> found.overlap_start or expected.overlap_end <> found.overlap_end,
        false
    ) as wrong
from expected full join found using (match)
"""

FAULTS: Final[Mapping[str, str]] = {
    "missing": "fate = 'stands' and not live",
    "stale": "fate = 'retracted' and live",
    "extra": "fate is null and live",
    "twice": "twice",
    "repeated": "inserts > 1 or tombstones > 1",
    "taken_back": "fate = 'stands' and live and tombstones > 0",
    "never_there": "first_gone",
    "baseless": "fate is null",
    "wrong": "wrong",
}
"""What can be wrong with a match, as a condition on `judged`.

missing: expected, but not live at the log's end. stale: live, although a row of it was retracted.
extra: live, but of no pair that overlaps. twice: written again without having been taken back.
repeated: written or taken back more than once. taken_back: live and expected, but taken back in
between. never_there: taken back before it was ever written. baseless: of a pair that never
overlapped, live or not. wrong: another overlap than expected.
"""


class Comparison(NamedTuple):
    """Counts of matches: expected to stand, of these live, written and taken back; and faults."""

    expected: int
    live: int
    retracted: int
    faults: Mapping[str, int]

    @property
    def agrees(self) -> bool:
        """Whether the log is exactly what was expected, and that something."""
        return self.live == self.expected > 0 and not any(self.faults.values())


def compare(tables: duckdb.DuckDBPyConnection) -> Comparison:
    """Compare the table `log` with the table `expected`."""
    tables.execute(JUDGED_SQL)
    conditions = [
        "fate = 'stands'",
        "fate = 'stands' and live",
        "fate = 'retracted' and inserts > 0 and not live",
        *FAULTS.values(),
    ]
    counts = ", ".join(f"count(*) filter ({condition})" for condition in conditions)
    row = tables.execute(f"select {counts} from judged").fetchall()[0]  # noqa: S608 (our own)
    expected, live, retracted, *faults = row
    return Comparison(expected, live, retracted, dict(zip(FAULTS, faults, strict=True)))


def differences(
    tables: duckdb.DuckDBPyConnection, limit: int = 5, names: Iterable[str] = FAULTS
) -> Iterator[tuple[str, Any]]:
    """Some matches with each of these faults, for a person to look into: (fault, match)."""
    for name in names:
        query = f"select match from judged where {FAULTS[name]} order by match limit {limit}"  # noqa: S608
        for (match,) in tables.execute(query).fetchall():
            yield name, match
