"""Whether both sides' keys lie where equal ones meet: by the newest records, then by what is read.

Sides that were written with different partitioners give few matches or none, and nothing of that
is an error. `doctor` looks at it when it is asked; a worker does so by itself, and refuses the job
where it is certain, unless `join.partitioners` says that this is known.
Invariant: no record is judged here, and it costs next to nothing: it ends when enough was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

import structlog

from app.doctor.finding import Level
from app.doctor.partitioner import MEND, disagreement, partitioner_findings, placement
from app.errors import Crash, UsageError
from app.kafka.cluster import Cluster
from app.kafka.scan import Scanner
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.config import Config
    from app.doctor.partitioner import Placement
    from app.kafka.scan import Span

JUDGED_AT: Final = (25, 50, 100, 200)
"""Keys of each side; more of one that is ahead of the other are not kept."""
KEYS_ENOUGH: Final = JUDGED_AT[-1]
KEYS_PER_BATCH: Final = 16
KEY_BYTES_MAX: Final = 256
"""A longer key is not looked at: hashing it takes time."""

NEWEST_RECORDS: Final = 64
"""Of each partition that is looked at before the start."""
NEWEST_PARTITIONS: Final = 16
STALLED_S: Final = 5.0
"""Without an answer for so long the start is not held up."""
FRUGAL: Final = {"fetch.message.max.bytes": 131_072, "queued.max.messages.kbytes": 4_096}
"""Only keys are wanted, but they come with their values."""

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Placements:
    """What a worker has seen of both sides' keys; `lanes` is how many partitions there are."""

    lanes: int
    partitioners: str = "same"
    """As `join.partitioners`."""
    _seen: tuple[set[tuple[bytes, int]], set[tuple[bytes, int]]] = field(
        default_factory=lambda: (set(), set())
    )
    _due: list[int] = field(default_factory=lambda: list(JUDGED_AT))

    def look(self, side: Side, lane: int, keys: Sequence[bytes | None]) -> None:
        """Look at some keys of a batch, and judge once enough are known.

        Raises UsageError where the sides' partitioners are certain to differ, and must not.
        """
        seen = self._seen[side]
        if not self._due or len(seen) >= KEYS_ENOUGH:
            return
        looked_at = keys[-KEYS_PER_BATCH:]
        seen.update((key, lane) for key in looked_at if key and len(key) <= KEY_BYTES_MAX)
        known = min(map(len, self._seen))
        if known >= self._due[0]:
            self._due = [count for count in self._due if count > known]
            self._judge()

    def _judge(self) -> None:
        left, right = (
            placement(name, self.lanes, seen)
            for name, seen in zip(("left", "right"), self._seen, strict=True)
        )
        if self.partitioners == "same":
            _refuse(left, right)
        if self._due:
            return
        for finding in partitioner_findings(left, right):
            if finding.level is Level.FAIL:
                _log.warning(finding.text, mend=finding.mend)
        for seen in self._seen:
            seen.clear()


def check_newest(config: Config, lanes: int) -> None:
    """Look at the newest records of both inputs, before anything is moved.

    Those that a start reads may be old, or few, and a job that was refused must be refused again.
    Raises UsageError as `Placements.look`, or warns. What cannot be read in time says nothing.
    """
    if lanes <= 1:
        return
    scanner = Scanner(config, FRUGAL, STALLED_S)
    try:
        cluster = Cluster(config, STALLED_S)
        left, right = (_newest(config, side, cluster, scanner, lanes) for side in Side)
        if config.join.partitioners == "same":
            _refuse(left, right)
        elif told := disagreement(left, right):
            _log.warning(f"partitioner: {told}", mend=MEND)
    except Crash as unreadable:
        _log.debug("keys were not looked at", reason=unreadable.line)
    finally:
        scanner.close()


def _newest(
    config: Config, side: Side, cluster: Cluster, scanner: Scanner, lanes: int
) -> Placement:
    topic = config.side(side).topic
    spans: Mapping[int, Span] = {
        lane: (max(extent.start, extent.stable - NEWEST_RECORDS), extent.stable)
        for lane, extent in enumerate(cluster.extents(topic, lanes)[:NEWEST_PARTITIONS])
    }
    reads = chain.from_iterable(scanner.scan_all(topic, spans))
    keys = [
        (read.key, read.partition) for read in reads if read.key and len(read.key) <= KEY_BYTES_MAX
    ]
    return placement(side.name.lower(), lanes, keys)


def _refuse(left: Placement, right: Placement) -> None:
    if told := disagreement(left, right):
        raise UsageError(
            f"partitioner: {told}, so equal keys are in different partitions and do not meet: "
            f'{MEND}; or say join.partitioners = "any" if this is meant'
        )
