from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import pytest

from app.datafiles import BLANK, Blank, Row, format_of, open_data
from app.errors import UsageError


def rows(path: Path, form: str | None = None) -> list[Row]:
    with open_data(path, form) as data:
        return list(data.rows())


def write(directory: Path, name: str, content: bytes) -> Path:
    path = directory / name
    path.write_bytes(content)
    return path


def test_csv(tmp_path: Path) -> None:
    text = '\ufeffid,start,note\r\na,9007199254740993,"x,\ny"\r\n\r\nb,,\r\n'
    found = rows(write(tmp_path, "x.csv", text.encode()))
    assert found == [
        Row(3, {"id": "a", "start": "9007199254740993", "note": "x,\ny"}),
        Row(5, {"id": "b", "start": "", "note": ""}),
    ]
    assert isinstance(found[1].values["start"], Blank)
    assert BLANK == ""


def test_any_text_is_a_cell_as_it_is(tmp_path: Path) -> None:
    cells = ["é", "\ufeff", "\U0001f600", "\u2028", "\x85", "\ud7ff\ue000"]
    content = "\n".join(["\ufeffñ", *cells])
    found = rows(write(tmp_path, "x.csv", content.encode()))
    assert found == [Row(place, {"ñ": cell}) for place, cell in enumerate(cells, 2)]


def test_a_byte_that_is_no_text_is_named_on_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.BytesIO(b"a\n" + b"x\n" * 300 + b"\xe9t\xe9\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    with pytest.raises(UsageError, match=r"^-:302: is not UTF-8: invalid continuation byte$"):
        rows(Path("-"), "csv")


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "x.jsonl", b'{"id":"a","n":9007199254740993}\n\n{"id":null}')
    assert rows(path) == [Row(1, {"id": "a", "n": 2**53 + 1}), Row(3, {"id": None})]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = {"id": ["a", None], "n": pa.array([2**63 - 1, None], pa.int64()), "b": [b"\xff", b""]}
    pq.write_table(pa.table(table), path)
    assert rows(path) == [
        Row(1, {"id": "a", "n": 2**63 - 1, "b": b"\xff"}),
        Row(2, {"id": None, "n": None, "b": b""}),
    ]


def test_progress_reaches_the_total(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(1000))
    for name in ("x.jsonl", "x.csv"):
        content = lines if name == "x.jsonl" else b"n\n" + lines.replace(b'"', b"")
        with open_data(write(tmp_path, name, content), None) as data:
            assert len(list(data.rows())) == 1000
            assert data.done == data.total == len(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "x.csv:1: the file is empty"),
        ("x.csv", b"a,a\n", "x.csv:1: column a is there twice"),
        ("x.csv", b"a,b\n1,2\n1\n", "x.csv:3: has 1 columns, but the first line has 2"),
        ("x.csv", b'a\n"x', "x.csv:2: is not valid CSV"),
        ("x.csv", b"a\n\xff\n", "x.csv:2: is not UTF-8: invalid start byte"),
        ("x.csv", b"\xff\n1\n", "x.csv:1: is not UTF-8"),
        ("x.csv", b"a\n" * 5_000 + b"\xc3\xa9\n\xc3\n", "x.csv:5002: is not UTF-8: invalid"),
        ("x.csv", b'a\n"\r\nx\n\xed\xa0\x80"\n', "x.csv:4: is not UTF-8"),
        ("x.csv", b"a\r1\r\xe2\x82", "x.csv:3: is not UTF-8: unexpected end of data"),
        ("x.jsonl", b'{"a":1}\n{"a":\n', "x.jsonl:2: is not valid JSON"),
        ("x.jsonl", b"[1]\n", "x.jsonl:1: must be an object"),
        ("x.jsonl", b'{"a":"\xff"}\n', "x.jsonl:1: is not UTF-8"),
        ("x.jsonl", b'{"a":' + b"9" * 5000 + b"}\n", "x.jsonl:1: is not valid JSON"),
        ("x.parquet", b"not parquet", "x.parquet: cannot be read as Parquet"),
        ("x.txt", b"", "x.txt: say its format with --format csv, jsonl or parquet"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        rows(write(tmp_path, name, content))
    assert message in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.csv: cannot be read: No such file"):
        rows(tmp_path / "no.csv")
    with pytest.raises(UsageError, match="Parquet cannot be read from standard input"):
        rows(Path("-"), "parquet")


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("a.CSV", None, "csv"),
        ("a.ndjson", None, "jsonl"),
        ("a.json", None, "jsonl"),
        ("a.pq", None, "parquet"),
        ("a.csv", "jsonl", "csv"),
        ("a.jsonl", "csv", "jsonl"),
        ("a.csv.gz", "jsonl", "jsonl"),
        ("a", "csv", "csv"),
        ("-", "csv", "csv"),
    ],
)
def test_formats(name: str, form: Any, expected: str) -> None:
    assert format_of(Path(name), form) == expected
