"""Somebody who asks workers for the rows of a key, and believes the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulation.checks import Asked
from tests.simulation.workload import KEYS

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.simulation.checks import Checks
    from tests.simulation.options import Options
    from tests.simulation.workers import Worker
    from tests.simulation.world import World

EVERY_S: Final = 0.2


class Asking:
    """Asks any worker, whether it runs the lane, has lost it, or sleeps."""

    def __init__(
        self, world: World, workers: list[Worker], checks: Checks, options: Options
    ) -> None:
        self._world = world
        self._workers = workers
        self._checks = checks
        self._lanes = options.lanes
        self._waiting: list[tuple[Asked, Future[dict[str, Any]]]] = []
        if options.questions:
            world.at(EVERY_S, self._step)

    def _step(self) -> None:
        """Look at the answers that have come, and ask something else."""
        for asked, future in list(self._waiting):
            if future.done():
                self._waiting.remove((asked, future))
                if future.exception() is None:
                    self._checks.answer(asked, future.result())
        random = self._world.random
        worker = random.choice(self._workers)
        if worker.run is not None and worker.run.worker is not None:
            lane, key = random.randrange(self._lanes), random.choice(KEYS)
            asked = Asked(lane, key, len(self._checks.turns(lane)))
            questions = worker.run.worker.questions
            self._waiting.append((asked, questions.ask(key, linearizable=True, lane=lane)))
        self._world.at(EVERY_S * 2 * random.random(), self._step)
