"""The order in which a lane takes the records of its two sides.

Smaller ts first, left on a tie, and no reordering inside a side. A record that cannot move its
side's watermark (a retraction, anything rejected) is ordered by that watermark and not by its own
ts: it follows what came before it, and nonsense in it holds nobody up.

Invariant: where both sides have records waiting, the order depends on what the sides contain and
on nothing else: not on how they were polled, nor on where a turn ended. A side whose other side
has nothing waiting therefore waits too, unless the other is read to its end (`drained`).

Comparing a record's own ts with the other side's head gives the same order as comparing the
largest ts its side has shown: a record that is behind that has just seen its predecessor win. So
a record's *rank* is the largest valid ts of its side so far; ranks never fall, and the merge needs
no look at the records.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from app.join import limits_at
from app.validity import Limits, fault_of
from schemas.records import INT64_MAX, INT64_MIN, Event, Kind, Record, Side
from state.checkpoint import Watermarks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.join import JoinSettings

_MINUS_INFINITY: Final = -(2**80)
_ANY_INTERVAL: Final = Limits(INT64_MIN, INT64_MAX, INT64_MAX - INT64_MIN, INT64_MAX)
_INSERT: Final = int(Kind.INSERT)
_NEVER: Final = Watermarks()


class Inbox:
    """Records of one lane that were read and not yet taken.

    `watermarks` are the lane's where reading begins: with them the order is the same after a
    restart. With `settings`, records that will be rejected are told from others.
    """

    __slots__ = ("_queues", "_settings", "_tops")

    def __init__(
        self, settings: JoinSettings | None = None, watermarks: Watermarks = _NEVER
    ) -> None:
        self._settings = settings
        self.clear(watermarks)

    def clear(self, watermarks: Watermarks = _NEVER) -> None:
        """Drops everything; reading begins again where the lane has these watermarks."""
        self._queues: tuple[deque[tuple[int, Record]], deque[tuple[int, Record]]] = (
            deque(), deque(),
        )  # fmt: skip
        self._tops = [
            _MINUS_INFINITY if ts is None else ts for ts in (watermarks.left, watermarks.right)
        ]

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def waiting(self, side: Side) -> int:
        """How many records of this side wait."""
        return len(self._queues[side])

    def push(self, side: Side, records: Iterable[Record], now: int | None = None) -> None:
        """Adds records of one side, in the order of their offsets.

        `now` is the wall clock in the job's unit: what is too far ahead of it will be rejected.
        """
        limits = self._limits(now)
        low, high, length_max, latest = limits
        top = self._tops[side]
        queue = self._queues[side]
        for record in records:
            if type(record) is Event and record.ts > top:
                _, key, _, ts, start, end, kind, _, _ = record
                if kind == _INSERT:
                    # `fault_of`, written out for what nearly every record is.
                    if (
                        key is not None
                        and low <= start <= ts <= end <= high
                        and end - start <= length_max
                        and ts <= latest
                    ):
                        top = ts
                elif kind == Kind.WATERMARK and fault_of(record, limits) is None:
                    top = ts
            queue.append((top, record))
        self._tops[side] = top

    def put_back(
        self, records: Iterable[tuple[Side, Record]], watermarks: Watermarks, now: int | None
    ) -> None:
        """Returns records that were taken last, but not joined; in front of all that wait.

        `watermarks` are the lane's after what was joined.
        """
        returned: tuple[list[Record], list[Record]] = ([], [])
        for side, record in records:
            returned[side].append(record)
        waiting = [[record for _, record in queue] for queue in self._queues]
        self.clear(watermarks)
        for side in Side:
            self.push(side, returned[side] + waiting[side], now)

    def _limits(self, now: int | None) -> Limits:
        settings = self._settings
        return _ANY_INTERVAL if settings is None else limits_at(settings, now)

    def take(
        self, limit: int, drained: tuple[bool, bool], max_skew: int
    ) -> list[tuple[Side, Record]]:
        """The next records in order, at most `limit` of them.

        `drained` says which sides were read to their end: nothing is known to come there. With a
        `max_skew` above 0 (in the job's unit) a side need not wait for one that is not drained
        as long as it is no further ahead of that one than this; the order then depends on how
        the sides were polled.
        """
        left, right = self._queues
        taken: list[tuple[Side, Record]] = []
        while left and right and len(taken) < limit:
            if left[0][0] <= right[0][0]:
                taken.append((Side.LEFT, left.popleft()[1]))
            else:
                taken.append((Side.RIGHT, right.popleft()[1]))
        side = Side.LEFT if left else Side.RIGHT
        queue = self._queues[side]
        if drained[side.other]:
            bound = -_MINUS_INFINITY
        elif max_skew > 0:
            bound = self._tops[side.other] + max_skew
        else:
            return taken
        while queue and len(taken) < limit and queue[0][0] <= bound:
            taken.append((side, queue.popleft()[1]))
        return taken
