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

from bisect import bisect_left, bisect_right
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from app.join import limits_at
from app.validity import Limits, fault_of, in_64_bits
from native import loops
from schemas.records import INT64_MAX, INT64_MIN, Arrival, Fault, Kind, Parts, Side, event_of
from state.checkpoint import Watermarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.join import JoinSettings

_MINUS_INFINITY: Final = -(2**80)
_ANY_INTERVAL: Final = Limits(INT64_MIN, INT64_MAX, INT64_MAX - INT64_MIN, INT64_MAX)
_INSERT: Final = int(Kind.INSERT)
_MOVING: Final = (Kind.INSERT, Kind.WATERMARK)
_NEVER: Final = Watermarks()

_rank: Final = itemgetter(0)


class Inbox:
    """Records of one lane that were read and not yet taken.

    `watermarks` are the lane's where reading begins: with them the order is the same after a
    restart. With `settings`, records that will be rejected are told from others.
    """

    __slots__ = ("_settings", "_tops", "_waiting")

    def __init__(
        self, settings: JoinSettings | None = None, watermarks: Watermarks = _NEVER
    ) -> None:
        self._settings = settings
        self._waiting: tuple[list[Arrival], list[Arrival]] = ([], [])
        self._tops = [
            _MINUS_INFINITY if ts is None else ts for ts in (watermarks.left, watermarks.right)
        ]

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    def waiting(self, side: Side) -> int:
        """How many records of this side wait."""
        return len(self._waiting[side])

    def push(
        self,
        side: Side,
        records: Iterable[tuple[int, bytes | None, Parts | Fault, object]],
        now: int | None = None,
    ) -> None:
        """Adds records of one side, in the order of their offsets: (offset, key, parts, source).

        `now` is the wall clock in the job's unit: what is too far ahead of it will be rejected.
        """
        settings = self._settings
        limits = _ANY_INTERVAL if settings is None else limits_at(settings, now)
        top, number, waiting = self._tops[side], int(side), self._waiting[side]
        if loops is not None:
            numbers = in_64_bits(limits)
            risen = partial(_risen, limits)
            self._tops[side] = loops.arrive(waiting, number, records, top, numbers, risen)
            return
        low, high, length_max, latest = limits
        add = waiting.append
        for offset, key, parts, source in records:
            if type(parts) is not Fault and parts[3] > top:
                end, start, _, ts, kind, _ = parts
                # `fault_of`, written out for what nearly every record is.
                if (
                    kind == _INSERT
                    and key is not None
                    and low <= start <= ts <= end <= high
                    and end - start <= length_max
                    and ts <= latest
                ):
                    top = ts
                else:
                    top = _risen(limits, top, offset, key, parts, source)
            add((top, number, offset, key, parts, source))
        self._tops[side] = top

    def put_back(self, records: Sequence[Arrival]) -> None:
        """Returns records that were taken last, but not joined; in front of all that wait."""
        for side, waiting in zip(Side, self._waiting, strict=True):
            waiting[:0] = [record for record in records if record[1] == side]

    def take(self, limit: int, drained: tuple[bool, bool], max_skew: int) -> list[Arrival]:
        """The next records in order, at most `limit` of them.

        `drained` says which sides were read to their end: nothing is known to come there. With a
        `max_skew` above 0 (in the job's unit) a side need not wait for one that is not drained
        as long as it is no further ahead of that one than this; the order then depends on how
        the sides were polled.
        """
        left, right = self._waiting
        lefts, rights = [min(limit, ready) for ready in self._ready(drained, max_skew)]
        taken = left[:lefts] + right[:rights]
        taken.sort(key=_rank)  # Stable, and both halves are in order: left stays first on a tie.
        if len(taken) > limit:
            del taken[limit:]
            rights = sum([record[1] for record in taken])
            lefts = limit - rights
        del left[:lefts], right[:rights]
        return taken

    def _ready(self, drained: tuple[bool, bool], max_skew: int) -> tuple[int, int]:
        """How many of each side may be taken: those that no record to come can precede."""
        left, right = self._waiting
        lefts, rights = len(left), len(right)
        # Whichever side ends first, the other may be taken up to its last record.
        if left and right:
            if left[-1][0] <= right[-1][0]:
                rights = bisect_left(right, left[-1][0], key=_rank)
            else:
                lefts = bisect_right(left, right[-1][0], key=_rank)
        elif left:
            lefts = 0
        else:
            rights = 0
        # Beyond that, what is allowed to run ahead of it.
        side = Side.LEFT if lefts < len(left) else Side.RIGHT
        if drained[side.other]:
            return len(left), len(right)
        if max_skew > 0:
            bound = self._tops[side.other] + max_skew
            ahead = bisect_right(self._waiting[side], bound, key=_rank)
            if side is Side.LEFT:
                return max(lefts, ahead), rights
            return lefts, max(rights, ahead)
        return lefts, rights


def _risen(
    limits: Limits, top: int, offset: int, key: bytes | None, parts: Parts | Fault, source: object
) -> int:
    """The rank of a record that comes after one of this rank."""
    if isinstance(parts, Fault) or parts[3] <= top or parts[4] not in _MOVING:
        return top
    event = event_of(offset, key, parts, source)
    return top if fault_of(event, limits) is not None else event.ts
