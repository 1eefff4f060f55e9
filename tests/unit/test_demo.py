"""The demo's own parts: its data, the comparison that judges it, and what it shows."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import duckdb
import fastavro
import pytest

from app.comparison import Comparison, compare, differences
from app.config import load_config
from app.demo import data, follow, run, show
from app.demo.compare import expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with data.open_tables() as tables:
        yield tables


def rows(tables: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return tables.execute(query).fetchall()


def test_the_data_are_what_they_are_known_to_be(tables: duckdb.DuckDBPyConnection) -> None:
    counted = "select count(*), count(distinct id), count(*) filter (flown) from flights"
    assert rows(tables, counted) == [(336_776, 336_776, data.FLOWN)]
    assert rows(tables, "select count(*), count(distinct id) from weather") == [(data.HOURS,) * 2]
    longest = rows(tables, "select max(arrival - departure), min(arrival - departure) from flights")
    assert longest == [(41_700_000, 1_200_000)]


def test_streams_are_in_event_time_order_and_take_back_what_never_flew(
    tables: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    streams = data.write_streams(tables, tmp_path)
    never = 336_776 - data.FLOWN
    assert (streams.flight_rows, streams.weather_rows) == (336_776 + never, data.HOURS)
    found = rows(
        tables,
        f"""with stream as (select *, row_number() over () as place from '{streams.flights}')
        select count(*) filter (kind = 'RETRACT'), count(distinct id) filter (kind = 'RETRACT'),
            (select count(*) from stream i join stream r using (id)
             where i.kind = 'INSERT' and r.kind = 'RETRACT' and i.place >= r.place),
            (select count(*) from (select departure - lag(departure) over (order by place) as step
             from stream where kind = 'INSERT') where step < 0)
        from stream""",
    )
    assert found == [(never, never, 0, 0)]
    backwards = rows(
        tables,
        "select count(*) from (select since - lag(since) over () as step "
        f"from '{streams.weather}') where step < 0",
    )
    assert backwards == [(0,)]


def test_the_rows_fit_their_schemas_and_the_job_is_valid(
    tables: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    streams = data.write_streams(tables, tmp_path)
    for path, schema in zip(streams[:2], (data.FLIGHT_SCHEMA, data.WEATHER_SCHEMA), strict=True):
        parsed: Any = fastavro.parse_schema(json.loads(schema.read_text()))
        found = tables.execute("from read_parquet($path) limit 1000", {"path": str(path)})
        names = [column[0] for column in found.description or []]
        assert names == [field["name"] for field in parsed["fields"]]
        for row in found.fetchall():
            assert fastavro.validate(dict(zip(names, row, strict=True)), parsed)
    config = load_config(run.CONFIG, {})
    assert config.max_interval >= 41_700_000


@pytest.fixture
def small() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two flights, one of which never took off, and two hours at one airport."""
    with duckdb.connect() as tables:
        tables.execute("create table flights (id text, flown bool, departure bigint, "
                       "arrival bigint, origin text)")  # fmt: skip
        tables.execute("create table weather (id text, since bigint, until bigint, origin text)")
        tables.execute(
            "insert into flights values ('f', true, 5, 25, 'EWR'), ('g', false, 5, 8, 'EWR')"
        )
        tables.execute("insert into weather values ('w', 0, 9, 'EWR'), ('x', 10, 19, 'EWR')")
        tables.execute("insert into weather values ('y', 26, 30, 'EWR'), ('z', 0, 9, 'JFK')")
        yield tables


RIGHT = ["L:f|R:w\tfalse\t5\t9\t0", "L:f|R:x\tfalse\t10\t19\t1"]
RETRACTED = ["L:g|R:w\tfalse\t5\t8\t2", "L:g|R:w\ttrue\t\t\t3"]


def judged(tables: duckdb.DuckDBPyConnection, path: Path, log: list[str]) -> Comparison:
    path = path / "log"
    path.write_text("".join(f"{line}\n" for line in log))
    tables.execute(follow.LOAD_SQL, {"path": str(path)})
    return compare(tables)


