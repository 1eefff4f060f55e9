"""One seed: a cluster, workers, inputs and failures; then what must hold."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from state.disk import StoreDamaged
from state.store import LaneStore
from tests.simulation.asking import Asking
from tests.simulation.broker import Broker
from tests.simulation.checks import Checks
from tests.simulation.faults import Faults
from tests.simulation.options import Options, job
from tests.simulation.stage import RESOURCES, codec_of, patched
from tests.simulation.workers import Worker
from tests.simulation.workload import Workload
from tests.simulation.world import Stuck, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_S: Final = 0.2
PATIENCE_S: Final = 60.0
"""Simulated time after the last failure within which everything must be done."""


@dataclass
class Outcome:
    """What came of one seed."""

    options: Options
    failure: BaseException | None = None
    trace: list[str] = field(default_factory=list)
    events: int = 0
    simulated_s: float = 0.0
    took_s: float = 0.0


class Simulation:
    """One run."""

    def __init__(self, options: Options, directory: Path) -> None:
        self.options = options
        self.world = World(options.seed)
        self.world.slow_every, self.world.slow_s = options.slow_every, options.slow_s
        self.broker = Broker(self.world)
        self._create_topics()
        self.workload = Workload(self.broker, options)
        self.workers = [
            Worker(self.world, f"w{number}", directory / f"w{number}", options)
            for number in range(options.workers)
        ]
        self.faults = Faults(self.broker, self.workers, options)
        self.checks = Checks(self.broker, options.lanes, options.join)
        self.asking = Asking(self.world, self.workers, self.checks, options)
        self.world.on_store_left = self.checks.store
        self.broker.on_producer = self.checks.producer
        self.directory = directory
        self._calm = False

    def run(self) -> None:
        """Drive it to its end. Raises what went wrong."""
        for worker in self.workers:
            self.world.at(self.world.random.random() * 0.5, worker.start)
        self.world.at(self.options.trouble_s, self._calm_down)
        try:
            self.world.run(self.options.trouble_s + PATIENCE_S)
        except Stuck as stuck:
            raise Stuck(f"{stuck}: {self._what_is_missing()}") from None
        self._check_all()

    def leave(self) -> None:
        """Leave nothing open."""
        self.world.on_store_left = lambda _store: None
        for worker in self.workers:
            if worker.process is not None:
                worker.process.crash()
                worker.process.close_stores()

    def _create_topics(self) -> None:
        lanes, split = self.options.lanes, self.options.record_bytes_max
        limit = {"max.message.bytes": str(split + 4096)} if split else None
        for name in ("left", "right", "job-rejects"):
            self.broker.create(name, lanes)
        self.broker.create("job-changelog", lanes, limit)
        self.broker.create("output", self.options.output_partitions)

    def _calm_down(self) -> None:
        self._calm = True
        self.faults.stop()
        self._look()

    def _look(self) -> None:
        """Whether all is done: inputs taken, transactions decided, each lane running once."""
        if self._all_taken() and self._all_running() and self._all_decided():
            self.world.note("--- all is done ---")
            self.world.done = True
        self.world.at(LOOK_S, self._look)

    def _what_is_missing(self) -> str:
        stored = dict(sorted(self.broker.group("job").offsets.stored.items()))
        ends = {
            (log.topic, log.partition): (log.stable, log.high)
            for name in ("left", "right", "job-changelog")
            for log in self.broker.topics[name].logs
        }
        running = [sorted(worker.lanes_running()) for worker in self.workers]
        return (
            f"decided {self.broker.coordinator.decided} late {self.broker.network.late} "
            f"written {self.workload.written} running {running} stored {stored} ends {ends}"
        )

    def _all_running(self) -> bool:
        running = sorted(lane for worker in self.workers for lane in worker.lanes_running())
        return running == list(range(self.options.lanes))

    def _all_decided(self) -> bool:
        """Whether an outer join has looked at every row that is due."""
        lanes = range(self.options.lanes) if self.options.join.preserved else ()
        return all(self.checks.decided(lane) for lane in lanes)

    def _all_taken(self) -> bool:
        quiet = self.broker.coordinator.decided and not self.broker.network.late
        if not quiet or not self.workload.written:
            return False
        return all(
            self.broker.log(topic, lane).read(
                self.broker.group("job").offsets.stored.get((topic, lane), 0), 1, committed=True
            )[0]
            == []
            for topic in ("left", "right")
            for lane in range(self.options.lanes)
        )

    def _check_all(self) -> None:
        for lane in range(self.options.lanes):
            self.checks.changelog(lane)
        for worker in self.workers:
            process, seen = worker.process, set()
            if process is not None:
                worker.wanted = False
                process.crash()
                seen = {store.path for store in process.stores if store._open_db is not None}
                process.close_stores()
            for path in sorted(set(worker.directory.glob("lane-*")) - seen):
                with contextlib.suppress(StoreDamaged):  # It was damaged, and nobody needed it.
                    store = LaneStore.open(path, RESOURCES)
                    self.checks.store(store)
                    store.close()
        codec = codec_of(job(self.workers[0].directory, self.options))
        self.checks.results(codec, twice=self.options.twice, never_late=self.workload.never_late)


def simulate(seed: int, change: Callable[[Options], None] | None = None) -> Outcome:
    """Run one seed; a failure is part of the outcome."""
    options = Options.of(seed)
    if change is not None:
        change(options)
    outcome = Outcome(options)
    began = time.perf_counter()
    with _directory() as directory:
        simulation = Simulation(options, directory)
        with patched(simulation.broker, options.lanes, simulation.checks.counted):
            try:
                simulation.run()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
                outcome.failure = error
            finally:
                simulation.leave()
    world = simulation.world
    outcome.trace = [
        f"{number:5} {when:8.3f} {text}".replace(f"{directory}/", "")
        for number, (when, text) in enumerate(world.trace, 1)
    ]
    outcome.events, outcome.simulated_s = world.events, world.now
    outcome.took_s = time.perf_counter() - began
    return outcome


@contextmanager
def _directory() -> Iterator[Path]:
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="spanjoin-simulation-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
