"""Curves in words, tables and pictures."""

from __future__ import annotations

from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

from bench.curves.picture import Axis, Line, draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.curves.table import Curve

Point = dict[str, Any]
"""What `bench.curves.point` prints."""
Points = dict[tuple[str, float], list[Point]]
"""(line, x) -> one entry a round."""

_COUNTED: Final = {"matches": "matches a record", "loads": "windows read from the store a record"}


def costs_of(curve: Curve, points: Points) -> list[list[tuple[float, float, float, float]]]:
    """Per line its (x, median, least, greatest us a record)."""
    return [
        [
            (x, median(costs), min(costs), max(costs))
            for x in line
            if (costs := [point["us"] for point in points[name, x]])
        ]
        for name, line in curve.lines.items()
    ]


def section(curve: Curve, points: Points) -> str:
    """Heading, picture, table."""
    lines = [
        f"### {curve.title}", "",
        f"![{curve.title}](pictures/{curve.file}.svg)", "",
        curve.says, "",
    ]  # fmt: skip
    for (name, line), found in zip(curve.lines.items(), costs_of(curve, points), strict=True):
        head = f"{curve.along}{f' ({name})' if name else ''}"
        last, first = found[-1][1], found[0][1]
        lines += [
            f"| {head} | " + " | ".join(f"{x:,g}" for x in line) + " | last / first |",
            "|---|" + "---:|" * (len(line) + 1),
            "| us a record | " + " | ".join(f"{one[1]:.1f}" for one in found)
            + f" | {last / first:.2f} |",
        ]  # fmt: skip
        for figure, title in _COUNTED.items():
            values = [median(point[figure] for point in points[name, x]) for x in line]
            if max(values) > 0:
                lines.append(f"| {title} | {' | '.join(f'{one:.2f}' for one in values)} | |")
        lines.append("")
    return "\n".join([*lines, *_remarks(curve, points)]).rstrip()


def _remarks(curve: Curve, points: Points) -> Iterator[str]:
    costs = costs_of(curve, points)
    if curve.file == "state":
        warm, cold = costs
        name = list(curve.lines)[1]
        each = [
            (there[1] - here[1]) / loads
            for here, there in zip(warm, cold, strict=True)
            if (loads := median(point["loads"] for point in points[name, there[0]]))
        ]
        yield f"A cold read of a window costs {min(each):.0f} to {max(each):.0f} us."
    if curve.file == "matches":
        (low, cheap, *_), (high, dear, *_) = costs[0][0], costs[0][-1]
        each_us = (dear - cheap) / (high - low)
        yield f"From the first point to the last, a match costs {each_us:.2f} us."


def picture(curve: Curve, points: Points) -> str:
    lines = [
        Line(name, costs) for name, costs in zip(curve.lines, costs_of(curve, points), strict=True)
    ]
    up = Axis("us of processor time a record", factors=curve.file == "matches")
    return draw(curve.title, Axis(curve.along, factors=curve.factors), up, lines)


def expiry_section(turns: Sequence[tuple[float, int]]) -> str:
    """Turns in which buckets come to their end, beside the others."""
    all_ms = [ms for ms, _ in turns]
    rows = [
        ("in which a bucket came to its end", [ms for ms, dropped in turns if dropped]),
        ("the others", [ms for ms, dropped in turns if not dropped]),
        ("all", all_ms),
    ]
    lines = [
        "### Expiry", "", "![Expiry](pictures/expiry.svg)", "",
        ("100 000 live rows, 1 000 records a turn; a bucket of 25 s is dropped every 25 turns, and "
        "windows are trimmed when a quarter of them has expired."), "",
        "| turns | median ms | p99 ms | greatest ms |", "|---|---:|---:|---:|",
    ]  # fmt: skip
    for name, took in rows:
        if len(took) > 1:
            p99 = quantiles(took, n=100, method="inclusive")[98]
            lines.append(f"| {name} | {median(took):.1f} | {p99:.1f} | {max(took):.1f} |")
    return "\n".join(lines)


def expiry_picture(turns: Sequence[tuple[float, int]]) -> str:
    took = [(number, ms, ms, ms) for number, (ms, _) in enumerate(turns)]
    ends = [took[number] for number, (_, dropped) in enumerate(turns) if dropped]
    lines = [Line("", took), Line("a bucket came to its end", ends, joined=False)]
    return draw("Expiry", Axis("turn"), Axis("ms of a turn"), lines)
