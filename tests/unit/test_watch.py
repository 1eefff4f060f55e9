"""What is said of the topics under a running worker is believed the second time."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

import app.housekeeping
from app.errors import Fenced, Retry, SpanjoinError, UsageError
from app.housekeeping import UNHEARD_S, WATCH_AGAIN_S, WATCH_EVERY_S, Housekeeping
from app.kafka.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS: Final = Limits(100, 200, 300)
SEEN: Final = {"left": ("l", 2), "right": ("r", 2)}


class Job:
    """A worker of two lanes, and what the broker says of its topics."""

    def __init__(self) -> None:
        self.now = 0.0
        self.limits = LIMITS
        self.silent = False
        self.found: Any = dict(SEEN)
        self.limits_found = LIMITS
        self.layout = SimpleNamespace(left_id="l", right_id="r")
        self.config = SimpleNamespace(side=lambda side: SimpleNamespace(topic=side.name.lower()))
        self.inputs = SimpleNamespace(unreachable=False)
        self.authority = SimpleNamespace(seen=self._seen, limits_now=lambda: self.limits_found)

    def _seen(self) -> Any:
        if isinstance(self.found, Retry):
            raise self.found
        return self.found

    def submit(self, question: Callable[[], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.silent:
            self.hanging = answer
            return answer
        try:
            answer.set_result(question())
        except Retry as retry:
            answer.set_exception(retry)
        return answer


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job()
    clock = SimpleNamespace(monotonic=lambda: made.now)
    monkeypatch.setattr(app.housekeeping, "time", clock)
    return made


def watched(job: Job, seconds: float, keeping: Housekeeping | None = None) -> Housekeeping:
    """Watch for so long, a look whenever one is due."""
    keeping = keeping or Housekeeping(cast("Any", job), 2, cast("Any", job))
    until = job.now + seconds
    while job.now < until:
        job.now += 0.1
        if keeping._is_due("watch", WATCH_EVERY_S):
            keeping._watch()  # Asks.
            job.now += 0.1
            keeping._watch()  # Judges.
    return keeping


WRONG: Final[list[tuple[dict[str, Any], type[SpanjoinError], str]]] = [
    ({"found": {**SEEN, "left": None}}, UsageError, "left was deleted"),
    ({"found": {**SEEN, "right": ("other", 2)}}, UsageError, "right was deleted and created again"),
    ({"found": {**SEEN, "left": ("l", 1)}}, UsageError, "from 2 to 1 partitions"),
    ({"found": {**SEEN, "left": ("l", 3)}}, UsageError, "from 2 to 3 partitions"),
    ({"limits_found": LIMITS._replace(changelog=199)}, Fenced, "changelog topic takes 199 bytes"),
]


@pytest.mark.parametrize(("says", "error", "words"), WRONG, ids=lambda of: str(of)[:40])
def test_what_is_said_twice_ends_the_worker(
    job: Job, says: dict[str, Any], error: type[SpanjoinError], words: str
) -> None:
    keeping = watched(job, WATCH_EVERY_S + 1)
    for name, value in says.items():
        setattr(job, name, value)
    with pytest.raises(error, match=words):
        watched(job, WATCH_EVERY_S + WATCH_AGAIN_S + 1, keeping)


@pytest.mark.parametrize(("says", "error", "words"), WRONG, ids=lambda of: str(of)[:40])
def test_what_is_said_once_ends_nothing(
    job: Job, says: dict[str, Any], error: type[SpanjoinError], words: str
) -> None:
    assert issubclass(error, SpanjoinError), words
    before = {name: getattr(job, name) for name in says}
    keeping = watched(job, WATCH_EVERY_S + 1)
    for _ in range(3):
        vars(job).update(says)
        while keeping._doubted is None:
            watched(job, 0.1, keeping)
        vars(job).update(before)
        watched(job, 2 * WATCH_EVERY_S, keeping)
        assert keeping._doubted is None


def test_a_broker_that_does_not_answer_says_nothing(job: Job) -> None:
    keeping = watched(job, WATCH_EVERY_S + 1)
    job.found = Retry("away")
    watched(job, 30, keeping)
    assert keeping.away == "away"
    job.found = dict(SEEN)
    watched(job, WATCH_EVERY_S + 1, keeping)
    assert keeping.away is None


def test_a_broker_that_nobody_has_heard_of_counts_as_away(job: Job) -> None:
    """The client's call may hang; that it is the worker's client that is lost nobody can say."""
    keeping = watched(job, WATCH_EVERY_S + 1)
    assert not keeping._counts_as_away()
    job.silent = True
    watched(job, UNHEARD_S - 1, keeping)
    assert not keeping._counts_as_away()
    watched(job, WATCH_EVERY_S + 2, keeping)
    assert keeping._counts_as_away()
    job.hanging.set_result((SEEN, LIMITS))
    watched(job, WATCH_EVERY_S + 1, keeping)
    assert not keeping._counts_as_away()
