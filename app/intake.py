"""From polled bytes to the inboxes of running lanes, and how much may wait there.

Invariant: per side and lane, records enter in offset order, each once; a record of a lane that
does not run here (any more, or yet) is dropped, because its position has not moved.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from schemas.codec import Unresolved
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.config import Config
    from app.idleness import Idleness
    from app.kafka.inputs import Batch, Inputs, Polled
    from app.placements import Placements
    from app.process import Running
    from app.suspicion import Suspicion
    from schemas.codec import Codec

HELD_TURNS_MAX: Final = 8
"""Records read ahead of their turn, over all lanes, in multiples of `turn.max_records`."""
HELD_MIN: Final = 200


@dataclass(slots=True)
class Intake:
    """Fills the inboxes; one per worker, on the thread that polls."""

    config: Config
    codec: Codec
    inputs: Inputs
    idleness: Idleness
    running: dict[int, Running]
    suspicion: Suspicion
    look_up: Callable[[Unresolved], None]
    """Has schemas looked up; `resume` says that more are known."""
    placements: Placements | None = None
    """Looks at some keys of each batch, once it is known how many lanes there are."""
    until: Mapping[tuple[Side, int], int] = field(default_factory=dict)
    """By (side, lane), the offset at which reading ends; empty: nowhere, and any lane is wanted."""

    def wanted(self, lanes: list[int]) -> list[int]:
        """Those of these lanes that are to be read at all."""
        return [lane for lane in lanes if not self.until or (Side.LEFT, lane) in self.until]

    def accept(self, polled: Polled, now: int | None) -> None:
        """Decode what came for running lanes, and note which sides are read to their end.

        `now` is the wall clock in the job's unit.
        """
        if self.until:
            cut_off(polled, self.until)
        for (side, lane), batch in polled.records.items():
            running = self.running.get(lane)
            # Beyond records that were given back, nothing may be taken.
            if running is None or running.unread[side]:
                continue
            if _gone_back(batch.offsets, running.expected[side]):
                self._return(running, side)
                # Whether this is the end of what is to be taken nobody can say.
                polled.ends.pop((side, lane), None)
            else:
                self._accept(running, side, batch, now)
        for (side, lane), offset in polled.ends.items():
            ended = self.running.get(lane)
            # An end below what was taken is of an earlier fetch.
            if ended is not None and offset >= ended.expected[side] and not ended.unread[side]:
                ended.drained[side] = True
                self.idleness.ended(side, lane, offset)
        if self.inputs.asleep:
            self._wake()

    def _wake(self) -> None:
        """Fetch the left side on; what was fetched ahead is gone, as the client has paused it."""
        lanes = [
            running.lane
            for running in self.running.values()
            if not (running.held[Side.LEFT] or running.unread[Side.LEFT])
        ]
        self.inputs.wake(lanes)

    def _accept(self, running: Running, side: Side, batch: Batch, now: int | None) -> None:
        offsets, keys, values, messages = batch
        known = bisect_left(offsets, running.expected[side])
        running.drained[side] = False
        self.idleness.heard(side, running.lane)
        try:
            parts = self.codec.decode_batch(side, values)
        except Unresolved as unresolved:
            parts = list(unresolved.decoded)
            self._give_back(running, side, unresolved)
        if len(parts) <= known:
            return
        running.expected[side] = offsets[len(parts) - 1] + 1
        self.suspicion.look(side, parts[-1])
        if self.placements is not None:
            self.placements.look(side, running.lane, keys)
        records = zip(offsets, keys, parts, messages, strict=False)
        running.inbox.push(side, islice(records, known, None), now)
        if not running.held[side] and running.inbox.waiting(side) > self._held_max():
            running.held[side] = True
            self.inputs.hold(side, running.lane)

    def flow(self, running: Running) -> None:
        """Fetch a held side again once little waits.

        Each stop and go throws away what the client fetched ahead, so there is a wide gap between
        the two.
        """
        for side in Side:
            if running.unread[side]:
                continue
            if running.held[side] and running.inbox.waiting(side) < self._held_max() // 4:
                running.held[side] = False
                self.inputs.flow(side, running.lane, running.expected[side])

    def resume(self) -> None:
        """More schemas are known: whoever waited for some tries again."""
        for running in self.running.values():
            running.waits = False
            for side in Side:
                if running.unread[side]:
                    running.unread[side] = False
                    if not running.held[side]:
                        self.inputs.flow(side, running.lane, running.expected[side])
            self.flow(running)

    def _give_back(self, running: Running, side: Side, unresolved: Unresolved) -> None:
        """Records from the first on whose schema is not known are read again once it is.

        They are not kept: nobody knows how long that takes, and the other side goes on being read.
        """
        running.unread[side] = True
        self.inputs.hold(side, running.lane)
        self.look_up(unresolved)

    def _return(self, running: Running, side: Side) -> None:
        """Make the client give everything from the position on once more."""
        if not running.held[side]:
            self.inputs.flow(side, running.lane, running.expected[side])

    def _held_max(self) -> int:
        """Records one side of one lane may have waiting before its fetching stops."""
        share = HELD_TURNS_MAX * self.config.turn.max_records // (2 * len(self.running))
        return max(share, HELD_MIN)


def _gone_back(offsets: list[int], expected: int) -> bool:
    """Whether the client has gone back to the beginning, see `app.kafka.inputs`.

    What it had fetched before comes first: a batch may begin with records that are to be taken and
    end with old ones.
    """
    return offsets[-1] < expected or offsets != sorted(offsets)


def cut_off(polled: Polled, until: Mapping[tuple[Side, int], int]) -> None:
    """Take away what was polled beyond these offsets; a place that has come to its own is ended."""
    for place, end in list(polled.ends.items()):
        if end < until.get(place, 0):
            del polled.ends[place]
    for place, batch in list(polled.records.items()):
        # Not by bisection: a client that has gone back gives old records after new ones.
        bound, count = until.get(place, 0), len(batch.offsets)
        kept = next((at for at in range(count) if batch.offsets[at] >= bound), count)
        if kept == count:
            continue
        polled.ends[place] = bound
        del polled.records[place]
        if kept:
            offsets, keys, values, messages = batch
            polled.records[place] = batch._replace(
                offsets=offsets[:kept],
                keys=keys[:kept],
                values=values[:kept],
                messages=messages[:kept],
            )
