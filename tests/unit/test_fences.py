"""Every name is ended once, and what is remembered of that is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Thread

import pytest

from app.errors import Retry
from app.kafka.fences import Fences


@dataclass
class Broker:
    ended: list[str] = field(default_factory=list)
    away: bool = False

    def end(self, name: str) -> None:
        if self.away:
            raise Retry("no answer")
        self.ended.append(name)


def test_a_name_is_ended_once_however_often_it_is_asked_for() -> None:
    broker = Broker()
    fences = Fences(broker.end)
    for name in ("a", "b", "a", "b", "a"):
        fences.once(name)
    assert broker.ended == ["a", "b"]


def test_a_name_that_could_not_be_ended_is_tried_again() -> None:
    broker = Broker(away=True)
    fences = Fences(broker.end)
    with pytest.raises(Retry):
        fences.once("a")
    broker.away = False
    fences.once("a")
    assert broker.ended == ["a"]


def test_two_threads_do_not_end_a_name_at_the_same_time() -> None:
    begun, go_on, ended = Event(), Event(), []

    def end(name: str) -> None:
        begun.set()
        assert go_on.wait(10)
        ended.append(name)

    fences = Fences(end)
    other = Thread(target=fences.once, args=("a",))
    other.start()
    assert begun.wait(10)
    with pytest.raises(Retry, match="another thread"):
        fences.once("a")
    go_on.set()
    other.join(10)
    fences.once("a")
    assert ended == ["a"]


def test_names_that_are_asked_for_no_longer_are_forgotten_first() -> None:
    broker = Broker()
    fences = Fences(broker.end, ended_max=3)
    for number in range(100):
        fences.once("of a lane that is restored again and again")
        fences.once(f"another {number}")
    assert broker.ended[0] == "of a lane that is restored again and again"
    assert broker.ended[1:] == [f"another {number}" for number in range(100)]
    assert len(fences._ended) == 3
