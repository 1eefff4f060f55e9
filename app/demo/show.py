"""How the demo looks: a live table of the lanes, and at the end the comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.comparison import Comparison

BAR_WIDTH: Final = 50


@dataclass
class Progress:
    """What is known of the run so far; figures are records.

    `lanes` is the newest news of each lane with the name of the worker that told it.
    """

    total: int
    began: float = field(default_factory=time.monotonic)
    matched: int = 0
    retracted: int = 0
    lanes: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    positions: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Input records that the workers have taken and committed."""
        return sum(self.positions.values())

    def heard(self, worker: str, status: dict[str, Any]) -> None:
        """Take in what a worker says of its lanes; a lane it lost is told of by its new owner."""
        for number in [n for n, (owner, _) in self.lanes.items() if owner == worker]:
            del self.lanes[number]
        for lane in status.get("lanes", []):
            number = int(lane["lane"])
            self.lanes[number] = worker, lane
            for side in ("left", "right"):
                position = (lane.get(side) or {}).get("position") or 0
                known = self.positions.get((number, side), 0)
                # Positions never go back, whoever owns the lane.
                self.positions[number, side] = max(known, position)

    def silent(self, worker: str) -> None:
        """A worker does not answer: nobody is known to own its lanes."""
        self.heard(worker, {})


def live_view(progress: Progress) -> RenderableType:
    """The table of lanes under a bar of what was read."""
    seconds = time.monotonic() - progress.began
    table = Table(box=None, padding=(0, 2))
    for column in ("lane", "owner", "phase"):
        table.add_column(column)
    for column in ("read", "lag", "rows stored"):
        table.add_column(column, justify="right")
    numbers = {number for number, _ in progress.positions} | set(progress.lanes)
    for number in sorted(numbers):
        owner, lane = progress.lanes.get(number, ("nobody", {}))
        read = sum(progress.positions.get((number, side), 0) for side in ("left", "right"))
        lags = [int((lane.get(side) or {}).get("lag") or 0) for side in ("left", "right")]
        lag = f"{sum(lags):,}" if lane else ""
        rows = f"{lane['rows']:,}" if "rows" in lane else ""
        table.add_row(str(number), owner, str(lane.get("phase", "")), f"{read:,}", lag, rows)
    bar = Table.grid(padding=(0, 2))
    share = ProgressBar(total=progress.total, completed=progress.read, width=BAR_WIDTH)
    bar.add_row(share, f"{progress.read:,} of {progress.total:,} read")
    return Group(bar, Text(figures_line(progress, seconds)), table)


def figures_line(progress: Progress, seconds: float) -> str:
    """The same in one line, for where there is no terminal."""
    return (
        f"{seconds:4.0f} s  read {progress.read:,}  "
        f"matched {progress.matched:,}  retracted {progress.retracted:,}"
    )


def comparison_view(comparison: Comparison) -> RenderableType:
    """The comparison as a table; what has to be 0 and is not stands out."""
    table = Table(title="the output topic against SQL", title_justify="left", box=None)
    table.add_column("")
    table.add_column("matches", justify="right")
    table.add_row("DuckDB's answer", f"{comparison.expected:,}")
    table.add_row("of these live in the topic", f"{comparison.live:,}")
    for name, count in comparison.faults.items():
        style = "bold red" if count else "green"
        table.add_row(name.replace("_", " "), Text(f"{count:,}", style))
    table.add_row("came and went with a cancelled flight", f"{comparison.retracted:,}")
    return table


def match_line(match: dict[str, Any], local: tuple[str, str]) -> str:
    """A match for a person: "UA 1545, EWR 05:17-09:04: 39 F, wind 13 mph".

    `local` is the flight's departure and arrival by the airport's clock.
    """
    flight, weather = match["left"], match["right"]
    parts = []
    if weather["temperature"] is not None:
        parts.append(f"{weather['temperature']:.0f} F")
    if weather["wind"] is not None:
        parts.append(f"wind {weather['wind']:.0f} mph")
    return f"{flight['carrier']} {flight['number']}, {flight['origin']} {local[0]}-{local[1]}: " + (
        ", ".join(parts) or "no measurement"
    )
