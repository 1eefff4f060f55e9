"""Where the time of a takeover goes, as the workers' own logs tell it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.handoff.figures import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RENEWED: Final = "producer thrown away, every lane is restored"
ORDER: Final = ("restore", "fence", "fenced", "install", "running")
OVER: Final = ("revoked", "lost")


@dataclass
class Takeover:
    """A lane from its assignment, or from a renewal, to its claim."""

    cause: str
    at: datetime
    """Of the newest step."""
    steps_ms: dict[str, float] = field(default_factory=dict)
    """To each step from the one before it."""

    @property
    def total_ms(self) -> float:
        return sum(self.steps_ms.values())

    def reached(self, step: str, at: datetime) -> None:
        """Also more than once: where the changelog's tail was looked at again."""
        took = (at - self.at).total_seconds() * 1000
        self.steps_ms[step] = self.steps_ms.get(step, 0.0) + took
        self.at = at


def breakdown(logs: Iterable[Path]) -> str:
    """For the terminal; of workers that write no such logs nothing can be told."""
    logs = list(logs)
    found, renewed = takeovers(logs), renewals(logs)
    if not found:
        return "no takeovers in the logs"
    lines = [f"{len(renewed)} producers thrown away"]
    lines += [
        f"  {count} x {why[:150]}" for why, count in Counter(why for _, why in renewed).items()
    ]
    for cause in sorted({one.cause for one in found}):
        ones = [one for one in found if one.cause == cause]
        total = [one.total_ms for one in ones]
        each = ", ".join(
            f"{step} {median(took):.0f} / {quantile(took, 0.95):.0f}"
            for step in ORDER
            if (took := [one.steps_ms.get(step, 0.0) for one in ones])
        )
        lines.append(
            f"{len(ones)} lanes {cause}: {median(total):.0f} / {quantile(total, 0.95):.0f} ms "
            f"(median / p95), of it up to {each}"
        )
    return "\n".join(lines)


def renewals(logs: Iterable[Path]) -> list[tuple[datetime, str]]:
    """When and why a producer was thrown away."""
    return [
        (at, line["reason"]) for log in logs for at, line in _lines(log) if line["event"] == RENEWED
    ]


def takeovers(logs: Iterable[Path]) -> list[Takeover]:
    """Those that came to their end."""
    found: list[Takeover] = []
    for log in logs:
        lanes: dict[int, Takeover] = {}
        for at, line in _lines(log):
            event, lane = line["event"], line.get("lane", -1)
            if event == RENEWED:
                lanes = {number: Takeover("renewed", at) for number in lanes}
            elif event == "assigned":
                lanes[lane] = Takeover("assigned", at)
            elif event in OVER:
                lanes.pop(lane, None)
            elif event in ORDER and lane in lanes:
                lanes[lane].reached(event, at)
                if event == "running":
                    found.append(lanes[lane])
    return found


def _lines(log: Path) -> Iterator[tuple[datetime, dict[str, Any]]]:
    for text in log.read_text(errors="replace").splitlines():
        if text.startswith("{"):
            line = json.loads(text)
            yield datetime.fromisoformat(line["timestamp"]), line
