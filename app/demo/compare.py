"""The answer of a batch join in SQL over the same rows, and how the log of matches differs from it.

The whole committed log is compared, not only what is live at its end: "exactly once" means that
each expected match was written once and never taken back, and every other one was taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

# The matches of flights that never took off may come and go, so they are listed too.
EXPECTED_SQL: Final = """
create or replace table expected as
select
    flown,
    'L:' || flights.id || '|R:' || weather.id as match,
    greatest(departure, since) as overlap_start,
    least(arrival, until) as overlap_end
from flights join weather
    on flights.origin = weather.origin and departure <= until and since <= arrival
"""

# What each match went through.
FOUND_SQL: Final = """
create or replace table found as
select
    match,
    count(*) filter (not gone) as inserts,
    count(*) filter (gone) as tombstones,
    arg_max(gone, place) as final_gone,
    arg_min(gone, place) as first_gone,
    any_value(overlap_start) filter (not gone) as overlap_start,
    any_value(overlap_end) filter (not gone) as overlap_end
from log group by match
"""

COMPARISON_SQL: Final = """
select
    count(*) filter (in_sql) as expected,
    count(*) filter (in_sql and stands) as live,
    count(*) filter (in_sql and not stands) as missing,
    count(*) filter (not in_sql and stands) as extra,
    count(*) filter (inserts > 1 or tombstones > 1) as repeated,
    count(*) filter (in_sql and stands and tombstones > 0) as taken_back,
    count(*) filter (first_gone) as never_there,
    count(*) filter (not listed) as baseless,
    count(*) filter (wrong) as wrong,
    count(*) filter (not in_sql and inserts > 0 and not stands) as retracted
from (
    select
        expected.match is not null as listed,
        coalesce(expected.flown, false) as in_sql,
        not coalesce(final_gone, true) as stands,
        coalesce(inserts, 0) as inserts,
        coalesce(tombstones, 0) as tombstones,
        coalesce(first_gone, false) as first_gone,
        coalesce(
            expected.overlap_start <> found.overlap_start
            or expected.overlap_end <> found.overlap_end, false
        ) as wrong
    from expected full join found using (match)
)
"""


class Comparison(NamedTuple):
    """Counts of matches; everything from `missing` to `wrong` has to be 0.

    expected: in the answer of SQL. live: of these, standing at the log's end. missing: of these,
    not standing. extra: standing, but not expected. repeated: written or taken back more than
    once. taken_back: expected and standing, but taken back in between. never_there: taken back
    before it was ever written. baseless: of a pair that never overlapped. wrong: another overlap
    than expected. retracted: written and taken back, as the flight was cancelled.
    """

    expected: int
    live: int
    missing: int
    extra: int
    repeated: int
    taken_back: int
    never_there: int
    baseless: int
    wrong: int
    retracted: int

    @property
    def agrees(self) -> bool:
        """Whether the log is exactly the answer of SQL."""
        return self.live == self.expected > 0 and not any(self.faults().values())

    def faults(self) -> dict[str, int]:
        """What has to be 0, by name."""
        names = self._fields[self._fields.index("missing") : self._fields.index("retracted")]
        return {name: getattr(self, name) for name in names}


def expect(tables: duckdb.DuckDBPyConnection) -> int:
    """Let SQL join the tables `flights` and `weather` into `expected`; returns how many stand."""
    tables.execute(EXPECTED_SQL)
    return int(tables.execute("select count(*) from expected where flown").fetchall()[0][0])


def compare(tables: duckdb.DuckDBPyConnection) -> Comparison:
    """Compare the table `log` with the table `expected`.

    `log` has a row for each record of the output topic: match (its id), gone (whether it is a
    tombstone), overlap_start and overlap_end (null in a tombstone), place (grows within a match).
    """
    tables.execute(FOUND_SQL)
    row = tables.execute(COMPARISON_SQL).fetchall()[0]
    return Comparison(*(int(value) for value in row))


def differences(tables: duckdb.DuckDBPyConnection, limit: int = 5) -> Iterator[str]:
    """Some matches that are missing, extra or repeated, for a person to look into."""
    queries = {
        "missing": """select match from expected
            anti join (from found where not final_gone) using (match) where flown""",
        "extra": """select match from found
            anti join (from expected where flown) using (match) where not final_gone""",
        "baseless": "select match from found anti join expected using (match)",
        "repeated": "select match from found where inserts > 1 or tombstones > 1",
    }
    for name, query in queries.items():
        for (match,) in tables.execute(f"{query} order by match limit {limit}").fetchall():
            yield f"{name}: {match}"
