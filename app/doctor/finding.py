"""What an examination says: one line each, with how to mend what is wrong."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is: as it should be; worth knowing; a person must change something."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One thing that was looked at. `mend` is what a person can do about it, if anything."""

    level: Level
    text: str
    mend: str = ""

    @property
    def line(self) -> str:
        """The finding on one line."""
        mend = f": {self.mend}" if self.mend else ""
        return f"{self.level:<4} {' '.join(f'{self.text}{mend}'.split())}"


def ok(text: str) -> Finding:
    """As it should be."""
    return Finding(Level.OK, text)


def warn(text: str, mend: str = "") -> Finding:
    """Worth knowing; the job runs."""
    return Finding(Level.WARN, text, mend)


def fail(text: str, mend: str = "") -> Finding:
    """The job cannot run, or what it writes is not what somebody wants."""
    return Finding(Level.FAIL, text, mend)
