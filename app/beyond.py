"""Positions that an input does not have, by the word of whoever was asked for the records.

Where records were deleted before they were read a person must decide, and the job stops. But a
broker that was cut off from the others, and still answers, does not know the newest records yet.
So the topic's ends are asked for, and only a beginning past the position is believed at once: it
never moves back. An end before it has to be said for a while.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from app.errors import UsageError
from rebalance.lanes import DOUBTED_MS, START_OVER

if TYPE_CHECKING:
    from concurrent.futures import Future

    from app.process import Running
    from app.worker import Worker
    from rebalance.lanes import Extent
    from schemas.records import Side

_log: Final = structlog.get_logger()


class Asked(NamedTuple):
    """A question that is on its way."""

    at: float
    running: Running
    answer: Future[tuple[Extent, Extent]]


@dataclass(slots=True)
class Beyond:
    """One per worker, on its thread."""

    worker: Worker
    _asked: dict[tuple[Side, int], Asked] = field(default_factory=dict)
    _since: dict[tuple[Side, int], float] = field(default_factory=dict)
    """Since when a position is beyond the end, in seconds of the monotonic clock."""

    def step(self) -> None:
        """Ask, and act on answers. Raises UsageError where records are gone."""
        for place in {*self._since, *self._asked} - set(self.worker.inputs.out_of_range):
            # Sought anew for another reason: what was found before says nothing of the next time.
            self._forget(place)
            self._asked.pop(place, None)
        for place, words in list(self.worker.inputs.out_of_range.items()):
            running = self.worker.running.get(place[1])
            asked = self._asked.pop(place, None)
            if running is None or (asked is not None and asked.running is not running):
                # The lane is not ours, or was taken over since: it is sought when it begins to run.
                self._forget(place)
            elif asked is None:
                answer = self.worker.threads.submit(self._extents, place)
                self._asked[place] = Asked(time.monotonic(), running, answer)
            elif asked.answer.done():
                self._judge(place, asked, words)
            else:
                self._asked[place] = asked

    def _extents(self, place: tuple[Side, int]) -> tuple[Extent, Extent]:
        """The broker's word, on a helper thread; whoever refused is not asked first."""
        authority = self.worker.authority
        authority.look_again()
        return authority.inputs(place[1])

    def _judge(self, place: tuple[Side, int], asked: Asked, words: str) -> None:
        side, lane = place
        position, extent = asked.running.expected[side], asked.answer.result()[side]
        gone = position < extent.start
        if position > extent.end:
            gone = asked.at >= self._since.setdefault(place, asked.at) + DOUBTED_MS / 1000
            if not gone:
                return
        topic = self.worker.config.side(side).topic
        if gone:
            raise UsageError(
                f"topic {topic} partition {lane} no longer holds the position of the join "
                f"({words}): records were deleted before they were read, or the topic was "
                f"recreated; raise its retention, then {START_OVER}"
            )
        self._forget(place)
        _log.warning("position found after all", topic=topic, lane=lane, position=position)
        if not (asked.running.held[side] or asked.running.unread[side]):
            self.worker.inputs.flow(side, lane, position)

    def _forget(self, place: tuple[Side, int]) -> None:
        self.worker.inputs.out_of_range.pop(place, None)
        self._since.pop(place, None)
