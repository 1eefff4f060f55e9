"""The files of the page, what comes with them, and what they are answered."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from app import page
from schemas.records import Side
from tests.worker_page import Worker, row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = {path: found for path in page.PATHS if (found := page.file(path)) is not None}
TEXTS: Final = {path: found.body.decode() for path, found in FILES.items()}


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.take((Side.LEFT, row("l1", 0, 10)), (Side.RIGHT, row("r|1 %", 5, 9)))
    yield worker
    worker.server.close()


def get(worker: Worker, path: str) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", worker.server.port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def test_files_come_with_a_policy(worker: Worker) -> None:
    kinds = {
        "/": "html",
        "/page.css": "css",
        "/page.js": "javascript",
        "/timeline.js": "javascript",
    }
    assert set(kinds) == page.PATHS
    for path, kind in kinds.items():
        code, text, headers = get(worker, path)
        assert (code, text) == (200, TEXTS[path])
        assert headers["Content-Type"] == f"text/{kind}; charset=utf-8"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; " in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_nothing_is_loaded_from_elsewhere_or_written_as_markup() -> None:
    for path, text in TEXTS.items():
        assert set(re.findall(r"https?://[^\"'\s`]*", text)) <= {"http://www.w3.org/2000/svg"}, path
        for risky in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "@import",
        ):
            assert risky not in text, path
        assert not re.search(r"\bon\w+=|\sstyle=|javascript:", text), path
    loaded = re.findall(r'(?:src|href)="([^"]+)"', TEXTS["/"]) + re.findall(
        r'from "\./([^"]+)"', TEXTS["/page.js"]
    )
    assert {f"/{name}" for name in loaded if not name.startswith("data:")} == page.PATHS - {"/"}


def test_what_the_scripts_look_for_is_there() -> None:
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', TEXTS["/page.js"]))
    there = re.findall(r'\bid="([\w-]+)"', TEXTS["/"])
    assert wanted <= set(there)
    assert len(there) == len(set(there))
    labelled = set(re.findall(r'<label for="([\w-]+)"', TEXTS["/"]))
    inputs = re.findall(r'(<label[^>]*>)?\s*<input id="([\w-]+)"', TEXTS["/"])
    assert {name for label, name in inputs if not label} <= labelled, "every input has a label"


def test_the_answers_of_a_key(worker: Worker) -> None:
    code, text, _ = get(worker, f"/timeline?key=k&lane={worker.number}&left=l1&right=r%7C1+%25")
    assert code == 200
    found = json.loads(text)
    assert found["explanation"][0].endswith("The match is L:l1|R:r%7C1 %25.")
    code, text, _ = get(worker, "/timeline?key=%00%ff&lane=3")
    assert (code, text) == (503, "lane 3 is not running on this worker\n")


@pytest.mark.parametrize("query", ["", "lane=1", "key=k&left=a", "key=k&right=b", "key=k&lane=x"])
def test_a_question_that_is_none(worker: Worker, query: str) -> None:
    code, text, _ = get(worker, f"/timeline?{query}")
    assert code == 400
    assert text.startswith("ask /timeline?key=KEY, ")


def test_the_job(worker: Worker) -> None:
    code, text, headers = get(worker, "/job")
    assert code == 200
    assert json.loads(text)["left"] == "lefts"
    assert headers["Content-Type"] == "application/json"


def test_the_wheel_has_the_page(tmp_path: Path) -> None:
    build = "from hatchling.builders.wheel import WheelBuilder as B; import sys; "
    build += "print(next(B(sys.argv[1]).build(directory=sys.argv[2], versions=['standard'])))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(ROOT), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    with zipfile.ZipFile(done.stdout.strip()) as wheel:
        names = set(wheel.namelist())
    assert {f"app/page/{name}" for name, _ in page._FILES.values()} <= names


def palettes() -> list[dict[str, str]]:
    """The colours of the light page and of the dark one, by name."""
    light, dark = re.findall(r":root \{(.*?)\}", TEXTS["/page.css"], re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#\w{6});", text)) for text in (light, dark)]


def luminance(colour: str) -> float:
    """By the Web Content Accessibility Guidelines."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", palettes(), ids=["light", "dark"])
def test_everything_can_be_read(colours: dict[str, str]) -> None:
    backs = {
        name: ["page", "panel"] for name in ("text", "quiet", "left", "right", "good", "focus")
    }
    backs |= {"warn": ["warn-back"], "bad": ["bad-back"]}
    for name in ("text", "quiet", "focus"):
        backs[name] += ["warn-back", "bad-back"]
    for name, behind in backs.items():
        for back in behind:
            pair = sorted(luminance(colours[one]) + 0.05 for one in (name, back))
            assert pair[1] / pair[0] >= 4.5, f"{name} on {back}: {pair[1] / pair[0]:.1f}"
