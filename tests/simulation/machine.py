"""What a simulated process finds where it expects its machine: clock, threads, events, log."""

from __future__ import annotations

import gc
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from app.metrics import Totals
from tests.simulation.world import START_S, Died, current

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.simulation.world import Process

P = ParamSpec("P")
T = TypeVar("T")


class Clock:
    """In place of the module `time`."""

    @staticmethod
    def monotonic() -> float:
        """Seconds since the simulation began."""
        return current().process.world.now

    @staticmethod
    def time() -> float:
        """Seconds since 1970."""
        return START_S + current().process.world.now

    @staticmethod
    def sleep(seconds: float) -> None:
        """Let others go on meanwhile."""
        current().process.world.sleep(seconds)


class Event:
    """In place of `threading.Event`."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._set

    def set(self) -> None:
        """It happens."""
        self._set = True

    def wait(self, timeout: float) -> bool:
        """Sleep, if it has not happened yet."""
        if not self._set:
            current().process.world.sleep(timeout)
        return self._set


class Thread:
    """In place of `threading.Thread`."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target = target
        self._name = name
        self._done = False

    def start(self) -> None:
        """Begin."""

        def run() -> None:
            self._target()
            self._done = True

        current().process.spawn(self._name, run)

    def join(self, timeout: float) -> None:
        """Wait for its end, but not for ever."""
        world = current().process.world
        deadline = world.now + timeout
        while not self._done and world.now < deadline:
            world.sleep(0.01)


class Threading:
    """In place of the module `threading`."""

    Event = Event
    Thread = Thread
    Lock = nullcontext
    """Nothing else runs but where a step is taken, and none is under a lock."""


class Helpers(Executor):
    """In place of a pool of threads: each job is a coroutine."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a job."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                answer = fn(*args, **kwargs)
            except Died:
                raise
            except BaseException as error:  # noqa: BLE001 - as a pool of threads does
                future.set_exception(error)
            else:
                future.set_result(answer)

        world = self._process.world
        self._process.spawn("helper", run, world.latency())
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more jobs."""


def executor(_threads: int, _name: str, _begin: Callable[[], None]) -> Helpers:
    """In place of `concurrent.futures.ThreadPoolExecutor`."""
    return Helpers(current().process)


def wait(futures: Collection[Future[Any]], timeout: float = inf) -> None:
    """In place of `concurrent.futures.wait`."""
    world = current().process.world
    deadline = world.now + timeout
    while not all(future.done() for future in futures) and world.now < deadline:
        world.sleep(0.01)


class Collector:
    """In place of the module `gc`: the simulator's own process is not theirs to tune."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(gc, name)
        return function if name.startswith("get_") else _nothing


class Log:
    """In place of a module's logger: what a worker says becomes part of the trace."""

    def _say(self, event: str, **details: object) -> None:
        process = current().process
        said = " ".join(f"{name}={value}" for name, value in details.items())
        process.world.note(f"{process.name}: {event} {said}")

    debug = info = warning = error = _say


class Metrics:
    """In place of the worker's metrics: nobody looks."""

    @staticmethod
    def totals(_lane: int) -> Totals:
        """None of anything."""
        return Totals()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None
