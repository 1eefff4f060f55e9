from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import structlog

from app import log
from app.settings import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(LogTable(format="json", level="info"))
    logger = structlog.get_logger()
    logger.debug("unseen")
    logger.warning("lane", lane=3, held_ms=5)
    out, err = capsys.readouterr()
    assert out == ""
    found = json.loads(err)
    assert (found["event"], found["level"], found["lane"], found["held_ms"]) == (
        "lane", "warning", 3, 5,
    )  # fmt: skip
    assert found["timestamp"].endswith("Z")


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(LogTable(format="human", level="debug"))
    structlog.get_logger().debug("topic created", topic="a")
    out, err = capsys.readouterr()
    assert out == ""
    assert "topic created" in err
    assert "topic=a" in err
    assert "\x1b[" not in err, "no colours into a file"


@pytest.mark.parametrize("form", ["json", "human"])
def test_secrets_are_hidden(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(LogTable(format="json" if form == "json" else "human"))
    structlog.get_logger().info(
        "x", **{"sasl.password": "hunter2", "oauth_token": "hunter2", "Secret": "hunter2"}
    )
    assert "hunter2" not in capsys.readouterr().err


def test_a_command_tells_no_more_of_its_worker_than_was_asked_for() -> None:
    assert log.beside_results(LogTable()).level == "warning"
    assert log.beside_results(LogTable(format="json")).format == "json"
    for level in ("debug", "info", "error"):
        assert log.beside_results(LogTable.model_validate({"level": level})).level == level
