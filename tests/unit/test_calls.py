"""A call of a helper thread that hangs: the process is ended, as nothing else can end it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

import app.kafka.calls
import app.run
from app.errors import EXIT_RESTART, Retry
from app.kafka.calls import HUNG_AFTER_S, Calls
from app.kafka.producers import Producers
from app.run import STUCK_AFTER_S, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Authority:
    """Asks nobody."""

    def __init__(self) -> None:
        self.calls = Calls()


class Transactions:
    """Whose producers are never made, or at the first question."""

    ready = False

    def __init__(self, prepare: Callable[[], Any]) -> None:
        self.prepare = prepare


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What hangs ends with the test."""
    event = threading.Event()
    yield event
    event.set()


def test_only_what_is_under_way_for_long_hangs() -> None:
    calls, began = Calls(), time.monotonic()
    with calls.under_way("one"):
        with calls.under_way("another"):
            assert calls.hung(began) is None
            assert calls.hung(began + HUNG_AFTER_S - 1) is None
            assert calls.hung(began + HUNG_AFTER_S + 1) == "one"
        assert calls.hung(began + HUNG_AFTER_S + 1) == "one"
    assert calls.hung(began + HUNG_AFTER_S + 1) is None


def test_who_asks_again_and_again_does_not_hang() -> None:
    calls, clock = Calls(), time.monotonic()
    for _ in range(3):
        with pytest.raises(Retry), calls.under_way("a question"):
            raise Retry("nobody answers")
        assert calls.hung(clock + 10 * HUNG_AFTER_S) is None


def test_a_producer_that_is_never_made_hangs(released: threading.Event) -> None:
    authority, begun = Authority(), threading.Event()

    def prepare() -> None:
        begun.set()
        released.wait(10)
        raise Retry("after all")

    with ThreadPoolExecutor(1) as threads:
        producers = Producers(cast("Any", Transactions(prepare)), cast("Any", authority), threads)
        assert not producers.ready()
        assert begun.wait(10)
        assert authority.calls.hung(time.monotonic() + HUNG_AFTER_S + 1) == "a producer"
        released.set()


@pytest.mark.parametrize("what", ["the loop", "fencing somebody"])
def test_a_process_that_hangs_is_ended(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    process = Process()

    def end(code: int) -> None:
        ended.append(code)
        process.stopping.set()

    monkeypatch.setattr(app.run, "_exit", end)
    monkeypatch.setattr(app.kafka.calls, "HUNG_AFTER_S", 0.5)
    if what == "the loop":
        process.beat -= STUCK_AFTER_S
        app.run._watch(process)
    else:
        with process.calls.under_way(what):
            app.run._watch(process)
    assert ended == [EXIT_RESTART]
