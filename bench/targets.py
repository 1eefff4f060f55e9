"""The project's aims as ratios within one run: each with this run's figure, met or not."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from bench import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.runs import Figures
    from bench.systems import System

Results = dict[str, list["Figures"]]
"""System -> one entry a round."""


class Target(NamedTuple):
    """What is aimed at; `figure` is None where this run did not measure it."""

    aim: str
    figure: float | None
    bound: float
    at_least: bool = True
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        """None where it was not measured."""
        if self.figure is None:
            return None
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


def _rate(figures: Figures) -> float:
    return figures.rate


def _cpu(figures: Figures) -> float:
    return figures.cpu_per_million


_RATIOS: Final[Sequence[tuple[str, System, System, Callable[[Figures], float], float, bool]]] = (
    ("1 worker / Kafka Streams, 1 thread, same retention: records/s",
     rows.ONE, rows.STREAMS_ONE, _rate, 2.0, True),
    ("1 worker / Kafka Streams, 1 thread, fastest setting: records/s",
     rows.ONE, rows.FASTEST_ONE, _rate, 1.5, True),
    ("2 workers / Kafka Streams, 2 threads, same retention: records/s",
     rows.TWO, rows.STREAMS_TWO, _rate, 2.0, True),
    ("2 workers / Kafka Streams, 2 threads, fastest setting: records/s",
     rows.TWO, rows.FASTEST_TWO, _rate, 1.5, True),
    ("1 worker / Kafka Streams, 1 thread, fastest setting: CPU per record",
     rows.ONE, rows.FASTEST_ONE, _cpu, 0.6, False),
    ("1 worker / Quix Streams: records/s", rows.ONE, rows.QUIX, _rate, 8.0, True),
    ("1 worker / the client alone (consume, decode, produce one in transactions): records/s",
     rows.ONE, rows.CLIENT, _rate, 0.65, True),
)  # fmt: skip


def throughput(results: Results) -> list[Target]:
    """Medians of each round's own ratio."""
    return [
        Target(aim, ratio(results, one.name, other.name, of), bound, at_least)
        for aim, one, other, of, bound, at_least in _RATIOS
    ]


def ratio(
    results: Results, one: str, other: str, of: Callable[[Figures], float] = _rate
) -> float | None:
    """The median over the rounds of one's figure over the other's, None without both."""
    pairs = zip(results.get(one, []), results.get(other, []), strict=False)
    ratios = [of(mine) / of(theirs) for mine, theirs in pairs]
    return median(ratios) if ratios else None


def table(targets: Sequence[Target]) -> str:
    """Each target in a line."""
    lines = ["| target | aim | this run | |", "|---|---:|---:|---|"]
    said: Mapping[bool | None, str] = {True: "met", False: "**missed**", None: "not measured"}
    for target in targets:
        sign = "≥" if target.at_least else "≤"
        figure = "" if target.figure is None else f"{_plain(target.figure)} {target.unit}"
        lines.append(
            f"| {target.aim} | {sign} {target.bound:,g} {target.unit} | {figure} "
            f"| {said[target.met]} |"
        )
    return "\n".join(lines)


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
