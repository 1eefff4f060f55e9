"""What SQL says of flights and weather, as `app.comparison` wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

# The matches of flights that never took off may come and go, so they are listed too.
EXPECTED_SQL: Final = """
create or replace table expected as
select
    case when flown then 'stands' else 'retracted' end as fate,
    'L:' || flights.id || '|R:' || weather.id as match,
    greatest(departure, since) as overlap_start,
    least(arrival, until) as overlap_end
from flights join weather
    on flights.origin = weather.origin and departure <= until and since <= arrival
"""


def expect(tables: duckdb.DuckDBPyConnection) -> int:
    """Let SQL join the tables `flights` and `weather` into `expected`; returns how many stand."""
    tables.execute(EXPECTED_SQL)
    count = "select count(*) from expected where fate = 'stands'"
    return int(tables.execute(count).fetchall()[0][0])
