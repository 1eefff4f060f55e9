"""Which sides of a lane count in its watermark: a side that is silent at its end may not.

A side is idle when the broker said, within the timeout, that everything in its partition is
decided and delivered (last stable offset = high watermark = our end), and nothing came for the
timeout. Counted from when the lane began to run, so that a takeover does not make sides idle.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from schemas.records import Side

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from app.config import Config
    from app.kafka.authority import Authority, Ends

BOTH: Final = (True, True)


@dataclass(slots=True)
class Quiet:
    """What is known of one side's silence; times are monotonic seconds."""

    since: float
    end: int | None = None
    """Offset of the partition's end, if that was the side's newest signal."""


@dataclass(slots=True)
class Idleness:
    """Silence of both sides of every running lane. Does nothing where the timeout is off."""

    config: Config
    authority: Authority
    threads: Executor
    _quiet: dict[tuple[Side, int], Quiet] = field(default_factory=dict)
    _asked: Future[Ends] | None = None
    _asked_at: float = 0.0
    _ends: Ends = field(default_factory=dict)
    _ends_at: float = 0.0

    def start(self, lane: int) -> None:
        """The lane runs from now on."""
        now = time.monotonic()
        for side in Side:
            self._quiet[side, lane] = Quiet(now)

    def stop(self, lane: int) -> None:
        """The lane is not ours any more."""
        for side in Side:
            self._quiet.pop((side, lane), None)

    def heard(self, side: Side, lane: int) -> None:
        """A record came."""
        self._quiet[side, lane] = Quiet(time.monotonic())

    def ended(self, side: Side, lane: int, offset: int) -> None:
        """The partition's end was reached at this offset."""
        quiet = self._quiet.get((side, lane))
        if quiet is not None:
            quiet.end = offset

    def end(self, side: Side, lane: int) -> int | None:
        """Offset of the partition's end, if that was the side's newest signal."""
        quiet = self._quiet.get((side, lane))
        return None if quiet is None else quiet.end

    def counting(self, lane: int) -> tuple[bool, bool]:
        """Per side, whether it counts in the lane's watermark now."""
        timeout_ms = self.config.idle_timeout_ms
        if timeout_ms is None:
            return BOTH
        now = time.monotonic()
        timeout_s = timeout_ms / 1000
        fresh = now - self._ends_at <= timeout_s
        left, right = (not (fresh and self._idle(side, lane, now - timeout_s)) for side in Side)
        return left, right

    def step(self) -> None:
        """Ask the broker for the ends now and then, on a helper thread."""
        timeout_ms = self.config.idle_timeout_ms
        if timeout_ms is None or not self._quiet:
            return
        now = time.monotonic()
        if self._asked is not None and self._asked.done():
            self._ends, self._ends_at = self._asked.result(), self._asked_at
            self._asked = None
        if self._asked is None and now - self._asked_at >= timeout_ms / 4000:
            self._asked_at = now
            self._asked = self.threads.submit(self.authority.ends, list(self._quiet))

    def _idle(self, side: Side, lane: int, before: float) -> bool:
        quiet = self._quiet.get((side, lane))
        if quiet is None or quiet.end is None or quiet.since > before:
            return False
        stable, high = self._ends.get((side, lane), (-1, -2))
        return stable == high == quiet.end
