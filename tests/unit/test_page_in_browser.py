"""The page in a headless Chromium: light and dark, hostile texts, nothing and much to show."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pytest

from app.access import Access
from schemas.records import JoinType, Kind, Side
from tests.browser import FOUND, Chromium
from tests.worker_page import Worker, other_lane, row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(FOUND is None, reason="no Chromium on this machine")

HOSTILE: Final = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Rows of every kind, and lanes in and out of trouble."""
    worker = Worker(JoinType.FULL)
    worker.take((Side.LEFT, row("alone", -90, -75)))
    worker.advance(12)
    worker.take(
        (Side.LEFT, row("l1", 10, 30, payload=HOSTILE.encode())),
        (Side.RIGHT, row("r1", 25, 40)),
        (Side.RIGHT, row("r2", 31, 45)),
        (Side.RIGHT, row(HOSTILE, 15, 20)),
        (Side.LEFT, row("l3", 20, 50)),
        (Side.LEFT, row("l3", 20, 50, kind=Kind.RETRACT)),
        (Side.RIGHT, row("r9", 40, 60, kind=Kind.RETRACT)),
    )
    worker.advance(24)
    worker.others = [
        other_lane(1),
        other_lane(2, phase="restoring"),
        other_lane(3, phase=None, owner=None, address=""),
    ]
    yield worker
    worker.server.close()


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    return Chromium(tmp_path / "profile")


def texts(document: str, tag: str) -> list[str]:
    """The texts of the innermost elements of a name."""
    found = re.findall(rf"<{tag}\b[^>]*>([^<]*)</{tag}>", document)
    return [unescape(one) for one in found]


def test_light_and_dark(worker: Worker, tmp_path: Path) -> None:
    url = f"{worker.url}#key=k&left=l1&right=r1"
    light, dark = (
        Chromium(tmp_path / name, dark=name == "dark").picture(url, tmp_path / f"{name}.png")
        for name in ("light", "dark")
    )
    assert light.brightness > 200
    assert dark.brightness < 80
    for picture in (light, dark):
        assert (picture.width, picture.height) == (640, 480)
        assert len(picture.colours) > 50, "an empty page has one"


def test_what_is_shown_is_text(worker: Worker, chromium: Chromium) -> None:
    ids = f"left=l1&right={quote(HOSTILE, safe='')}"
    document = chromium.document(f"{worker.url}#key=k&table&{ids}")
    assert texts(document, "title")[0] == "job · spanjoin"
    assert "<img" not in document
    assert document.count("<script") == 1
    # Both in the table, and why they match.
    assert HOSTILE in texts(document, "button")
    why = next(line for line in texts(document, "li") if "overlap" in line)
    assert why.startswith(
        "Their intervals overlap for 5, from 15 to 20. The match is L:l1|R:<script>"
    )
    # The lanes of all workers, and who is in trouble.
    assert "2 of 4 run · 2 workers · 2 in trouble" in document
    assert [text for text in texts(document, "small") if "nobody" in text] == ["nobody has it"]
    assert '<tr data-name="3" class="bad-row"><th scope="row">3</th>' in document
    assert '<tr data-name="2" class="warn-row"><th scope="row">2</th>' in document
    for shown in (
        "row of-left live expired unmatched",
        "row of-left retracted",
        "row of-right remembered",
    ):
        assert f'class="{shown}"' in document
    assert len(texts(document, "title")) >= 10, "rows and matches have words of their own"


def test_many_rows_and_lanes(worker: Worker, chromium: Chromium) -> None:
    for side in Side:
        worker.take(*((side, row(f"{at}", 24 + at // 20, 24 + at // 20)) for at in range(1_000)))
    worker.others = [other_lane(number) for number in range(1, 1_000)]
    document = chromium.document(f"{worker.url}#key=k&table")
    assert "the newest 500 of 1,003 left rows, the newest 500 of 1,004 right rows" in document
    assert "800 more lanes are not shown" in document
    assert document.count('class="row of-left ') == 500


def test_a_key_of_any_bytes_that_has_no_rows(worker: Worker, chromium: Chromium) -> None:
    lane = worker.number
    document = chromium.document(f"{worker.url}#hex=ff00&lane={lane}")
    assert (
        f"Lane {lane}, epoch 7, watermark 24. The state holds no live row of this key" in document
    )


def test_a_token_is_asked_for(chromium: Chromium) -> None:
    worker = Worker(access=Access("0123456789abcdef"))
    try:
        document = chromium.document(worker.url)
    finally:
        worker.server.close()
    assert '<form id="login" class="panel">' in document, "no longer hidden"
    assert "lefts" not in document


def test_a_lane_that_stands_still_and_one_that_is_elsewhere(worker: Worker, tmp_path: Path) -> None:
    worker.others = [other_lane(3, right={"position": 5, "lag": 9, "watermark": 20})]
    chromium = Chromium(tmp_path / "profile", budget_ms=15_000)
    document = chromium.document(f"{worker.url}#key=k&lane=3")
    # It has three records left to read and takes none; the other nine offsets may be no records.
    assert [text for text in texts(document, "small") if "still" in text] == ["right stands still"]
    assert "1 in trouble" in document
    link = '<a href="http://127.0.0.1:1/#key=k&amp;lane=3">job-host-2</a>'
    assert f"Lane 3 is on {link}." in document
