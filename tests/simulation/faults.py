"""What breaks: the seed picks a failure, its victim and its moment, again and again."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from app.steps import KINDS, TAKING_OVER, WRITING
from tests.simulation.network import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.broker import Broker
    from tests.simulation.log import Past
    from tests.simulation.options import Blow, Options
    from tests.simulation.workers import Worker
    from tests.simulation.world import Process

WRITES: Final = tuple(f"{kind}.{step}" for kind in KINDS for step in WRITING)
TAKEOVERS: Final = ("fence", "list_offsets", "committed", "install", "consume -restore")
CONSUMERS: Final = ("consume ", "consume -right", "consume -restore")
PASSAGES: Final = 6
LOST_FOR_S: Final = 0.3
CUT_OFF_S: Final = 1.0
"""The longest that a broker which was cut off goes on answering."""
MOMENTS: Final = (
    *TAKING_OVER,
    "add_partitions",
    "produce",
    "send_offsets sent",
    "send_offsets answered",
    "commit sent",
    "commit answered",
    "abort",
    "init_transactions sent",
    "init_transactions answered",
    "list_offsets",
    "committed",
    "join",
    "store.open",
    "store.write",
    "store.written",
    "store.wipe",
    "store.close",
)
"""Where a process can be hit; a label's beginning is enough."""


