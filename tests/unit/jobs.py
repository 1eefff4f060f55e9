"""Configuration files for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.config import Config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MINIMAL = """\
name = "job"
[kafka]
"bootstrap.servers" = "localhost:9092"
[left]
topic = "l"
[right]
topic = "r"
[output]
topic = "out"
[join]
allowed_lateness = "10s"
max_interval = "12h"
"""


def write_job(directory: Path, text: str = MINIMAL, name: str = "job.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def job(directory: Path, text: str = MINIMAL, environ: Mapping[str, str] | None = None) -> Config:
    return load_config(write_job(directory, text), environ or {})
