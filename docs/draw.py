"""Draws the panels that `dashboard.py` has seen, where the dashboard has them.

Needs matplotlib. Usage: python docs/draw.py PANELS.json PICTURE.png
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib import dates, ticker
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

COLUMNS: Final = 24
"""Of Grafana's grid."""
ROW_INCHES: Final = 0.30
WIDTH_INCHES: Final = 15
SHADED_MAX: Final = 8
"""Lines of a panel that are shaded down to zero."""
CHARACTERS: Final = 300
"""Of the names below a panel, over the whole width."""
INK, GROUND, PANEL, EDGE = "#ccccdc", "#111217", "#181b1f", "#2c3235"
GREEN, YELLOW, RED = "#73bf69", "#f2cc0c", "#f2495c"
LINES: Final = (GREEN, YELLOW, "#8ab8ff", "#ff780a", RED, "#5794f2", "#b877d9", "#37872d")
PHASES: Final = {
    "assigned": "#8ab8ff", "restoring": YELLOW, "fencing": "#ff9830", "installing": "#b877d9",
    "running": GREEN,
}  # fmt: skip
UNITS: Final[dict[str, Callable[[float], str]]] = {
    "reqps": lambda value: f"{value:.3g}/s",
    "s": lambda value: f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s",
    "bytes": lambda value: f"{value / 2**20:.3g} MiB",
    "percentunit": lambda value: f"{value:.0%}",
    "short": lambda value: f"{value:,.4g}",
    "none": lambda value: f"{value:.8g}",
}


