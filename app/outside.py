"""Whether the group counts this worker in, and for how long it has not.

Invariant: a worker that waits for its group says so. To the client that is no trouble: it asks for
a coordinator again and again, of a broker that answers everything else. Should it be the client
that has lost its brokers for good (see `app.kafka.replaced`), another start helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import Fenced
from schemas.records import Side

if TYPE_CHECKING:
    from app.kafka.inputs import Inputs

TOLD_EVERY_S: Final = 10.0
"""A member that was expelled is back sooner, unless something is wrong."""
LOST_S: Final = 30.0
"""So long at least, if the client finds no broker at all."""
GIVEN_UP_S: Final = 180.0
"""So long the broker must have answered without a break: what it has to do to take us in again, as
to load the group after a restart, is done by then."""

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Outside:
    """One per worker, on its thread; `reason` is for any."""

    inputs: Inputs
    reason: str | None = None
    """Why the worker has no part in the job, once that has lasted."""
    _since: float | None = None
    _told_at: float = 0.0
    _away_at: float = 0.0
    """When the broker was last away."""

    def step(self, now: float, *, away: bool) -> None:
        """Look at the membership; `now` is monotonic, in seconds. `away`: so are all brokers.

        Raises Fenced where the worker has waited for its group long enough.
        """
        if away:
            self._away_at = now
        if self.inputs.member():
            if self.reason is not None:
                _log.info("a member of the group again")
            self._since = self.reason = None
            return
        if self._since is None:
            self._since = self._told_at = now
        waited_s = now - max(self._since, self._away_at)
        if waited_s >= GIVEN_UP_S:
            raise Fenced(f"the group does not take the worker in for {now - self._since:.0f} s")
        if now - self._since >= TOLD_EVERY_S:
            self.reason = f"not a member of the group for {now - self._since:.0f} s"
            if now - self._told_at >= TOLD_EVERY_S:
                self._told_at = now
                if waited_s >= LOST_S and self.inputs.lost(Side.LEFT):
                    raise Fenced(f"{self.reason}: its client finds no broker")
                _log.warning("waiting for the group", reason=self.reason)
