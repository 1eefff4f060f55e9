"""Minutes of random failures: three workers and their broker, killed, paused, stopped, restarted.

`make chaos` runs it; CHAOS_MINUTES (20) and CHAOS_SEED (random, printed) choose another length and
repeat a run as far as the machine's own timing allows. With CHAOS_PROTOCOL=consumer the group uses
the newer protocol. Then a broker that was restarted may be unable to load the group for good, which
is its own fault (ARCHITECTURE.md, Decisions): the test has it forget all groups, and goes on.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from app.broker import Broker, start_broker
from app.broker.process import ProcessBroker
from tests.kafka.harness import Harness
from tests.kafka.streams import Stream, random_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kafka.workers import Worker

LANES: Final = 8
WORKERS: Final = 3
RECORDS_PER_S: Final = 150
SETTLED_WITHIN_S: Final = 180
RESTARTED: Final = 75
LOOKS: Final = 10
SESSION_S: Final = {"classic": 2.0, "consumer": 6.0}
"""By group protocol: that of the harness, and the broker's."""
UNLOADABLE: Final = "Failed to load metadata from __consumer_offsets"
OFFSETS: Final = "__consumer_offsets"
NEWER: Final = '[kafka.consumer]\n"group.protocol" = "consumer"\n'


class Chaos:
    """The workers of a job, and what is done to them; one thing at a time."""

    def __init__(
        self, kafka: Harness, broker: Broker, chance: random.Random, protocol: str
    ) -> None:
        self.kafka = kafka
        self.broker = broker
        self.chance = chance
        self.session_s = SESSION_S[protocol]
        self.config = kafka.write_config(text=NEWER if protocol == "consumer" else "")
        self.workers = [self._start(number) for number in range(WORKERS)]
        self.done: list[str] = []
        self._newer = protocol == "consumer"
        self._unloadable = 0

    def _start(self, number: int) -> Worker:
        """One that joins each turn ahead, as it would under a load that this test has not."""
        directory = {"SPANJOIN_STATE__DIR": str(self.kafka.directory / f"chaos-{number}")}
        command = [sys.executable, "-m", "tests.kafka.eager", "run", "-c", str(self.config)]
        worker = self.kafka.launch(command, directory)
        worker.expect_end()
        return worker

    def step(self) -> None:
        """Do one thing, chosen by weight, then let the group be for a moment."""
        actions: dict[Callable[[int], None], int] = {
            self.kill: 5, self.sleep: 3, self.nap: 2, self.stop: 3, self.lose_state: 1,
            self.kill_broker: 1, self.pause_broker: 1, self.rest: 4,
        }  # fmt: skip
        (action,) = self.chance.choices(list(actions), list(actions.values()))
        number = self.chance.randrange(WORKERS)
        self.done.append(f"{action.__name__} {number}")
        action(number)
        self.mend_group()
        self.revive()
        time.sleep(self.chance.uniform(0, 3))

    def mend_group(self) -> None:
        """Where the broker can never load it again: without a past it can, which nobody needs."""
        if not (self._newer and isinstance(self.broker, ProcessBroker)):
            return
        told = self.broker.log_path.read_text(errors="replace").count(UNLOADABLE)
        if told > self._unloadable:
            self.done.append("the group was forgotten")
            self.kafka.cluster.admin.delete_topics([OFFSETS])[OFFSETS].result(60)
            self._unloadable = told

    def revive(self) -> None:
        """Start again what has ended; it may have ended with 75, or by our own hand."""
        for number, worker in enumerate(self.workers):
            code = worker.process.poll()
            if code is not None:
                assert code in (0, RESTARTED, -9), f"worker ended with {code}:\n{worker.tail()}"
                self.workers[number] = self._start(number)

    def kill(self, number: int) -> None:
        self.workers[number].kill()

    def sleep(self, number: int) -> None:
        """Longer than its session."""
        self._paused(number, self.chance.uniform(1.25, 3) * self.session_s)

    def nap(self, number: int) -> None:
        """Shorter than its session."""
        self._paused(number, self.chance.uniform(0.05, 0.9) * self.session_s)

    def _paused(self, number: int, seconds: float) -> None:
        self.workers[number].pause()
        time.sleep(seconds)
        self.workers[number].resume()

    def stop(self, number: int) -> None:
        """In good order, which a worker promises from its first answer on."""
        worker = self.workers[number]
        if worker.get("/livez")[0]:
            assert worker.terminate() == 0, worker.tail()

    def lose_state(self, number: int) -> None:
        self.workers[number].kill()
        shutil.rmtree(self.kafka.directory / f"chaos-{number}", ignore_errors=True)

    def kill_broker(self, _number: int) -> None:
        self.broker.kill()
        time.sleep(self.chance.uniform(0, 5))
        self.broker.restart()

    def pause_broker(self, _number: int) -> None:
        self.broker.pause()
        time.sleep(self.chance.uniform(0.5, 8))
        self.broker.resume()

    def rest(self, _number: int) -> None:
        time.sleep(3)


class Feed(threading.Thread):
    """Sends a stream at its pace, whatever happens meanwhile."""

    def __init__(self, kafka: Harness, stream: Stream) -> None:
        super().__init__(name="feed", daemon=True)
        self._kafka = kafka
        self._stream = stream
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Send until all is sent."""
        topics = {"left": self._kafka.job.left, "right": self._kafka.job.right}
        began = time.monotonic()
        try:
            for number, (side, key, value, partition) in enumerate(self._stream.records):
                self._kafka.send(topics[side], key, value, partition)
                if number % 50 == 0:
                    time.sleep(max(began + number / RECORDS_PER_S - time.monotonic(), 0))
        except BaseException as error:
            self.failure = error
            raise


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with start_broker(say=print) as broker:
        yield broker


@pytest.mark.long
@pytest.mark.timeout(0)
def test_random_failures_change_nothing(own_broker: Broker, tmp_path: Path) -> None:
    minutes = float(os.environ.get("CHAOS_MINUTES", "20"))
    seed = int(os.environ.get("CHAOS_SEED", str(random.randrange(10**6))))
    protocol = os.environ.get("CHAOS_PROTOCOL", "classic")
    print(f"CHAOS_SEED={seed}", flush=True)  # noqa: T201 - to be repeated
    quick = protocol == "classic"
    kafka = Harness(own_broker.bootstrap_servers, tmp_path, quick_session=quick)
    try:
        kafka.create_topics(LANES)
        events = int(minutes * 60 * RECORDS_PER_S)
        stream = random_stream(seed, events, keys=max(events // 80, 50), lanes=LANES, step=0.02)
        chaos = Chaos(kafka, own_broker, random.Random(seed), protocol)
        feed = Feed(kafka, stream)
        feed.start()
        while feed.is_alive():
            chaos.step()
        assert feed.failure is None
        print(f"done: {', '.join(chaos.done)}", flush=True)  # noqa: T201 - what it stood
        for _ in range(LOOKS):
            chaos.mend_group()
            chaos.revive()
            time.sleep(1)
        kafka.settle(SETTLED_WITHIN_S)
        stream.check_log(kafka.read(kafka.job.output))
        stream.check_rejects(kafka.read(kafka.job.rejects))
    finally:
        kafka.close()
