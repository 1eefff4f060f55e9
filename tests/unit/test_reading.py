"""What `read --follow` says before the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.reading import Request, _follow
from tests.unit.jobs import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Source:
    """An output with so many live matches, in which nothing happens any more."""

    topic = "out"
    outer = False

    def __init__(self, count: int) -> None:
        self.codec = self
        self._count = count

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
