"""The README's table of settings is the program's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.config import Config
from app.settings import Setting, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[2] / "README.md"
HEAD = "| setting | unit | default | meaning |"


def table() -> str:
    """The table as it must stand in the README: both sides have the same settings, told once."""
    return "\n".join([HEAD, "|---|---|---|---|", *map(_row, _once(settings_of(Config)))])


def _once(settings: Iterator[Setting]) -> Iterator[Setting]:
    for setting in settings:
        if setting.key.startswith("left."):
            name = setting.key.removeprefix("left.")
            yield setting._replace(key=f"left.{name}` `right.{name}")
        elif not setting.key.startswith("right."):
            yield setting


def _row(setting: Setting) -> str:
    default = setting.default
    shown = default if default in {"", "mandatory"} else f"`{default}`"
    return f"| `{setting.key}` | {setting.unit} | {shown} | {setting.meaning} |"


def test_every_setting_has_a_meaning() -> None:
    settings = list(settings_of(Config))
    assert len({setting.key for setting in settings}) == len(settings)
    for setting in settings:
        assert setting.meaning, setting.key


def test_the_readme_has_every_setting() -> None:
    text = README.read_text("utf-8")
    if HEAD not in text:
        pytest.skip("the README has no table of settings yet")
    start = text.index(HEAD)
    found = text[start : text.index("\n\n", start)]
    assert found == table(), f"the table must be:\n{table()}"
