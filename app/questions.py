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
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from app.rows import plain
from schemas.codec import Unresolved
from schemas.match_id import match_id
from schemas.partition import lane_of
from schemas.records import Side
from state.keys import LIVE
from state.overlap import overlapping
from state.retention import is_retained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.process import Running
    from schemas.codec import Codec
    from state.keys import Row

WAITING_MAX: Final = 256
"""Questions that may wait; more are refused."""
SERVED_PER_STEP: Final = 32


ANSWER_MAX: Final = 10_000
"""Rows and matches of one answer. A key may have many more, and the loop has other things to do."""


Tell = Callable[["Running", bytes, "Codec"], dict[str, Any]]
"""What a lane's committed state says of a key, JSON-ready. Raises Unanswerable, Unresolved."""


class NotAnswered(Exception):
    """Ask another worker, or this one later; the text says why."""


class Unanswerable(NotAnswered):
    """To ask again will not help; the text says what will."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `answer` is what `tell` says, or fails with NotAnswered."""

    key: bytes
    linearizable: bool
    lane: int
    tell: Tell | None
    """None: `describe`."""
    answer: Future[dict[str, Any]] = field(default_factory=Future)

    def refuse(self, why: NotAnswered) -> None:
        """Leave it unanswered."""
        self.answer.set_exception(why)


@dataclass(slots=True)
class Questions:
    """The questions that wait. `ask` is for any thread, `serve` for the loop."""

    lanes: int
    _waiting: queue.Queue[Question] = field(default_factory=lambda: queue.Queue(WAITING_MAX))

    def ask(
        self,
        key: bytes,
        *,
        linearizable: bool,
        lane: int | None = None,
        tell: Tell | None = None,
    ) -> Future[dict[str, Any]]:
        """Put a question; the answer comes within a turn or two.

        `lane` is for keys that the inputs' producers do not place as Java's partitioner does.
        """
        lane = lane_of(key, self.lanes) if lane is None else lane
        question = Question(key, linearizable, lane, tell)
        try:
            self._waiting.put_nowait(question)
        except queue.Full:
            question.refuse(NotAnswered("too many questions wait"))
        return question.answer

    @property
    def any(self) -> bool:
        """Whether any wait."""
        return not self._waiting.empty()

    def serve(
        self,
        running: Mapping[int, Running],
        codec: Codec,
        prove: Callable[[list[int]], None],
        look_up: Callable[[Unresolved], None],
    ) -> None:
        """Answer what waits. `prove` commits a transaction over lanes, and raises if it does not.

        `look_up` has schemas that rows were written with looked up, for when it is asked again.

        Raises what `prove` raises, but for NotAnswered: that is an answer. In both cases the
        questions that needed the proof are refused.
        """
        unproven: list[tuple[Question, dict[str, Any]]] = []
        for question in self._next():
            owned = running.get(question.lane)
            if owned is None:
                why = f"lane {question.lane} is not running on this worker"
                question.refuse(NotAnswered(why))
                continue
            try:
                answer = (question.tell or describe)(owned, question.key, codec)
            except NotAnswered as refusal:
                question.refuse(refusal)
                continue
            except Unresolved as unresolved:
                look_up(unresolved)
                question.refuse(NotAnswered(f"{unresolved} has to be looked up"))
                continue
            if question.linearizable:
                unproven.append((question, answer))
            else:
                question.answer.set_result(answer)
        if not unproven:
            return
        try:
            prove(sorted({question.lane for question, _ in unproven}))
        except NotAnswered as refusal:
            for question, _ in unproven:
                question.refuse(refusal)
            return
        except Exception:
            for question, _ in unproven:
                question.refuse(NotAnswered("ownership of the lane could not be proven"))
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


def describe(running: Running, key: bytes, codec: Codec) -> dict[str, Any]:
    """What the lane's committed state says of a key: its rows and their matches, JSON-ready.

    Rows past their retention are in the output topic only, and so are their matches: how long
    memory or store keep them is an accident. Raises Unanswerable.
    """
    window = running.state.windows.peek(key)
    mark = running.checkpoint.watermarks.lane
    horizon = running.settings.lateness + running.settings.max_interval
    left, right = (
        [row for row in side.values() if row[4] == LIVE and is_retained(row[0], mark, horizon)]
        for side in window
    )
    found = (
        match_of(row, other)
        for row in left
        for other in overlapping(window[Side.RIGHT], row[1], row[0])
        if is_retained(other[0], mark, horizon)
    )
    matches = list(islice(found, ANSWER_MAX))
    if len(left) + len(right) + len(matches) >= ANSWER_MAX:
        raise Unanswerable(
            f"the key has {len(left)} left and {len(right)} right rows, too many for one answer "
            f"with their matches (at most {ANSWER_MAX}); read the output topic"
        )
    return {
        "lane": running.lane,
        "epoch": running.checkpoint.epoch,
        "watermark": mark,
        "rows": {
            "left": [_row(row, codec) for row in sorted(left)],
            "right": [_row(row, codec) for row in sorted(right)],
        },
        "matches": sorted(matches, key=lambda match: (match["start"], match["id"])),
    }


def _row(row: Row, codec: Codec) -> dict[str, Any]:
    end, start, row_id, ts, _, value = row
    try:
        record = codec.decode_event(value)
    except ValueError as error:
        raise Unanswerable(f"row {row_id} cannot be decoded: {error}") from None
    return {
        "id": row_id,
        "ts": ts,
        "start": start,
        "end": end,
        "record": plain(record),
    }


def match_of(left: Row, right: Row) -> dict[str, Any]:
    """The match of two rows that overlap."""
    return {
        "id": match_id(left[2], right[2]).decode(),
        "start": max(left[1], right[1]),
        "end": min(left[0], right[0]),
        "left": left[2],
        "right": right[2],
    }
