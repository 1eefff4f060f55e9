"""The table of a benchmark, for the terminal and for RESULTS.md."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import confluent_kafka

from app.broker.interface import KAFKA_VERSION
from bench.procfs import memory_gb, processor

if TYPE_CHECKING:
    from bench.runs import Figures
    from bench.workload import Workload

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
_BEGIN: Final = "<!-- written by `{}`: begin -->"
_END: Final = "<!-- written by `{}`: end -->"
_PACKAGES: Final = ("confluent-kafka", "fastavro", "rocksdict")

Results = dict[str, list["Figures"]]
"""System -> one entry a round."""


def table(results: Results, records: int, reference: str) -> str:
    """Medians over the rounds; ratios are medians of each round's own ratio."""
    lines = [
        "| system | records/s | of the client | CPU s per million | peak MB | found / expected |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for system, rounds in results.items():
        rate = median(records / one.seconds for one in rounds)
        ratio = median(
            other.seconds / one.seconds
            for one, other in zip(rounds, results[reference], strict=False)
        )
        cpu = median(one.cpu_seconds for one in rounds) / records * 1e6
        peak = max(one.peak_mb for one in rounds)
        found = min(rounds, key=lambda one: one.found / one.expected)
        missing = found.expected - found.found
        note = f" (**{missing:,} missing**)" if missing else ""
        lines.append(
            f"| {system} | {rate:,.0f} | {ratio:.2f} | {cpu:.1f} | {peak:.0f} "
            f"| {found.found:,} / {found.expected:,}{note} |"
        )
    return "\n".join(lines)


def setting(workload: Workload, rounds: int, command: str) -> str:
    """Machine, versions, workload and command, in a few lines."""
    return (
        f"{environment()}"
        f"- Workload: {workload.records:,} records, {workload.keys:,} keys, {workload.lanes} "
        f"partitions, {len(workload.matches):,} matches. {rounds} rounds, the systems in turn in "
        f"each; medians.\n"
        f"- Command: `{command}`\n"
    )


def environment() -> str:
    """Machine and versions, a line each."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"- Machine: {processor()}, {memory_gb():.0f} GB, {platform.system()} "
        f"{platform.release()}; the broker on the same machine.\n"
        f"- Versions: spanjoin at commit {_commit()}, Python {platform.python_version()}, "
        f"{packages}, librdkafka {confluent_kafka.libversion()[0]}, Kafka {KAFKA_VERSION}.\n"
    )


def write(text: str, part: str = "make bench") -> None:
    """Put the figures of a part into its place in RESULTS.md; what else is written there stays."""
    begin, end = _BEGIN.format(part), _END.format(part)
    before, _, rest = RESULTS.read_text().partition(begin)
    after = rest.partition(end)[2]
    RESULTS.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or "unknown"