class Faults:
    """Breaks things until it is told to stop."""

    def __init__(self, broker: Broker, workers: list[Worker], options: Options) -> None:
        self._broker = broker
        self._workers = workers
        self._options = options
        self._world = broker.world
        weather = broker.weather
        weather.lose_request, weather.lose_answer = options.lose_request, options.lose_answer
        weather.late_end, weather.lose_end = options.late_end, options.lose_end
        broker.coordinator.marker_s = options.marker_s
        self._over = False
        self._remembered = broker.past(offsets=True)
        self._do: dict[str, Callable[[Worker], None]] = {
            "crash": self._crash,
            "pause": self._pause,
            "sleep": self._sleep,
            "expel": self._expel,
            "bump": lambda _worker: self._bump(),
            "away": lambda _worker: self._away(),
            "stop": self._stop,
            "wipe": lambda worker: self._spoil(worker, worker.wipe),
            "damage": lambda worker: self._spoil(worker, worker.damage),
            "full": self._fill,
            "join": self._expel_quietly,
            "deaf": self._deafen,
            "cut off": self._cut_off,
        }
        broker.network.on_late_end = self._worse
        broker.network.lost_as_revoked = 0.1
        if options.schedule:
            self._play(options.schedule, self._world.random.randrange(PASSAGES))
        if options.faults:
            self._world.at(options.fault_every_s * self._world.random.random(), self._strike)

    def stop(self) -> None:
        """From now on nothing breaks any more, and whoever is down comes back."""
        self._world.note("--- failures stop ---")
        self._over = True
        self._broker.weather.calm()
        self._broker.coordinator.marker_s = 0.02
        self._world.slow_every, self._world.slow_s = 0.02, 0.05
        for worker in self._workers:
            worker.armed.clear()
            if worker.process is not None:
                worker.process.traps.clear()
                worker.process.past = None
                worker.process.slowness = 1.0
                worker.process.thaw()
            worker.start()

    def _strike(self) -> None:
        if self._over:
            return
        random = self._world.random
        worker = random.choice(self._workers)
        self._do[random.choice(self._options.faults)](worker)
        self._world.at(self._options.fault_every_s * 2 * random.random(), self._strike)

    def _worse(self, process: Process) -> None:
        """Bad luck comes in twos: whoever was hit by a late EndTxn is hit again right after."""
        random = self._world.random
        if self._over or not self._options.faults or random.random() < 0.5:
            return
        for worker in self._workers:
            if worker.process is process:
                blows: tuple[Callable[[], None], ...] = (
                    worker.crash,
                    partial(self._expel, worker),
                    partial(self._pause, worker),
                )
                self._world.at(random.random() * 0.02, random.choice(blows))

    def _at_some_moment(self, worker: Worker, action: Callable[[], None]) -> None:
        """Now, or when the process comes by a certain place next."""
        process = worker.process
        if process is None:
            return
        if self._world.random.random() < 0.3:
            action()
        else:
            moments = WRITES if self._world.random.random() < 0.5 else MOMENTS
            process.traps.append((self._world.random.choice(moments), action))

    def _crash(self, worker: Worker) -> None:
        self._at_some_moment(worker, worker.crash)

    def _pause(self, worker: Worker) -> None:
        """For less or more than a session, for more than a transaction may stay open."""
        seconds = self._world.random.choice([0.5, 2.0, 3.0, 6.0])
        self._at_some_moment(worker, lambda: worker.pause(seconds))

    def _sleep(self, worker: Worker) -> None:
        """Stop in the middle of something, for longer than a session: a zombie on waking."""
        random = self._world.random
        if worker.process is not None:
            seconds = random.choice([2.0, 3.0, 5.0])
            somewhere = random.choice(WRITES if random.random() < 0.8 else TAKEOVERS)
            moment = self._options.sleep_at or somewhere
            worker.process.traps.append((moment, partial(worker.pause, seconds)))

    def _expel(self, worker: Worker) -> None:
        """Its session expires although it is alive: its heartbeats did not arrive."""
        members = sorted(self._broker.group("job").members)
        if members:
            name = self._world.random.choice(members)
            self._world.note(f"group: {name} is expelled")
            self._broker.group("job").leave(name)

    def _expel_quietly(self, worker: Worker) -> None:
        """At some moment of a worker, somebody is expelled."""
        self._at_some_moment(worker, lambda: self._expel(worker))

    def _bump(self) -> None:
        self._broker.group("job").bump()

    def _away(self) -> None:
        seconds = self._world.random.choice([0.2, 1.0, 3.0])
        self._world.note(f"broker: is away for {seconds} s")
        weather = self._broker.weather
        weather.away_until = max(weather.away_until, self._world.now + seconds)

    def _stop(self, worker: Worker) -> None:
        """A graceful end, and a start some time later."""
        worker.stop()

    def _spoil(self, worker: Worker, how: Callable[[int], None]) -> None:
        """A store is gone or damaged when the process comes back."""
        worker.crash()
        lane = self._world.random.randrange(self._options.lanes)
        self._world.at(0.001, lambda: how(lane))

    def _fill(self, worker: Worker) -> None:
        """From now on this process can write no store."""
        if worker.process is not None:
            self._world.note(f"{worker.process.name}: has no room on its disk any more")
            worker.process.disk_full = True

    def _deafen(self, worker: Worker) -> None:
        """From now on one consumer of this process fetches nothing, and does not know it."""
        if worker.process is not None:
            label = self._world.random.choice(CONSUMERS)
            self._world.note(f"{worker.process.name}: {label} fetches nothing any more")
            worker.process.deaf[label] = self._world.random.random() < 0.5

    def _cut_off(self, worker: Worker) -> None:
        """Soon this process is answered by a broker that knows no more than what there is now."""
        random = self._world.random
        past = self._broker.past(offsets=random.random() < 0.5)
        seconds = CUT_OFF_S * random.random()
        self._world.at(2.0 * random.random(), lambda: self._answer_from(past, worker, seconds))

    def _answer_from(self, past: Past, worker: Worker, seconds: float) -> None:
        process = worker.process
        if self._over or process is None or process.past is not None:
            return
        group = "" if past.offsets is None else ", also of the group"
        self._world.note(f"{process.name}: is told old news for {seconds:.2f} s{group}")
        process.past = past

        def mend() -> None:
            self._world.note(f"{process.name}: is told the truth again")
            process.past = None

        self._world.at(seconds, mend)

    # --- by hand: see `schedules` ----------------------------------------------------------------

    def _play(self, schedule: tuple[Blow, ...], passages: int) -> None:
        """The first blow, when its worker comes by for that many times; then the others."""
        if not schedule:
            return
        (number, where, what), rest = schedule[0], schedule[1:]
        worker = self._workers[number]

        def strike() -> None:
            if passages:
                self._play(schedule, passages - 1)
                return
            self._play(rest, 0)
            self._blow(worker, what)

        worker.arm(where, strike)

    def _blow(self, worker: Worker, what: str) -> None:
        process = worker.process
        assert process is not None, "it has just come by"
        self._world.note(f"{process.name}: {what}")
        blows: dict[str, Callable[[], None]] = {
            "crash": worker.crash,
            "nap": lambda: worker.pause(0.8),
            "sleep": lambda: worker.pause(2.5),
            "long sleep": lambda: worker.pause(6.0),
            "stop": worker.stop,
            "bump": self._bump,
            "away": self._away,
            "full": lambda: self._fill(worker),
            "expel": lambda: self._expel_one(process),
            "fence": lambda: self._fence(process),
            "lose": self._lose_next_end,
            "deaf": lambda: process.deaf.update({"consume -right": True}),
            "remember": lambda: self._remember(offsets=True),
            "remember logs": lambda: self._remember(offsets=False),
            "cut off": lambda: self._answer_from(self._remembered, worker, CUT_OFF_S),
            "deaf for good": lambda: process.deaf.update({"consume -restore": False}),
        }
        blows[what]()

    def _remember(self, *, offsets: bool) -> None:
        """A broker is cut off now; it goes on answering."""
        self._remembered = self._broker.past(offsets=offsets)

    def _expel_one(self, process: Process) -> None:
        if process.membership is not None:
            self._broker.group("job").leave(process.membership.name)

    def _fence(self, process: Process) -> None:
        """Somebody takes what it has open for a former owner's."""
        for name in self._broker.coordinator.open_of(f"job-{process.name}."):
            with suppress(Refused):
                self._broker.coordinator.init(name, 60.0)

    def _lose_next_end(self) -> None:
        """Nobody learns what becomes of the next EndTxn, and of others soon after."""
        weather = self._broker.weather
        weather.lose_end = 1.0

        def mend() -> None:
            weather.lose_end = 0.0

        self._world.at(LOST_FOR_S, mend)
