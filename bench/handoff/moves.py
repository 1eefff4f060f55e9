"""One move of lanes: something is done to the workers, and the results say what came of it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.handoff.figures import Span, longest_gap, longest_pause, rate
from bench.handoff.stamps import now_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.handoff.fleet import Fleet, Owners
    from bench.handoff.watch import Watch

SECOND_US: Final = 1_000_000
CALM_US: Final = 6 * SECOND_US
"""Before each move: what lanes do when nothing moves."""
AROUND_US: Final = 3 * SECOND_US
"""Before and after a move: a lane that stays may feel it so much earlier or later."""
BEFORE_OWNED_US: Final = 10 * SECOND_US
"""Before the new owner was seen in the group: where its lanes' gaps are looked for."""
WINDOW_US: Final = 5 * SECOND_US
"""Up to the end of a move: in which the results of the lanes that stay are counted."""
STABLE_S: Final = 3.0
"""After a move: how long nothing may move any more."""
FRESH_US: Final = 3 * SECOND_US
SETTLED_WITHIN_S: Final = 400.0
POLL_S: Final = 0.1

JOINS: Final = "a worker joins"
ENDS: Final = "a worker ends on SIGTERM"
KILLED: Final = "a worker is killed"
KILLED_IN_TRANSACTION: Final = "a worker is killed in a transaction"


class Stayed(NamedTuple):
    """A lane that did not move."""

    gap_before_us: int
    """The longest time without a visible result when nothing moved; then around the move."""
    gap_us: int
    rate_kept: float
    """Results written in the window, as a share of what was written before."""


@dataclass(frozen=True)
class Move:
    """What came of it, per lane."""

    how: str
    calm: Span
    moved: dict[int, Span]
    """From the last result of the old owner to the first of the new one."""
    stayed: dict[int, Stayed]


class Settled(NamedTuple):
    """How the lanes are shared out."""

    owners: Owners
    since_us: dict[int, int]
    """When each lane's owner was first seen to have it."""


@dataclass(frozen=True)
class Trial:
    """A job under load, whose workers are made more and fewer."""

    fleet: Fleet
    watch: Watch
    fresh: Callable[[], bool]
    """Whether the results keep up with the load."""

    def move(self, how: str, cause: Callable[[], object]) -> Move:
        """Let it be calm, cause a move, wait until it is calm again."""
        before = self.settle().owners
        time.sleep(CALM_US / 1e6)
        began = now_us()
        cause()
        owners, since_us = self.settle()
        ended = now_us()
        seen, written = self.watch.seen_us, self.watch.appended_us
        moved = {
            lane: longest_gap(seen[lane], Span(max(began, since_us[lane] - BEFORE_OWNED_US), ended))
            for lane in owners
            if owners[lane] != before[lane]
        }
        if not moved:
            raise RuntimeError(f"{how}: no lane has moved")
        calm = Span(began - CALM_US, began)
        stayed = {
            lane: _stayed(seen[lane], sorted(written[lane]), calm, list(moved.values()), ended)
            for lane in owners.keys() - moved.keys()
        }
        return Move(how, calm, moved, stayed)

    def settle(self) -> Settled:
        """Wait until every lane has an owner, every worker its share, and every lane results."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        calm_since, known = time.monotonic(), None
        seen: dict[int, tuple[str, int]] = {}
        while True:
            self.fleet.check()
            owners = self.fleet.owners()
            for lane, owner in (owners or {}).items():
                if lane not in seen or seen[lane][0] != owner:
                    seen[lane] = owner, now_us()
            now = time.monotonic()
            if owners is None or owners != known or not self.fleet.fair(owners) or not self.fresh():
                calm_since, known = now, owners
            elif now - calm_since > STABLE_S:
                return Settled(owners, {lane: since for lane, (_, since) in seen.items()})
            if now > deadline:
                raise TimeoutError(
                    f"not settled: {owners}, results up to {self.watch.last_sent_us()}"
                )
            time.sleep(POLL_S)

    def join(self, *, victim: bool = False) -> Move:
        """A worker more."""
        return self.move(JOINS, lambda: self.fleet.start(victim=victim))

    def leave(self) -> Move:
        """The longest running worker ends in good order."""
        worker = self.fleet.workers[0]
        return self.move(ENDS, lambda: self.fleet.end(worker, signal.SIGTERM))

    def kill(self) -> Move:
        """The longest running worker is killed."""
        worker = self.fleet.workers[0]
        return self.move(KILLED, lambda: self.fleet.end(worker, signal.SIGKILL))

    def kill_in_transaction(self) -> Move:
        """The newest worker dies with a transaction open."""
        worker = self.fleet.workers[-1]
        return self.move(KILLED_IN_TRANSACTION, lambda: self.fleet.end(worker, worker.death))


def keeping_up(watch: Watch) -> bool:
    """Whether every lane has a result of what was sent just now."""
    return min(watch.last_sent_us()) > now_us() - FRESH_US


def going_on(watch: Watch) -> bool:
    """Whether every lane has had a result just now, however long ago its rows were sent."""
    return min(watch.last_seen_us()) > now_us() - FRESH_US


def _stayed(
    seen: Sequence[int], appended: Sequence[int], calm: Span, gaps: list[Span], watched_to_us: int
) -> Stayed:
    begin, end = min(gap.begin for gap in gaps), max(gap.end for gap in gaps)
    window = Span(min(begin, end - WINDOW_US), end)
    before = rate(appended, calm)
    return Stayed(
        longest_pause(seen, calm),
        longest_gap(seen, Span(begin - AROUND_US, min(end + AROUND_US, watched_to_us))).length,
        rate(appended, window) / before if before else 0.0,
    )
