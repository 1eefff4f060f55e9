"""Quix Streams as a row of the table: the program in quix/, in an environment of its own.

Not in this project's lock: its client is of another version. What is installed is pinned with
hashes in quix/requirements.txt.
"""

from __future__ import annotations

import subprocess
import venv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.kafka_streams import match_header
from bench.systems import Place, Started, distinct_matches
from bench.workload import LATENESS_MS, REACH_MS

if TYPE_CHECKING:
    from bench.workload import Workload

ROOT: Final = Path(__file__).parent.parent
PROGRAM: Final = Path(__file__).parent / "quix" / "join.py"
REQUIREMENTS: Final = PROGRAM.with_name("requirements.txt")
ENVIRONMENT: Final = ROOT / ".tools" / "quix"
INSTALL_TIMEOUT_S: Final = 600.0


@cache
def install() -> Path:
    """Make the environment where there is none of these requirements; returns its `python`."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print("installing Quix Streams into an environment of its own", flush=True)
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
             "--require-hashes", "-r", str(REQUIREMENTS)],
            check=True,
            timeout=INSTALL_TIMEOUT_S,
        )  # fmt: skip
        stamp.write_text(wanted)
    return python


def version() -> str:
    """The pinned version."""
    name = "quixstreams=="
    line = next(one for one in REQUIREMENTS.read_text().splitlines() if one.startswith(name))
    return line.removeprefix(name).rstrip(" \\")


@dataclass
class _StartedQuix(Started):
    def ready(self) -> bool:
        """It has said so."""
        return "ready" in self.logs[0].read_text()


@dataclass(frozen=True)
class QuixStreams:
    """One process; it knows no threads."""

    name: str = "Quix Streams, join_interval"
    part: float = 0.1

    def expected(self, workload: Workload) -> int:
        """All matches."""
        return len(workload.matches)

    def found(self, workload: Workload, output: list[tuple[bytes, bytes | None]]) -> int:
        """The matches found."""
        return distinct_matches(workload, output)

    def start(self, place: Place) -> Started:
        """Start the process."""
        started = _StartedQuix()
        arguments = [
            place.bootstrap_servers, place.name, *place.inputs, place.output, REACH_MS,
            2 * REACH_MS + LATENESS_MS, place.directory / "quix-state", match_header(),
            files("schemas") / "event.avsc",
        ]  # fmt: skip
        started.launch(
            [str(install()), str(PROGRAM), *map(str, arguments)],
            place.directory / f"{place.name}.log",
            {"PYTHONPATH": str(ROOT)},
        )
        return started
