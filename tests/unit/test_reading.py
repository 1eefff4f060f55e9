"""How `read` writes, and what `--follow` says before the changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.cli import run_command
from app.options import Format
from app.reading import Request, _follow, form_for
from tests.unit.jobs import job, write_job

if TYPE_CHECKING:
    from collections.abc import Iterator


class Source:
    """An output with so many live matches, in which nothing happens any more."""

    topic = "out"
    outer = False

    def __init__(self, count: int) -> None:
        self.codec = self
        self.scanner = self
        self._count = count

    def close(self) -> None:
        """It is the scanner, too."""

    def match_columns(self) -> list[tuple[str, object]]:
        return [("id", "string")]

    def live(self) -> Iterator[dict[bytes, bytes]]:
        yield {f"L:{number}|R:r".encode(): b"v" for number in range(self._count)}

    def changes(self) -> Iterator[list[Any]]:
        raise KeyboardInterrupt

    def row(self, key: bytes, _value: bytes) -> dict[str, Any]:
        return {"id": key.decode(), "start": 0, "end": 1, "left": {"id": "l"}, "right": {"id": "r"}}


@pytest.mark.parametrize(
    ("form", "limit", "count", "lines", "note"),
    [
        ("table", None, 25, 20, "the last 20 of 25 live matches come first (--limit N for more)"),
        ("table", 3, 25, 3, "the last 3 of 25 live matches come first (--limit N for more)"),
        ("table", None, 20, 20, ""),
        ("table", 30, 25, 25, ""),
        ("jsonl", None, 25, 25, ""),
    ],
)
def test_it_says_how_many_it_begins_with(  # noqa: PLR0917
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
    limit: int | None,
    count: int,
    lines: int,
    note: str,
) -> None:
    request = Request(form, follow=True, limit=limit, output=None)
    _follow(job(tmp_path), request, Source(count))  # type: ignore[arg-type]
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == lines
    assert said.err.partition(", then")[0] == note


@pytest.mark.parametrize(
    ("asked", "output", "form"),
    [
        (None, None, "table"),
        (None, "out.parquet", "parquet"),
        (None, "out.PQ", "parquet"),
        (None, "out.csv", "csv"),
        (None, "out.json", "jsonl"),
        (None, "out.txt", "table"),
        (Format.CSV, "out.parquet", "csv"),
        (Format.TABLE, "out.jsonl", "table"),
        (Format.JSONL, None, "jsonl"),
    ],
)
def test_the_format_is_the_one_asked_for_or_that_of_the_name(
    asked: Format | None, output: str | None, form: str
) -> None:
    assert form_for(asked, None if output is None else Path(output)) == form


@pytest.mark.parametrize(
    ("name", "begins"),
    [("m.parquet", b"PAR1"), ("m.csv", b"id\nL:0|R:r\n"), ("m.jsonl", b'{"id":"L:0|R:r",')],
)
def test_a_file_is_written_as_its_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begins: bytes
) -> None:
    monkeypatch.setattr("app.reading.Source", lambda _: Source(2))
    path = str(tmp_path / name)
    assert run_command(["read", "-c", str(write_job(tmp_path)), "--output", path]) == 0
    assert Path(path).read_bytes().startswith(begins)
    assert not list(tmp_path.glob("*.partial"))


def test_a_table_that_fails_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(2)
    monkeypatch.setattr("app.reading.Source", lambda _: source)
    path = tmp_path / "table.txt"
    arguments = ["read", "-c", str(write_job(tmp_path)), "--output", str(path)]
    assert run_command(arguments) == 0
    before = path.read_text()
    assert "2 live matches in out" in before
    monkeypatch.setattr(source, "row", lambda *_: 1 // 0)
    assert run_command(arguments) == 1
    assert path.read_text() == before
    assert not list(tmp_path.glob("*.partial"))
