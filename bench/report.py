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
from bench import rows
from bench.kafka_streams import JAVA_OPTIONS, java_version
from bench.procfs import memory_gb, processor
from bench.quix_streams import version as quix_version
from bench.targets import Results, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.runs import Figures
    from bench.workload import Workload

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
_BEGIN: Final = "<!-- written by `{}`: begin -->"
_END: Final = "<!-- written by `{}`: end -->"
_REFERENCES: Final = (rows.STREAMS_ONE, rows.FASTEST_ONE, rows.CLIENT)
_SHORT: Final = {
    rows.STREAMS_ONE.name: "Streams 1",
    rows.FASTEST_ONE.name: "its fastest",
    rows.CLIENT.name: "client",
}
_PACKAGES: Final = ("confluent-kafka", "fastavro", "rocksdict")


def table(results: Results) -> str:
    """Medians over the rounds; ratios are medians of each round's own ratio."""
    references = [one for one in _REFERENCES if one.name in results]
    lines = [
        "| system | records/s | CPU s per million | peak MB | found / expected |"
        + "".join(f" / {_SHORT[one.name]} |" for one in references),
        "|---|---:|---:|---:|---:|" + "---:|" * len(references),
    ]
    for system, rounds in results.items():
        rate = median(one.rate for one in rounds)
        cpu = median(one.cpu_per_million for one in rounds)
        peak = max(one.peak_mb for one in rounds)
        ratios = [ratio(results, system, one.name) or 0.0 for one in references]
        figures = f"{rate:,.0f} | {cpu:.1f} | {peak:.0f} | {_found(rounds)}"
        lines.append(
            f"| {_named(system, rounds)} | {figures} |" + "".join(f" {one:.2f} |" for one in ratios)
        )
    return "\n".join(lines)


def _named(system: str, rounds: Sequence[Figures]) -> str:
    part = rounds[0].part
    return system if part == 1 else f"{system} (on {rounds[0].records:,} records: it is slow)"


def _found(rounds: Sequence[Figures]) -> str:
    worst = max(rounds, key=lambda one: one.expected - one.found)
    if not worst.expected:
        return "writes nothing"
    missing = worst.expected - worst.found
    share = f"{missing / worst.expected:.2%}"
    note = f" (**{missing:,} missing, {share}**)" if missing else ""
    return f"{worst.found:,} / {worst.expected:,}{note}"


def setting(workload: Workload, rounds: int, command: str) -> str:
    """Machine, versions, workload and command, in a few lines."""
    return (
        f"{environment()}"
        f"- Kafka Streams: one process, `{' '.join(JAVA_OPTIONS[:2])}`.\n"
        f"- Workload: {workload.records:,} records after {workload.warm_up:,} to warm up, "
        f"{workload.keys:,} keys, {workload.lanes} partitions, {len(workload.matches):,} "
        f"matches. {rounds} rounds, the systems in turn in each; medians.\n"
        f"- Command: `{command}`\n"
    )


def command(given: Sequence[str]) -> str:
    """What to type for a run with these arguments."""
    words = [word for word in given if word != "--no-write"]
    if not words:
        return "make bench"
    return (
        f"make bench ARGS={words[0]}" if len(words) == 1 else f'make bench ARGS="{" ".join(words)}"'
    )


def environment() -> str:
    """Machine and versions, a line each."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"- Machine: {processor()}, {memory_gb():.0f} GB, {platform.system()} "
        f"{platform.release()}; the broker on the same machine.\n"
        f"- Versions: spanjoin at commit {_commit()}, Python {platform.python_version()}, "
        f"{packages}, librdkafka {confluent_kafka.libversion()[0]}, Kafka and Kafka Streams "
        f"{KAFKA_VERSION}, Java {java_version()}, Quix Streams {quix_version()}.\n"
    )


def write(text: str, part: str = "make bench") -> None:
    """Put the figures of a part into its place in RESULTS.md; what else is written there stays."""
    begin, end = _BEGIN.format(part), _END.format(part)
    before, _, rest = RESULTS.read_text().partition(begin)
    after = rest.partition(end)[2]
    RESULTS.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _commit() -> str:
    """The commit, and whether anything else was changed since than what the bench writes."""
    commit = _git("describe", "--always")
    changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/bench/RESULTS.md"
    )
    return f"{commit or 'unknown'}{'-dirty' if changed else ''}"


def _git(*arguments: str) -> str:
    asked = subprocess.run(
        ["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()
