"""What becomes of a lane's steps: a line of the log each, the figures, and the listener of tests.

Every line has the lane, its epoch, how long it took since the line before it (`step_ms`) and since
the lane was given to this worker (`held_ms`), and where there is one the reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from rebalance.phases import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.metrics import Metrics
    from app.steps import Reached
    from rebalance.lanes import Lane

_LEFT: Final[Mapping[Signal, str]] = {
    Signal.REVOKED: "the group moves it, or the worker stops",
    Signal.LOST: "the session of the worker has ended",
}

_log: Final = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Observation:
    """Told of every step of every lane, on the worker's thread."""

    metrics: Metrics
    reached: Reached

    def __call__(self, lane: Lane, event: str, **details: object) -> None:
        """`event` happened to the lane."""
        self.line(lane, event, **details)
        if event == "wipe":
            self.metrics.wipe()
        self.reached(event)

    def claimed(self, lane: Lane, kind: str) -> None:
        """The lane is ours from now on; `kind` says how it was found."""
        took_s = time.monotonic() - lane.began_at
        self.metrics.takeover(kind, took_s)
        self(lane, "running", reason=kind, takeover_ms=round(took_s * 1000))

    def left(self, lane: Lane, signal: Signal) -> None:
        """The lane is ours no more; nor are its series, also if it never ran."""
        self.metrics.forget(lane.number)
        self.metrics.departure(signal)
        self(lane, signal, reason=_LEFT[signal])

    def line(self, lane: Lane, event: str, **details: object) -> None:
        """Only the line of the log."""
        now = time.monotonic()
        step_ms = round((now - lane.told_at) * 1000)
        held_ms = round((now - lane.assigned_at) * 1000)
        lane.told_at = now
        _log.info(
            event,
            lane=lane.number,
            epoch=lane.epoch,
            step_ms=step_ms,
            held_ms=held_ms,
            **details,
        )
