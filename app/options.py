"""Options that several commands share, and the configuration that each begins with."""

# Commands import what they need when they run: `spanjoin --help` must not wait for pyarrow.
# ruff: noqa: PLC0415

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.config import Config, load_config

ConfigOption = Annotated[
    Path,
    typer.Option(
        "-c", "--config", help="The job's configuration (TOML).", envvar="SPANJOIN_CONFIG"
    ),
]


class SideName(StrEnum):
    """A side as it is written on the command line."""

    LEFT = "left"
    RIGHT = "right"


class Format(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class DataFormat(StrEnum):
    """How data to be loaded is read."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Partitioner(StrEnum):
    """How a key's partition is found; see `schemas.partition`."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    FNV1A = "fnv1a"


def checked_config(path: Path) -> Config:
    """The configuration, also judged by the Kafka client. Raises UsageError."""
    from app import log
    from app.kafka.check import check_properties

    config = load_config(path)
    log.configure(config.log)
    check_properties(config)
    return config