@pytest.mark.parametrize("log", [RIGHT, RIGHT + RETRACTED, RETRACTED + RIGHT[::-1]])
def test_the_right_log_agrees(
    small: duckdb.DuckDBPyConnection, tmp_path: Path, log: list[str]
) -> None:
    assert expect(small) == 2
    comparison = judged(small, tmp_path, log)
    assert comparison.agrees, comparison
    assert comparison.retracted == len(log) // 4


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        (RIGHT[:1], "missing"),
        ([*RIGHT, "L:f|R:w\ttrue\t\t\t5"], "missing"),
        (RIGHT + RETRACTED[:1], "stale"),
        ([*RIGHT, "L:f|R:y\tfalse\t5\t9\t5"], "extra"),
        ([*RIGHT, "L:f|R:w\tfalse\t5\t9\t5"], "twice"),
        ([*RIGHT, "L:f|R:w\tfalse\t5\t9\t5"], "repeated"),
        ([*RIGHT, *RETRACTED, "L:g|R:w\ttrue\t\t\t5"], "repeated"),
        (["L:f|R:w\tfalse\t5\t9\t7", "L:f|R:w\ttrue\t\t\t3", *RIGHT[1:]], "never_there"),
        ([*RIGHT, RETRACTED[1]], "never_there"),
        ([*RIGHT, "L:f|R:y\tfalse\t5\t9\t5", "L:f|R:y\ttrue\t\t\t6"], "baseless"),
        ([*RIGHT[:1], "L:f|R:x\tfalse\t10\t20\t1"], "wrong"),
    ],
)
def test_each_fault_is_found(
    small: duckdb.DuckDBPyConnection, tmp_path: Path, log: list[str], fault: str
) -> None:
    expect(small)
    comparison = judged(small, tmp_path, log)
    assert not comparison.agrees
    assert comparison.faults[fault] == 1, comparison
    assert fault in {name for name, _ in differences(small)}


def test_an_empty_log_is_no_agreement(small: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    expect(small)
    assert judged(small, tmp_path, []).faults["missing"] == 2


def test_the_overlap_is_read_from_a_whole_match() -> None:
    schema = {
        "type": "record",
        "name": "Match",
        "fields": [{"name": n, "type": t} for n, t in
                   (("start", "long"), ("end", "long"), ("left", "string"))],
    }  # fmt: skip
    body = io.BytesIO()
    match = {"start": -(2**63), "end": 2**63 - 1, "left": "x"}
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), match)
    assert follow.overlap(bytes(10) + body.getvalue()) == (-(2**63), 2**63 - 1)


def test_a_match_reads_well() -> None:
    flight = {"carrier": "UA", "number": 1545, "origin": "EWR"}
    match = {"left": flight, "right": {"temperature": 39.02, "wind": 12.65858}}
    times = ("05:17", "09:04")
    assert show.match_line(match, times) == "UA 1545, EWR 05:17-09:04: 39 F, wind 13 mph"
    match["right"] = {"temperature": None, "wind": None}
    assert show.match_line(match, times) == "UA 1545, EWR 05:17-09:04: no measurement"


def lane(number: int, left: int, right: int) -> dict[str, Any]:
    return {
        "lane": number, "phase": "running", "rows": 7,
        "left": {"position": left, "lag": 1}, "right": {"position": right, "lag": None},
    }  # fmt: skip


def test_progress_follows_a_lane_from_worker_to_worker() -> None:
    progress = show.Progress(total=100)
    progress.heard("worker 1", {"lanes": [lane(0, 5, 6), lane(1, 1, 1)]})
    assert progress.read == 13
    progress.silent("worker 1")
    assert progress.read == 13
    assert progress.lanes == {}
    progress.heard("worker 2", {"lanes": [lane(0, 0, 0), lane(1, 2, 1)]})
    assert progress.read == 14
    assert {owner for owner, _ in progress.lanes.values()} == {"worker 2"}
    show.live_view(progress)
