"""Simulated time, processes and threads: everything that happens is an event in one queue.

A thread of a process is a coroutine. Whatever blocks in it (a call to Kafka, a sleep, a look into
the store) suspends it until a moment that the seed chooses, and so chooses who goes next. Two runs
of one seed do exactly the same.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.log import Past
    from tests.simulation.membership import Membership
    from tests.simulation.network import Flight

START_S: Final = 1_700_000_000.0
"""Wall clock at the beginning; the monotonic clock begins at 0."""


class Died(BaseException):
    """Unwinds a coroutine whose process is dead. Nothing that it meets on its way has effects."""


class Stuck(AssertionError):
    """Time has run out before everything was done."""


class Task(greenlet):
    """One thread of a process."""

    def __init__(self, process: Process, name: str, body: Callable[[], None]) -> None:
        super().__init__(self._live, process.world.hub)
        self.process = process
        self.name = name
        self.flight: Flight[Any] | None = None
        """The request that is on its way to the broker."""
        self._body = body

    def _live(self) -> None:
        try:
            self._body()
        except Died:
            assert self.process.dead, "only a dead process unwinds its threads"
        finally:
            self.process.tasks.pop(self, None)


class Process:
    """What a crash ends and a pause stops, all threads at once."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.slowness = 1.0
        """Factor on every latency of its threads."""
        self.tasks: dict[Task, None] = {}
        self.stores: dict[Any, None] = {}
        """Open files, so to speak: closed when the process dies."""
        self.names = 0
        self.disk_full = False
        self.membership: Membership | None = None
        """Of its group, once it has subscribed."""
        self.deaf: dict[str, bool] = {}
        """Consumers that fetch nothing any more, by their labels, and whether a seek mends that."""
        self.past: Past | None = None
        """That of the broker which answers its questions, if that was cut off from the others."""
        self.traps: list[tuple[str, Callable[[], None]]] = []
        """Labels, or beginnings of them, and what happens when a thread comes by one."""

    def spawn(self, name: str, body: Callable[[], None], delay: float = 0.0) -> None:
        """Start a thread."""
        task = Task(self, name, body)
        self.tasks[task] = None
        self.world.resume(task, delay)

    def later(self, action: Callable[[], None], delay: float) -> None:
        """Have a library's own thread do something: when the process goes on, if it is stopped."""

        def act() -> None:
            if self.dead:
                return
            frozen = self.frozen_until - self.world.now
            if frozen > 0:
                self.world.at(frozen + self.world.latency(), act)
                return
            action()

        self.world.at(delay, act)

    def crash(self) -> None:
        """End at once, wherever its threads are; what is on the wire may still arrive."""
        self.dead = True
        self._let_fly(0.5)
        self.traps.clear()
        for task in list(self.tasks):
            if task is not getcurrent():
                if task:
                    task.parent = getcurrent()
                    task.throw(Died)
                self.tasks.pop(task, None)
        self.world.at(0.0, self.close_stores)

    def close_stores(self) -> None:
        """What the system does with open files of a dead process."""
        stores, self.stores = self.stores, {}
        for store in stores:
            self.world.on_store_left(store)
            store.close()

    def freeze(self, seconds: float) -> None:
        """Stop all threads, and go on later as if nothing had been."""
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self._let_fly(0.5)

    def thaw(self) -> None:
        """Go on now."""
        self.frozen_until = 0.0

    def _let_fly(self, chance: float) -> None:
        for task in self.tasks:
            if task.flight is not None and self.world.random.random() < chance:
                self.world.at(self.world.latency(), task.flight.land)


class World:
    """The queue of events, the clock, the seed's choices and the trace."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.hub = getcurrent()
        self.now = 0.0
        self.trace: list[tuple[float, str]] = []
        self.done = False
        self.events = 0
        self.slow_every = 0.03
        """Share of steps that take long."""
        self.slow_s = 0.3
        self.on_store_left: Callable[[Any], None] = _nothing
        """Told of every store that a process had when it died."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def wall_ms(self) -> int:
        """The wall clock."""
        return int((START_S + self.now) * 1000)

    def note(self, text: str) -> None:
        """One line of the trace."""
        self.trace.append((self.now, text))

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Have something done later."""
        self._count += 1
        heappush(self._queue, (self.now + delay, self._count, action))

    def run(self, until: float) -> None:
        """Let things happen until `done` is set; raises Stuck when time is up before."""
        while not self.done:
            if not self._queue:
                raise Stuck("nothing is left to happen")
            when, _, action = heappop(self._queue)
            if when > until:
                raise Stuck(f"not done at {until:.1f} s")
            self.now = when
            self.events += 1
            action()

    def latency(self) -> float:
        """How long one step takes, in seconds: mostly little, now and then long."""
        random = self.random.random
        if random() < self.slow_every:
            return random() * self.slow_s
        return 0.0002 + 0.003 * random()

    def resume(self, task: Task, delay: float) -> None:
        """Let a thread go on later."""

        def go() -> None:
            process = task.process
            if process.dead:
                return
            if process.frozen_until > self.now:
                self.at(process.frozen_until - self.now + self.latency(), go)
                return
            task.switch()

        self.at(delay, go)

    def sleep(self, seconds: float) -> None:
        """Suspend the thread that calls."""
        task = current()
        if task.process.dead:
            raise Died
        self.resume(task, seconds)
        self.hub.switch()
        if task.process.dead:
            raise Died

    def step(self, label: str) -> None:
        """Let others go before the thread that calls goes on; here is where things break."""
        process = current().process
        for trap in process.traps:
            if label.startswith(trap[0]):
                process.traps.remove(trap)
                self.note(f"{process.name}: at {label}:")
                trap[1]()
                break
        self.sleep(self.latency() * process.slowness)


def _nothing(_store: object) -> None:
    return None


def current() -> Task:
    """The thread that is calling."""
    task: Any = getcurrent()
    assert type(task) is Task, "not inside a simulated process"
    return task