@dataclass
class Board:
    """The whole picture; places are shares of its width and height, from below."""

    panels: list[dict[str, Any]]

    def __post_init__(self) -> None:
        mpl.rcParams.update({
            "font.size": 7, "font.family": "DejaVu Sans", "text.color": INK, "xtick.color": INK,
            "ytick.color": INK, "axes.edgecolor": EDGE, "axes.facecolor": PANEL,
            "axes.prop_cycle": mpl.cycler(color=LINES),
        })  # fmt: skip
        self.rows = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in self.panels)
        seen = [at for one in self.panels for line in one["lines"] for at, _ in line["points"]]
        self.span = moments([(min(seen), 0.0), (max(seen), 0.0)])
        size = (WIDTH_INCHES, self.rows * ROW_INCHES)
        self.figure: Any = plt.figure(figsize=size, facecolor=GROUND)
        self.row = 1 / self.rows

    def save(self, path: str) -> None:
        """Draw every panel, and write the picture."""
        for panel in self.panels:
            at = panel["gridPos"]
            x, y = at["x"] / COLUMNS, 1 - (at["y"] + at["h"]) * self.row
            self._draw(panel, x, y, at["w"] / COLUMNS, at["h"] * self.row)
        self.figure.savefig(path, dpi=100, facecolor=GROUND)

    def _draw(self, panel: dict[str, Any], x: float, y: float, w: float, h: float) -> None:
        if panel["type"] == "row":
            self._text(x + 0.006, y + h / 2, "⌄  " + panel["title"], size=9, weight="bold")
            return
        frame = plt.Rectangle(
            (x + 0.003, y + 0.0018), w - 0.006, h - 0.0036, facecolor=PANEL, edgecolor=EDGE,
            linewidth=0.6, transform=self.figure.transFigure, zorder=-1,
        )  # fmt: skip
        self.figure.add_artist(frame)
        self._text(x + 0.009, y + h - 0.62 * self.row, panel["title"], size=8)
        draw = {"stat": self._figure, "state-timeline": self._phases}.get(
            panel["type"], self._lines
        )
        draw(panel, x, y, w, h)

    def _text(self, x: float, y: float, text: str, **style: object) -> None:
        self.figure.text(x, y, text, va="center", **style)

    def _figure(self, panel: dict[str, Any], x: float, y: float, w: float, h: float) -> None:
        """The newest value, large, over what it was."""
        points = panel["lines"][0]["points"] if panel["lines"] else []
        last = points[-1][1] if points else 0
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        reached = [one["color"] for one in steps if one["value"] is None or last >= one["value"]]
        colour = {"green": GREEN, "red": RED}.get(reached[-1] if reached else "", YELLOW)
        axes = self.figure.add_axes((x + 0.01, y + 0.3 * self.row, w - 0.02, h * 0.35))
        axes.axis("off")
        values = [value for _, value in points]
        axes.fill_between(moments(points), values, color=colour, alpha=0.25)
        axes.plot(moments(points), values, color=colour, linewidth=0.8)
        big = {"size": 17, "color": colour, "ha": "center", "weight": "bold"}
        self._text(x + w / 2, y + h * 0.58, unit_of(panel)(last), **big)

    def _lines(self, panel: dict[str, Any], x: float, y: float, w: float, h: float) -> None:
        axes = self.figure.add_axes(
            (x + 0.05, y + 2.3 * self.row, w - 0.06, h - 3.6 * self.row)
        )  # fmt: skip
        shown = [one for one in panel["lines"] if one["points"]]
        for one in shown:
            at, values = moments(one["points"]), [value for _, value in one["points"]]
            (line,) = axes.plot(at, values, linewidth=0.9, label=one["name"] or panel["title"])
            if len(shown) <= SHADED_MAX:
                axes.fill_between(at, values, color=line.get_color(), alpha=0.07)
        unit = unit_of(panel)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: unit(value)))
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
        if panel["fieldConfig"]["defaults"].get("min") == 0:
            axes.set_ylim(bottom=0)
        self._clock(axes)
        if shown:
            self._names(axes, x, y, w)
        else:
            axes.text(0.5, 0.5, "No data", ha="center", transform=axes.transAxes, size=9)

    def _names(self, axes: Axes, x: float, y: float, w: float) -> None:
        """As many as there is room for."""
        lines, names = axes.get_legend_handles_labels()
        fit = 1
        while fit < len(names) and sum(len(one) + 6 for one in names[: fit + 1]) < w * CHARACTERS:
            fit += 1
        if fit < len(names):
            names[fit - 1] += " ..."
        self.figure.legend(
            lines[:fit], names[:fit], loc="lower left", ncols=fit, frameon=False, fontsize=6,
            bbox_to_anchor=(x + 0.005, y + 0.15 * self.row), handlelength=1, columnspacing=0.9,
            borderpad=0.2,
        )  # fmt: skip

    def _phases(self, panel: dict[str, Any], x: float, y: float, w: float, h: float) -> None:
        axes = self.figure.add_axes((x + 0.05, y + 1.4 * self.row, w - 0.06, h - 2.7 * self.row))
        lanes = sorted({one["name"].split(":")[0] for one in panel["lines"]})
        for one in panel["lines"]:
            lane, phase = (part.strip() for part in one["name"].split(":"))
            at = moments(one["points"])
            axes.scatter(
                at, [lanes.index(lane)] * len(at), color=PHASES.get(phase, RED), marker="s", s=42,
                linewidths=0,
            )  # fmt: skip
        axes.set_yticks(range(len(lanes)), lanes)
        axes.set_ylim(len(lanes) - 0.5, -0.5)
        self._clock(axes)

    def _clock(self, axes: Axes) -> None:
        axes.set_xlim(*self.span)
        axes.xaxis.set_major_locator(dates.MinuteLocator())
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
        axes.grid(color=EDGE, linewidth=0.5)
        axes.tick_params(length=0)


def moments(points: list[tuple[float, float]]) -> list[datetime]:
    """When the points were seen."""
    return [datetime.fromtimestamp(at, UTC) for at, _ in points]


def unit_of(panel: dict[str, Any]) -> Callable[[float], str]:
    """How the panel writes its values."""
    return UNITS[panel["fieldConfig"]["defaults"].get("unit", "short")]


if __name__ == "__main__":
    Board(json.loads(Path(sys.argv[1]).read_text("utf-8"))).save(sys.argv[2])
