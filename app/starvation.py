"""Partitions that the client has stopped feeding, although the broker has more.

A client has been seen to lose its brokers for good after an outage, see `app.kafka.clients`, and
there are more ways for it to stand still. Nothing else would notice:

1. One side of a lane is not fetched any more. The client says nothing: for it nothing is wrong.
2. The side is never read to its end, so the other one waits for it, is held, and stands still.
3. The worker is a healthy member of its group and is ready. The lane rests for ever.

A side is fed as long as records or ends of its partition come. While neither comes, the broker is
asked for the last stable offset: what somebody's open transaction holds back is not missed.

Invariant: no healthy side is sought anew. Answers must come promptly, one after the other, or the
broker was away and the client may be about to come back. The client's queue must have run empty,
or the records may be in it, behind others. What is fetched and dropped since its transaction was
aborted gives no sign either, so a side is sought once only, and has minutes after that.

A lane on its way reads its changelog with a client of its own, which may stand still as well: the
lane would be nobody's for ever. It has the same minutes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from app.errors import Fenced, SpanjoinError
from app.kafka.failures import TROUBLES
from rebalance.phases import Phase
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from app.kafka.authority import Ends
    from app.worker import Worker

ASK_EVERY_S: Final = 5.0
PROMPT_S: Final = 2.0
"""An answer that took longer came from a broker that was away."""
SOUGHT_AFTER: Final = 3
"""Answers in a row that say that a side is not fed: ten seconds without a sign."""
LOST_AFTER: Final = 6
"""The same of a client that finds no broker at all: it has nothing to wait for."""
GIVEN_UP_AFTER: Final = 36
"""The same: three minutes. To skip an aborted transaction of gigabytes takes less."""
_REPLAYING: Final = (Phase.RESTORING, Phase.FENCING, Phase.INSTALLING)

_log: Final = structlog.get_logger()


class Sign(NamedTuple):
    """What has come of a side; a lane that was taken over anew is another one."""

    running: int
    expected: int
    end: int | None
    """Offset of the partition's end, if that was the newest signal."""


class Replayed(NamedTuple):
    """What has come of the changelog of a lane on its way; an assignment anew is another one."""

    lane: int
    record: int
    end: int


class Asked(NamedTuple):
    """A question that is on its way: the ends of the inputs, and of the changelog by lane."""

    at: float
    signs: dict[tuple[Side, int], Sign]
    replayed: dict[int, Replayed]
    emptied: tuple[int, int]
    answer: Future[tuple[Ends, dict[int, int]]]


@dataclass(slots=True)
class Starvation:
    """One per worker, on its thread."""

    worker: Worker
    _asked: Asked | None = None
    _asked_at: float = 0.0
    _silent: dict[tuple[Side, int], tuple[Sign, int]] = field(default_factory=dict)
    """Sides that are not fed, and how many answers in a row have said so."""
    _still: dict[int, tuple[Replayed, int]] = field(default_factory=dict)
    """The same of lanes on their way."""

    def step(self) -> None:
        """Ask the broker now and then; raises Fenced where a side stands still for good."""
        now = time.monotonic()
        asked = self._asked
        if asked is None:
            if now - self._asked_at >= ASK_EVERY_S:
                self._ask(now)
        elif asked.answer.done():
            self._asked = None
            try:
                ends, changelogs = asked.answer.result()
            except SpanjoinError:
                # We stop, or may not ask; whoever must know of that asks, too.
                self._forget()
                return
            if now - asked.at > PROMPT_S:
                self._forget()
            else:
                self._judge(asked, ends)
                self._judge_replays(asked, changelogs)

    def _forget(self) -> None:
        self._silent.clear()
        self._still.clear()

    def _ask(self, now: float) -> None:
        self._asked_at = now
        signs, replayed = self._signs(), self._replayed()
        if signs or replayed:
            inputs = self.worker.inputs
            answer = self.worker.threads.submit(self._ends, list(signs), list(replayed))
            self._asked = Asked(now, signs, replayed, inputs.emptied, answer)

    def _ends(
        self, places: list[tuple[Side, int]], lanes: list[int]
    ) -> tuple[Ends, dict[int, int]]:
        """The broker's word, on a helper thread: of these sides, and of these changelogs."""
        authority = self.worker.authority
        ends = authority.ends(places) if places else {}
        return ends, {lane: authority.stable(lane) for lane in lanes}

    def _signs(self) -> dict[tuple[Side, int], Sign]:
        """By (side, lane), what has come of every side that is to be fed."""
        end = self.worker.idleness.end
        return {
            (side, lane): Sign(id(running), running.expected[side], end(side, lane))
            for lane, running in self.worker.running.items()
            for side in Side
            if not running.held[side] and not running.unread[side]
        }

    def _replayed(self) -> dict[int, Replayed]:
        """By lane on its way, what has come of its changelog."""
        return {
            number: Replayed(id(lane), lane.record_seen, lane.end_seen)
            for number, lane in self.worker.lanes.items()
            if lane.phase in _REPLAYING
        }

    def _judge(self, asked: Asked, ends: Ends) -> None:
        """Count the sides of which nothing has come, and act on those of which nothing does."""
        before, self._silent = self._silent, {}
        signs, emptied = self._signs(), self.worker.inputs.emptied
        for place, sign in asked.signs.items():
            stable, _ = ends.get(place, (-1, -1))
            read = sign.end is not None and stable <= sign.end
            side, _ = place
            if read or signs.get(place) != sign or emptied[side] == asked.emptied[side]:
                continue
            known, count = before.get(place, (sign, 0))
            count = count + 1 if known == sign else 1
            self._silent[place] = sign, count
            if count == SOUGHT_AFTER:
                self._seek(place, sign, stable)
            elif _is_over(count, partial(self.worker.inputs.lost, side)):
                raise Fenced(
                    f"nothing of the {side.name.lower()} side of lane {place[1]} comes from the "
                    f"client any more, at {sign.expected} of {stable}"
                )

    def _seek(self, place: tuple[Side, int], sign: Sign, stable: int) -> None:
        side, lane = place
        _log.warning(
            "side not fed, sought anew",
            side=side.name.lower(), lane=lane, position=sign.expected, end=stable,
        )  # fmt: skip
        self.worker.metrics.starved()
        try:
            self.worker.inputs.flow(side, lane, sign.expected)
        except TROUBLES as error:
            # Whatever state the client is in: there is one more answer to that.
            _log.warning("side not found", side=side.name.lower(), lane=lane, reason=str(error))

    def _judge_replays(self, asked: Asked, stable: dict[int, int]) -> None:
        """Count the lanes on their way that the client does not feed."""
        before, self._still = self._still, {}
        replayed = self._replayed()
        for lane, sign in asked.replayed.items():
            if replayed.get(lane) != sign or stable[lane] <= sign.end:
                continue
            known, count = before.get(lane, (sign, 0))
            count = count + 1 if known == sign else 1
            self._still[lane] = sign, count
            if _is_over(count, self.worker.reader.lost):
                raise Fenced(
                    f"nothing of the changelog of lane {lane} comes from the client any more, "
                    f"at {max(sign.record, sign.end)} of {stable[lane]}"
                )


def _is_over(count: int, lost: Callable[[], bool]) -> bool:
    """Whether so many answers are enough; `lost`: whether the client finds no broker."""
    return count >= GIVEN_UP_AFTER or (count >= LOST_AFTER and lost())
