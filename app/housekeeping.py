"""What a worker does between turns now and then: figures, truncation, clean-up, a look at topics.

Invariant: nothing here waits for the broker; questions go to helper threads and are picked up in a
later round.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.errors import Fenced, Retry, SpanjoinError, UsageError
from app.figures import Clock, lane_figures, lane_status
from app.outside import Outside
from app.process import truncation_point
from app.starvation import Starvation
from rebalance.lanes import START_OVER
from schemas.records import Side

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from app.kafka.authority import Seen
    from app.kafka.limits import Limits
    from app.worker import Worker
    from rebalance.lanes import Lane

FIGURES_EVERY_S: Final = 0.5
TRUNCATE_EVERY_S: Final = 10.0
WATCH_EVERY_S: Final = 5.0
UNHEARD_S: Final = 20.0
"""A broker that nobody has heard of for so long counts as away: two looks, and what they take."""
WATCH_AGAIN_S: Final = 3.0
"""After an answer that would end the worker; it is believed if the next one says so, too."""
COPIES_EVERY_S: Final = 1.0
COLLECT_EVERY_S: Final = 10.0
YOUNG_OBJECTS_MAX: Final = 200_000
"""Objects made and not yet freed since the last collection: about 20 ms of one."""
COLLECT_ALL_EVERY_S: Final = 600.0

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Housekeeping:
    """One per worker, on its thread."""

    worker: Worker
    lane_count: int
    thread: Executor
    """One thread, that asks whether the broker is there: where it is not, all helpers wait."""
    status: dict[str, Any] = field(default_factory=dict)
    """What `/status` shows; replaced as a whole, so that other threads may read it."""
    away: str | None = None
    """Why the broker counts as away; None while it answers."""
    starvation: Starvation = field(init=False)
    outside: Outside = field(init=False)
    _due: dict[str, float] = field(default_factory=dict)
    _watching: Future[tuple[Seen, Limits]] | None = None
    _heard_at: float = field(init=False)
    """When it was last known whether the broker answers."""
    _truncated: dict[int, int] = field(default_factory=dict)
    _doubted: SpanjoinError | None = None
    """What the newest answer about the topics would end the worker for."""

    def __post_init__(self) -> None:
        self.starvation = Starvation(self.worker)
        self.outside = Outside(self.worker.inputs)
        self._heard_at = time.monotonic()

    @property
    def unready(self) -> str | None:
        """Why the worker can do nothing for its job at the moment; None if it can."""
        away = self.away
        return self.outside.reason if away is None else f"the broker does not answer: {away}"

    def step(self) -> None:
        """Do what is due.

        Raises UsageError where the topics were changed under the job, Fenced where only another
        start helps.
        """
        self.starvation.step()
        if self._is_due("figures", FIGURES_EVERY_S):
            self._figures()
            self.outside.step(time.monotonic(), away=self._counts_as_away())
            self.worker.rejects.step(time.monotonic())
        if self._is_due("watch", WATCH_EVERY_S):
            self._watch()
        if self._is_due("truncate", TRUNCATE_EVERY_S):
            self._truncate()
            self.worker.reached("truncated")
        if self._is_due("copies", COPIES_EVERY_S):
            self.worker.copies.step(time.monotonic(), joined=self.worker.joined)
        if gc.get_count()[0] > YOUNG_OBJECTS_MAX or self._is_due("collect", COLLECT_EVERY_S):
            # Automatic collection is off: it cost a third of the run. Cycles are rare here, and
            # most rows are gone before the next look if it does not come too soon.
            gc.collect(1)
        if self._is_due("collect_all", COLLECT_ALL_EVERY_S):
            gc.collect()

    def _counts_as_away(self) -> bool:
        return self.away is not None or time.monotonic() - self._heard_at > UNHEARD_S

    def _is_due(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.setdefault(what, now + every_s * (what != "figures")):
            return False
        self._due[what] = now + every_s
        return True

    def _figures(self) -> None:
        worker = self.worker
        worker.metrics.suspect(worker.intake.suspicion.sides)
        worker.metrics.registry(away=worker.lookups.trouble is not None)
        config = worker.config
        clock = Clock(config.now_in_unit(time.time() * 1000), config.ticks_per_ms * 1000)
        worker.metrics.worker(
            self.lane_count, away=self.away is not None or worker.inputs.unreachable
        )
        lanes = []
        for number, lane in sorted(worker.lanes.items()):
            running = worker.running.get(number)
            figures = lane_figures(lane, running, worker.inputs, clock)
            disk_bytes = worker.copies.sizes.get(number)
            worker.metrics.lane(number, figures._replace(disk_bytes=disk_bytes))
            changelog: tuple[int | None, int | None] = (None, None)
            if running is not None:
                worker.metrics.windows(number, *running.state.windows.drain_counts())
                changelog = (self._changelog_start(lane), running.changelog_position)
            status = lane_status(number, figures, worker.identity.worker, changelog)
            totals = worker.metrics.totals(number)._asdict()
            lanes.append({**status, "disk_bytes": disk_bytes, "totals": totals})
        self.status = {
            "name": worker.config.name,
            "worker": worker.identity.worker,
            "lanes": lanes,
            "stale_copies": worker.copies.figures(time.monotonic()),
        }

    def _changelog_start(self, lane: Lane) -> int:
        """Where the log began when the lane was taken over, or what was let go of since."""
        found = lane.bound.changelog.start if lane.bound is not None else 0
        return max(self._truncated.get(lane.number, 0), found)

    def _truncate(self) -> None:
        """Let go of changelog that no live row needs."""
        points = {
            number: point
            for number, running in self.worker.running.items()
            if (point := truncation_point(running)) > self._truncated.get(number, 0)
        }
        self.worker.authority.truncate(points)
        self._truncated |= points

    def _watch(self) -> None:
        """Compare the topics with what they were when the worker started."""
        if self._watching is None:
            authority = self.worker.authority
            self._watching = self.thread.submit(lambda: (authority.seen(), authority.limits_now()))
            return
        if not self._watching.done():
            return
        self._heard_at = time.monotonic()
        watching, self._watching = self._watching, None
        try:
            seen, limits = watching.result()
        except Retry as retry:
            self.away = str(retry)
            _log.warning("the broker does not answer", reason=self.away)
            return
        self.away = None
        self.worker.inputs.unreachable = False
        wrong = self._wrong_topics(seen) or self._wrong_limits(limits)
        if wrong is not None and self._doubted is not None:
            raise wrong
        # A broker that restarts may not know a topic for a moment, and one that was cut off from
        # the others knows topics as they were.
        self._doubted = wrong
        if wrong is not None:
            self._due["watch"] = time.monotonic() + WATCH_AGAIN_S

    def _wrong_topics(self, seen: Seen) -> UsageError | None:
        """What of the inputs is not as it was when the worker started; None if all is."""
        layout = self.worker.layout
        for side, was in zip(Side, (layout.left_id, layout.right_id), strict=True):
            topic = self.worker.config.side(side).topic
            found = seen[topic]
            if found is None:
                return UsageError(
                    f"topic {topic} was deleted under the running job; create it and {START_OVER}"
                )
            topic_id, partitions = found
            if topic_id != was:
                return UsageError(
                    f"topic {topic} was deleted and created again under the running job; "
                    f"{START_OVER}"
                )
            if partitions != self.lane_count:
                return UsageError(
                    f"topic {topic} went from {self.lane_count} to {partitions} partitions under "
                    f"the running job: keys moved to other lanes: with all workers stopped, give "
                    f"the other input as many, and the state with `spanjoin reshard --partitions "
                    f"{partitions}`; or undo it by recreating the topic, or {START_OVER}"
                )
        return None

    def _wrong_limits(self, limits: Limits) -> Fenced | None:
        """Start again where a topic takes less than it did: a transaction would fail for ever.

        What is too large for its topic is rejected before, by the limits that were found at the
        start.
        """
        for topic, now, before in zip(limits._fields, limits, self.worker.limits, strict=True):
            if now < before:
                return Fenced(
                    f"the {topic} topic takes {now} bytes a record, and took {before} when this "
                    f"worker started: it asks anew when it is started again"
                )
        return None
