"""How many records a turn takes: as many as keep its transaction short."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TURN_TARGET_S: Final = 0.25
"""A turn that took longer takes fewer records next time."""
LIMIT_MIN: Final = 100


@dataclass(slots=True)
class Pace:
    """The limit of records a turn, which is never above `limit_max`."""

    limit_max: int
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        self.limit = self.limit_max

    def took(self, turn_s: float) -> None:
        """Keep transactions well below their time-out, whatever the number of matches."""
        if turn_s > TURN_TARGET_S:
            self.limit = max(int(self.limit * TURN_TARGET_S / turn_s), LIMIT_MIN)
        elif self.limit < self.limit_max:
            self.limit = min(self.limit * 2, self.limit_max)

    def failed(self) -> None:
        """The transaction failed: perhaps it was too large."""
        self.limit = max(self.limit // 2, LIMIT_MIN)
