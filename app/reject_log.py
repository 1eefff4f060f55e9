"""What a worker tells people of rejects: one line of a reason and lane now and then, with a count.

Invariant: every committed reject is counted in exactly one line, sooner or later; a million of
them make no more lines than a few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import Reason, Rejected

EVERY_S: Final = 10.0
DETAIL_LENGTH_MAX: Final = 200

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class _Pending:
    """Rejects of a reason and lane that no line has told yet, and the newest of them."""

    lane: int
    reason: Reason
    count: int = 0
    newest: Rejected | None = None
    told_s: float = -inf
    """When the last line came."""

    def tell(self, now_s: float) -> None:
        """The line, if there is anything to tell."""
        if self.newest is None:
            return
        detail = self.newest.detail
        if len(detail) > DETAIL_LENGTH_MAX:
            detail = f"{detail[:DETAIL_LENGTH_MAX]}..."
        _log.warning(
            "rejected",
            lane=self.lane,
            reason=str(self.reason),
            count=self.count,
            newest_offset=self.newest.offset,
            detail=detail,
        )
        self.count, self.newest, self.told_s = 0, None, now_s


@dataclass(slots=True)
class RejectLog:
    """One per worker. Times are seconds of one monotonic clock."""

    _pending: dict[tuple[int, Reason], _Pending] = field(default_factory=dict)

    def note(self, lane: int, rejects: Sequence[Rejected], now_s: float) -> None:
        """Count the rejects of a committed turn, and tell what is due."""
        for reject in rejects:
            kind = lane, reject.reason
            pending = self._pending.get(kind) or self._pending.setdefault(kind, _Pending(*kind))
            pending.count += 1
            pending.newest = reject
        if rejects:
            self.step(now_s)

    def step(self, now_s: float) -> None:
        """Tell what is due; to be called now and then, or the last ones are never told."""
        for pending in self._pending.values():
            if now_s - pending.told_s >= EVERY_S:
                pending.tell(now_s)

    def close(self) -> None:
        """Tell what is left."""
        for pending in self._pending.values():
            pending.tell(inf)
