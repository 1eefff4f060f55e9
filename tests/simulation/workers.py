"""Workers as a supervisor sees them: started, killed, stopped, paused, and started again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from app.errors import EXIT_CRASH, EXIT_DONE, EXIT_RESTART, SpanjoinError
from app.ownership import Identity
from app.run import Process as Run
from app.run import _work
from rebalance.phases import Phase
from tests.simulation import machine
from tests.simulation.options import job
from tests.simulation.world import Died, Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulation.options import Options
    from tests.simulation.world import World

WATCHDOG_S: Final = 45.0
RESTART_S: Final = 0.5


class Broke(AssertionError):
    """A worker ended in a way that no failure of its surroundings explains."""


class Worker:
    """One place for a worker; its state directory stays when the process dies."""

    def __init__(self, world: World, name: str, directory: Path, options: Options) -> None:
        self.world = world
        self.name = name
        self.directory = directory
        self.options = options
        self.process: Process | None = None
        self.run: Run | None = None
        self.wanted = True
        """Whether it is started again when it ends."""
        self.armed: list[tuple[str, Callable[[], None]]] = []
        """What happens when it next comes by a place, be it after another start."""
        self._starts = 0
        directory.mkdir(parents=True)
        world.at(1.0, self._watch)

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    def lanes_running(self) -> set[int]:
        """The lanes that it has claimed and not given up."""
        if self.run is None or self.run.worker is None:
            return set()
        return {
            number for number, lane in self.run.worker.lanes.items() if lane.phase is Phase.RUNNING
        }

    def start(self) -> None:
        """Start the process, if there is none."""
        self.wanted = True
        if self.process is not None:
            return
        self._starts += 1
        process = self.process = Process(self.world, f"{self.name}.{self._starts}")
        process.slowness = self.world.random.choice([0.5, 1.0, 1.0, 3.0])
        event: Any = machine.Event()
        run = self.run = Run(reached=self.world.step, stopping=event, beat=self.world.now)
        self.world.note(f"{process.name}: starts")
        process.traps += self.armed
        process.spawn("main", lambda: self._main(process, run))

    def arm(self, moment: str, action: Callable[[], None]) -> None:
        """Have something happen when the process comes by there next."""

        def fire() -> None:
            self.armed.remove(trap)
            action()

        trap = (moment, fire)
        self.armed.append(trap)
        if self.process is not None:
            self.process.traps.append(trap)

    def crash(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.world.note(f"{self.process.name}: is killed")
            self._end(self.process)
            self._again()

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        if self.process is not None:
            self.world.note(f"{self.process.name}: is stopped for {seconds:.1f} s")
            self.process.freeze(seconds)

    def stop(self) -> None:
        """SIGTERM."""
        if self.run is not None:
            self.world.note(f"{self.name}: is told to stop")
            self.run.stopping.set()

    def wipe(self, lane: int) -> None:
        """Somebody deletes a store while no process has it."""
        if self.process is None:
            self.world.note(f"{self.name}: store of lane {lane} is deleted")
            shutil.rmtree(self.directory / f"lane-{lane}", ignore_errors=True)

    def damage(self, lane: int) -> None:
        """A file of a store is cut short while no process has it."""
        current = self.directory / f"lane-{lane}" / "CURRENT"
        if self.process is None and current.exists():
            self.world.note(f"{self.name}: store of lane {lane} is damaged")
            current.write_bytes(b"MANI")

    def _main(self, process: Process, run: Run) -> None:
        code, failure = EXIT_DONE, None
        helpers: Any = machine.Helpers(process)
        try:
            config = job(self.directory, self.options)
            code = _work(config, Identity(process.name, ""), run, helpers)
        except SpanjoinError as error:
            code, failure = error.exit_code, error
        self.world.note(f"{process.name}: exits with {code} {failure or ''}")
        expected = {EXIT_DONE, EXIT_RESTART} | ({EXIT_CRASH} if process.disk_full else set())
        if code not in expected:
            raise Broke(f"{process.name} exits with {code}: {failure}")
        self._end(process)
        self._again()
        raise Died

    def _end(self, process: Process) -> None:
        self.process = self.run = None
        process.crash()

    def _again(self) -> None:
        delay = RESTART_S * (0.1 + self.world.random.random())

        def start() -> None:
            if self.wanted:
                self.start()

        self.world.at(delay, start)

    def _watch(self) -> None:
        """The watchdog of a process whose loop hangs."""
        process, run = self.process, self.run
        if process is not None and run is not None and self._hangs(process, run):
            self.world.note(f"{process.name}: hangs, its watchdog ends it")
            self._end(process)
            self._again()
        self.world.at(1.0, self._watch)

    def _hangs(self, process: Process, run: Run) -> bool:
        return self.world.now - max(run.beat, process.frozen_until) > WATCHDOG_S
