"""Questions about a key, asked by other threads and answered by the loop between its turns.

Between turns memory holds committed state only, and nobody but the loop changes it: so an answer
never shows half a turn. What it cannot know by itself is whether the lane is still its own:

1. A worker is paused; its session expires; another one takes the lane over and commits.
2. The worker wakes and is asked, before it has polled and learnt of its loss.
3. Its state is older than what readers of the output have seen: stale.

So a *linearizable* question is answered only after a transaction of its own was committed: it
carries the lane's unchanged positions, and the broker takes those from a member of the current
generation only. The answer was read before that transaction and nothing was written in between, so
it was the lane's state at the moment of the commit.
"""

from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.rows import plain
from schemas.match_id import match_id
from schemas.partition import lane_of
from schemas.records import Side
from state.window import overlapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.process import Running
    from schemas.codec import AvroCodec
    from state.keys import Row

WAITING_MAX: Final = 256
"""Questions that may wait; more are refused."""
SERVED_PER_STEP: Final = 32


class NotAnswered(Exception):
    """Ask another worker, or this one later; the text says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `answer` is set, or fails with NotAnswered."""

    key: bytes
    linearizable: bool
    answer: Future[dict[str, Any]] = field(default_factory=Future)

    def refuse(self, why: str) -> None:
        """Leave it unanswered."""
        self.answer.set_exception(NotAnswered(why))


@dataclass(slots=True)
class Questions:
    """The questions that wait. `ask` is for any thread, `serve` for the loop."""

    lanes: int
    _waiting: queue.Queue[Question] = field(default_factory=lambda: queue.Queue(WAITING_MAX))

    def ask(self, key: bytes, *, linearizable: bool) -> Future[dict[str, Any]]:
        """Put a question; the answer comes within a turn or two."""
        question = Question(key, linearizable)
        try:
            self._waiting.put_nowait(question)
        except queue.Full:
            question.refuse("too many questions wait")
        return question.answer

    def serve(
        self,
        running: Mapping[int, Running],
        codec: AvroCodec,
        prove: Callable[[list[int]], None],
    ) -> None:
        """Answer what waits. `prove` commits a transaction over lanes, and raises if it does not.

        Raises what `prove` raises; the questions that needed the proof are refused then.
        """
        unproven: list[tuple[Question, dict[str, Any]]] = []
        for question in self._next():
            lane = lane_of(question.key, self.lanes)
            owned = running.get(lane)
            if owned is None:
                question.refuse(f"lane {lane} is not running on this worker")
                continue
            answer = describe(owned, question.key, codec)
            if question.linearizable:
                unproven.append((question, answer))
            else:
                question.answer.set_result(answer)
        if not unproven:
            return
        try:
            prove(sorted({answer["lane"] for _, answer in unproven}))
        except Exception:
            for question, _ in unproven:
                question.refuse("ownership of the lane could not be proven")
            raise
        for question, answer in unproven:
            question.answer.set_result(answer)

    def _next(self) -> list[Question]:
        questions: list[Question] = []
        while len(questions) < SERVED_PER_STEP:
            try:
                questions.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        return questions


def describe(running: Running, key: bytes, codec: AvroCodec) -> dict[str, Any]:
    """What the lane's committed state says of a key: its rows and their matches, JSON-ready.

    Rows past their retention are in the output topic only, and so are their matches.
    """
    window = running.state.windows.peek(key)
    left, right = ([row for shelf in side.shelves for row in shelf.rows] for side in window.sides)
    matches = [
        _match(row, other)
        for row in left
        for other in overlapping(window.sides[Side.RIGHT], row[1], row[0])
    ]
    return {
        "lane": running.lane,
        "epoch": running.checkpoint.epoch,
        "watermark": running.checkpoint.watermarks.lane,
        "rows": {
            "left": [_row(row, codec) for row in sorted(left)],
            "right": [_row(row, codec) for row in sorted(right)],
        },
        "matches": sorted(matches, key=lambda match: (match["start"], match["id"])),
    }


def _row(row: Row, codec: AvroCodec) -> dict[str, Any]:
    end, start, row_id, ts, _, value = row
    return {
        "id": row_id,
        "ts": ts,
        "start": start,
        "end": end,
        "record": plain(codec.decode_event(value)),
    }


def _match(left: Row, right: Row) -> dict[str, Any]:
    return {
        "id": match_id(left[2], right[2]).decode(),
        "start": max(left[1], right[1]),
        "end": min(left[0], right[0]),
        "left": left[2],
        "right": right[2],
    }
