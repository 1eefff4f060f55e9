"""The table of the states, and their targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from bench.targets import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.restore.kinds import Kind


@dataclass
class Figures:
    """Of one system; the lists have an entry a round, in seconds or MB."""

    fill_s: float
    fill_peak_mb: float
    disk_bytes: int
    changelog_bytes: int
    cold_s: list[float] = field(default_factory=list)
    cold_peak_mb: list[float] = field(default_factory=list)
    warm_s: list[float] = field(default_factory=list)
    killed_s: list[float] = field(default_factory=list)


def table(kinds: Sequence[Kind], figures: Sequence[Figures], rows: int) -> str:
    """A line a figure, a column a system."""
    lines: list[tuple[str, list[str]]] = [
        ("filling: records/s", [f"{rows / one.fill_s:,.0f}" for one in figures]),
        ("filling: peak MB", [f"{one.fill_peak_mb:,.0f}" for one in figures]),
        ("state on disk: bytes a row", [f"{one.disk_bytes / rows:.0f}" for one in figures]),
        ("changelog: bytes a row", [f"{one.changelog_bytes / rows:.0f}" for one in figures]),
        ("cold takeover: rows/s", [f"{cold_rate(one, rows):,.0f}" for one in figures]),
        ("cold takeover: s", [f"{median(one.cold_s):.2f}" for one in figures]),
        ("cold takeover: peak MB", [f"{max(one.cold_peak_mb):,.0f}" for one in figures]),
        ("restart on its own disk: s", [f"{median(one.warm_s):.2f}" for one in figures]),
        ("the same after SIGKILL: s", [f"{median(one.killed_s):.2f}" for one in figures]),
    ]
    head = f"| |{''.join(f' {kind.name} |' for kind in kinds)}"
    return "\n".join(
        [head, "|---|" + "---:|" * len(kinds)]
        + [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    )


def cold_rate(figures: Figures, rows: int) -> float:
    """Rows restored a second, the median of the rounds."""
    return median(rows / seconds for seconds in figures.cold_s)


def targets(figures: Sequence[Figures], rows: int) -> list[Target]:
    """What is aimed at, of spanjoin, the first, beside Kafka Streams, the second."""
    ours, theirs = figures
    ratios = [his / mine for mine, his in zip(ours.cold_s, theirs.cold_s, strict=True)]
    return [
        Target("cold takeover: rows/s", cold_rate(ours, rows), 600_000, unit="rows/s"),
        Target("cold takeover / Kafka Streams: rows/s", median(ratios), 1.5),
        Target("restart on its own disk", max(ours.warm_s), 2.0, at_least=False, unit="s"),
        Target("the same after SIGKILL", max(ours.killed_s), 2.0, at_least=False, unit="s"),
        Target(
            "peak memory with a limit of 256 MB on windows and cache",
            max([ours.fill_peak_mb, *ours.cold_peak_mb]),
            556,
            at_least=False,
            unit="MB",
        ),
    ]
