"""The configuration of encodings: fields, units, kinds, the Schema Registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from app.formats import worker_codec
from schemas.fields import KINDS, TimeUnits
from schemas.records import Kind, Side
from schemas.times import scale_of
from tests.unit.jobs import MINIMAL, job
from tests.unit.test_config import wrong
from tests.unit.test_readme import README, blocks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("own", "unit", "scale"), [("s", "ms", 1000), ("ms", "ns", 10**6), ("us", "us", 1)]
)
def test_times_of_a_side_are_turned_into_the_jobs_unit(
    tmp_path: Path, own: str, unit: str, scale: int
) -> None:
    text = f'unit = "{unit}"\n' + MINIMAL.replace('"l"', f'"l"\ntime_unit = "{own}"')
    config = job(tmp_path, text)
    units = config.fields(Side.LEFT).units
    assert set(units) == {own}
    assert [scale_of(one, config.unit) for one in units] == [scale] * 3
    assert set(config.fields(Side.RIGHT).units) == {None}


def test_each_time_of_a_side_can_have_a_unit_of_its_own(tmp_path: Path) -> None:
    text = MINIMAL.replace('"l"', '"l"\ntime_unit = { ts = "s", end = "ms" }')
    assert job(tmp_path, text).fields(Side.LEFT).units == TimeUnits("s", None, "ms")


def test_the_readmes_json_job_reads_the_record_that_it_shows(tmp_path: Path) -> None:
    (text,) = [text for text in blocks("toml") if 'name = "shifts-alarms"' in text]
    (record,) = re.findall('`({"no": 7.*?})`', README)
    value = record.encode()
    (parts,) = worker_codec(job(tmp_path, text)).decode_batch(Side.LEFT, [value])
    assert parts == (
        1740996000250, 1740994200000, "7", 1740994200000, Kind.INSERT, value,
    )  # fmt: skip


JSON = '\n[schema]\nformat = "json"\n'


def test_kinds_are_words_of_the_side(tmp_path: Path) -> None:
    lines = '"l"\nkinds = { c = "insert", r = "insert", d = "retract", hb = "watermark" }'
    config = job(tmp_path, MINIMAL.replace('"l"', lines) + JSON)
    assert config.fields(Side.LEFT).kinds == {
        "c": Kind.INSERT,
        "r": Kind.INSERT,
        "d": Kind.RETRACT,
        "hb": Kind.WATERMARK,
    }
    assert config.fields(Side.RIGHT).kinds is KINDS


def test_kinds_without_an_insert_are_refused(tmp_path: Path) -> None:
    named = MINIMAL.replace('"l"', '"l"\nfields.kind = "op"\nkinds = { d = "retract" }')
    without = MINIMAL.replace('"l"', '"l"\nkinds = { d = "retract" }')
    for text in (named, named + JSON, without):
        assert "left.kinds has no word for an insert, so no row is read: add it" in wrong(
            tmp_path, text
        )
    # Here a record without a kind is one.
    assert job(tmp_path, without + JSON).fields(Side.LEFT).kinds == {"d": Kind.RETRACT}


@pytest.mark.parametrize(
    ("lines", "form", "kind", "may_miss"),
    [
        ("", "", "kind", True),
        ("", JSON, "kind", True),
        ('\nfields.id = "x"', "", "kind", False),
        ('\nfields.id = "x"', JSON, None, False),
        ('\nfields.kind = "op"', JSON, "op", False),
        ('\nfields.id = "x"\nschema = "x.avsc"', "", None, False),
    ],
)
def test_a_kind_is_read_where_it_is_named(
    tmp_path: Path, lines: str, form: str, kind: str | None, may_miss: bool
) -> None:
    fields = job(tmp_path, MINIMAL.replace('"l"', f'"l"{lines}') + form).fields(Side.LEFT)
    assert (fields.kind, fields.kind_may_miss) == (kind, may_miss)


def test_json_has_no_schema_files(tmp_path: Path) -> None:
    text = MINIMAL.replace('"l"', '"l"\nschema = "x.avsc"') + JSON
    assert "left.schema is the file of an Avro schema" in wrong(tmp_path, text)
    text = MINIMAL.replace('"l"', '"l"\ntime_unit = "rfc3339"') + JSON
    assert 'left.time_unit is "rfc3339", which cannot' in wrong(tmp_path, f'unit = "none"\n{text}')


def test_the_registry_client_takes_any_property(tmp_path: Path) -> None:
    lines = '[schema]\nformat = "registry"\nregistry.url = "http://localhost:1"\n'
    text = MINIMAL + lines + 'registry."max.retries" = 2\n'
    name = "SPANJOIN_SCHEMA__REGISTRY__BASIC_AUTH_USER_INFO"
    config = job(tmp_path, text, {name: "me:secret"})
    assert config.registry == {
        "url": "http://localhost:1",
        "max.retries": 2,
        "basic.auth.user.info": "me:secret",
    }
    assert "secret" not in repr(config)
    assert config.match_subject == "out-value"
    assert job(tmp_path, text + 'subject = "own"\n').match_subject == "own"
