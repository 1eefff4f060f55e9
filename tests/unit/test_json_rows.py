from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types
import pytest

from app.conversion import Unfit
from app.datafiles import BLANK
from app.json_rows import JsonRows
from app.rows import Csv, Parquet
from schemas.fields import Fields, TimeUnits
from schemas.json_codec import JsonCodec
from schemas.records import Side

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = Fields("no", "at", "at", "to", "op", units=TimeUnits("s", "s", "rfc3339"))


def record(key: str = "key", /, **row: object) -> dict[str, Any]:
    return JsonRows(FIELDS, key).record(row)


def test_every_column_is_a_field_but_the_keys() -> None:
    assert record(key="k", no="7", x=[1, {"y": None}]) == {"no": "7", "x": [1, {"y": None}]}
    assert record("no", no="7") == {"no": "7"}


def test_times_of_a_file_without_types_are_numbers() -> None:
    assert record(at="9007199254740993", to="2025-03-03T06:00:00Z", no="12", x="13") == {
        "at": 2**53 + 1,
        "to": "2025-03-03T06:00:00Z",
        "no": "12",
        "x": "13",
    }
    # The codec decides about what is none.
    assert record(at="1.5")["at"] == "1.5"
    assert record(at=1.5)["at"] == 1.5


def test_an_empty_cell_is_no_field() -> None:
    assert record(no="1", op=BLANK, x="") == {"no": "1", "x": ""}


@pytest.mark.parametrize(("value", "name"), [(b"x", "x"), ({"y": [b"x"]}, "x.y")])
def test_what_json_has_no_value_for_is_told(value: object, name: str) -> None:
    with pytest.raises(Unfit, match=f"{name} is b'x', for which JSON has no value"):
        record(x=value)


def test_matches_are_shown_as_json_texts(tmp_path: Path) -> None:
    codec = JsonCodec((Fields(kind_may_miss=True),) * 2)
    event = codec.encode_event(
        Side.LEFT, {"id": "a", "ts": 1, "start": 1, "end": 2**63 - 1, "x": "\u00e9"}
    )
    row = {"id": "L:a|R:a", **codec.decode_match(codec.match_value(1, 2, event, event))}
    stream = io.StringIO()
    Csv(stream, [name for name, _ in codec.match_columns()]).write(row)
    (shown,) = csv.DictReader(io.StringIO(stream.getvalue()))
    assert json.loads(shown["left"]) == json.loads(event)
    sink = Parquet(tmp_path / "x.parquet", codec.match_columns())
    sink.write(row)
    sink.close()
    (found,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert json.loads(found["right"]) == json.loads(event)
    assert (found["start"], found["end"]) == (1, 2)
