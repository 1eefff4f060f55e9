"""`load` writes nothing that a worker would not take for its schema or its unit."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from structlog.testing import capture_logs

from app.conversion import Unfit
from app.datafiles import BLANK, Row
from app.errors import UsageError
from app.formats import make_codec
from app.loading import encoded, row_conversion
from app.readable import Readable, check_schema
from schemas.records import Side
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from pathlib import Path

    from app.config import Config

NOW_MS: Final = int(time.time() * 1000)


def event(time_type: Any = "long", **more: Any) -> Any:
    kinds = {"id": "string", "ts": time_type, "start": time_type, "end": time_type, **more}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return {"type": "record", "name": "E", "fields": fields}


def logical(name: str) -> Any:
    return {"type": "long", "logicalType": f"timestamp-{name}"}


def job_of(
    folder: Path, schema: Any = None, unit: str = "ms", left: str = "", table: str = ""
) -> Config:
    if schema is not None:
        (folder / "own.avsc").write_text(json.dumps(schema))
        left += 'schema = "own.avsc"\n'
    text = MINIMAL.replace('name = "job"', f'name = "job"\nunit = "{unit}"')
    return job(folder, text.replace('topic = "l"\n', f'topic = "l"\n{left}') + table)


def put(config: Config, *rows: dict[str, Any]) -> list[bytes]:
    """The values that `load` makes of these rows."""
    codec = make_codec(config, sure=True)
    conversion = row_conversion(config, Side.LEFT, codec)
    readable = Readable(config, Side.LEFT, codec)
    found = [encoded(Row(1, {"key": "k", **row}), "key", conversion, readable.encode)
             for row in rows]  # fmt: skip
    return [value for _, value in found]


def at(ts: Any, **more: Any) -> dict[str, Any]:
    return {"id": "a", "ts": ts, "start": ts, "end": ts, **more}


@pytest.mark.parametrize(
    ("time_type", "left", "why"),
    [
        (logical("micros"), "", '"us", finer than unit = "ms"'),
        (logical("millis"), 'time_unit = "s"\n', 'by its logical type, but time_unit says "s"'),
        ({"type": "int", "logicalType": "time-millis"}, "", "is a time of a day, not a moment"),
        ("double", "", "ts"),
        ("long", 'fields = { id = "no" }\n', "the schema has no field 'no'"),
    ],
    ids=["finer", "declared otherwise", "no moment", "no number", "another field"],
)
def test_a_schema_that_workers_cannot_read_is_refused_as_a_whole(
    tmp_path: Path, time_type: Any, left: str, why: str
) -> None:
    table = '[schema]\nformat = "registry"\nregistry.url = "http://localhost:1"\n'
    config = job_of(tmp_path, left=left, table=table)
    with pytest.raises(UsageError) as told:
        check_schema(config, Side.LEFT, event(time_type))
    said = str(told.value)
    assert said.startswith("the newest schema of subject l-value does not fit the job")
    assert why in said
    assert said.endswith("; nothing was written")
    assert "\n" not in said
    own = job_of(tmp_path, event(time_type), left=left, table=table)
    with pytest.raises(UsageError, match=r"^left\.schema does not fit the job"):
        check_schema(own, Side.LEFT, event(time_type))


def test_one_that_they_read_is_taken(tmp_path: Path) -> None:
    table = '[schema]\nformat = "registry"\nregistry.url = "http://localhost:1"\n'
    for unit in ("ms", "us", "ns"):
        check_schema(job_of(tmp_path, unit=unit, table=table), Side.LEFT, event(logical("millis")))


KINDS: Final = 'fields = { kind = "op" }\nkinds = { c = "insert", d = "retract" }\n'
NULLABLE: Final = ["null", "long"]


@pytest.mark.parametrize(
    ("schema", "left", "row", "why"),
    [
        (event(op="string"), KINDS, at(1, op="u"), "the kind 'u' is none of c, d"),
        (event(NULLABLE), "", at(None), "ts"),
    ],
    ids=["a word that is no kind", "no time"],
)
def test_a_row_that_workers_cannot_read_is_unfit(
    tmp_path: Path, schema: Any, left: str, row: dict[str, Any], why: str
) -> None:
    config = job_of(tmp_path, schema, left=left)
    with pytest.raises(Unfit, match="would be rejected as undecodable: ") as told:
        put(config, row)
    assert why in str(told.value)


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_in_a_finer_unit_than_their_schemas_are_unfit(tmp_path: Path, unit: str) -> None:
    """The job's unit is finer; so is the file, but its schema is not."""
    config = job_of(tmp_path, event(logical("millis")), unit=unit)
    good, wrong = at(NOW_MS), at(NOW_MS * 1000)
    assert len(put(config, good, good)) == 2
    with pytest.raises(Unfit, match='looks like "us" but is read as "ms", and would be rejected'):
        put(config, wrong)


def test_the_same_of_a_declared_unit_in_json(tmp_path: Path) -> None:
    table = '[schema]\nformat = "json"\n'
    config = job_of(tmp_path, left='time_unit = "s"\n', table=table)
    put(config, at(NOW_MS // 1000))
    with pytest.raises(Unfit, match='looks like "ms" but is read as "s"'):
        put(config, at(NOW_MS))


def test_times_in_a_coarser_unit_are_told_once(tmp_path: Path) -> None:
    """A worker takes them; but they are of January 1970, and match nothing of today."""
    with capture_logs() as told:
        put(job_of(tmp_path), at(NOW_MS // 1000), at(NOW_MS // 1000))
        put(job_of(tmp_path), at(NOW_MS))
    assert [line["event"] for line in told] == [
        'the times look like "s", not "ms": correct time_unit or unit'
    ]


def test_odd_times_that_a_worker_takes_are_taken(tmp_path: Path) -> None:
    config = job_of(tmp_path)
    # Of 1970, and a few hours ahead: nobody would reject these.
    for ts in (-1, 0, 5, NOW_MS // 1000, NOW_MS + 3_600_000):
        put(config, at(ts))
    # Rejected later, but in no other unit would it be of today.
    put(config, at(2**62))
    put(job_of(tmp_path, left="", unit="ms", table='max_future = "off"\n'), at(NOW_MS * 1000))


@pytest.mark.parametrize(
    ("key", "written"), [(BLANK, None), (None, None), ("", b""), ("k", b"k"), (7, b"7")]
)
def test_an_empty_cell_is_no_key(tmp_path: Path, key: Any, written: bytes | None) -> None:
    config = job_of(tmp_path)
    codec = make_codec(config)
    conversion = row_conversion(config, Side.LEFT, codec)
    row = Row(1, {"key": key, **at(1)})
    found, _ = encoded(row, "key", conversion, lambda one: codec.encode_event(Side.LEFT, one))
    assert found == written
