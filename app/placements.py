"""Whether both sides' keys lie where equal ones meet, from a few keys of each polled batch.

Sides that were written with different partitioners give few matches or none, and nothing of that is
an error. `doctor` looks at it when it is asked; a worker says it by itself, once.
Invariant: this decides about no record, and costs next to nothing: it ends when it has seen enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from app.doctor.finding import Level
from app.doctor.partitioner import partitioner_findings, placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import Side

KEYS_ENOUGH: Final = 200
"""Of each side; more of one that is ahead of the other are not kept."""
KEYS_PER_BATCH: Final = 16
KEY_BYTES_MAX: Final = 256
"""A longer key is not looked at: hashing it takes time."""

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Placements:
    """What a worker has seen of both sides' keys; `lanes` is how many partitions there are."""

    lanes: int
    _seen: tuple[set[tuple[bytes, int]], set[tuple[bytes, int]]] = field(
        default_factory=lambda: (set(), set())
    )
    _judged: bool = False

    def look(self, side: Side, lane: int, keys: Sequence[bytes | None]) -> None:
        """Look at some keys of a batch, and tell people once enough are known and do not meet."""
        seen = self._seen[side]
        if self._judged or len(seen) >= KEYS_ENOUGH:
            return
        looked_at = keys[-KEYS_PER_BATCH:]
        seen.update((key, lane) for key in looked_at if key and len(key) <= KEY_BYTES_MAX)
        if min(map(len, self._seen)) >= KEYS_ENOUGH:
            self._judge()

    def _judge(self) -> None:
        self._judged = True
        left, right = (
            placement(name, self.lanes, seen)
            for name, seen in zip(("left", "right"), self._seen, strict=True)
        )
        for finding in partitioner_findings(left, right):
            if finding.level is Level.FAIL:
                _log.warning(finding.text, mend=finding.mend)
        for seen in self._seen:
            seen.clear()
