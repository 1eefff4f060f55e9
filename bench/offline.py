"""The hot path without a broker: what each stage of a turn costs the worker's thread.

The production code runs on the benchmark's own records, from the client's messages to the store
on disk. Messages are made just before they are polled, and matches go to a producer that has no
broker; neither the making nor the client's own threads are in any figure. What is measured is the
processor time of the one thread that everything waits for.

Usage: python -m bench.offline [--records N] [--keys N] [--lanes N] [--poll N] [--rounds N]
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from confluent_kafka import Message, Producer

from app.config import load_config
from app.formats import make_codec
from app.housekeeping import YOUNG_OBJECTS_MAX
from app.idleness import Idleness
from app.intake import Intake
from app.join import LaneState
from app.kafka.inputs import Inputs, Polled
from app.kafka.limits import Limits
from app.kafka.transactions import Topics, Transactions
from app.process import (
    Moment,
    Running,
    bound_windows,
    plan_turn,
    settle_turn,
    timestamped,
    trim_windows,
)
from app.run import WRITE_BUFFER_BYTES
from app.suspicion import Suspicion
from app.writes import RECORD_SPARE_BYTES, join_settings
from bench.bare import MESSAGE_BYTES_MAX
from bench.systems import Place, job_file
from bench.workload import Workload
from schemas.partition import lane_of
from schemas.records import Side
from state.checkpoint import Checkpoint, Layout, Watermarks, encode_turn
from state.resources import Resources
from state.retention import span_of
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config import Config
    from app.process import Plan
    from bench.workload import Sent

BOTH: Final = (True, True)
_NOW_MS: Final = 1_800_000_000_000
Arrival = tuple[int, int, bytes, bytes]
"""(lane, offset, key, value)."""


class Stages:
    """Seconds of this thread's processor time, by stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.seconds[stage] += time.thread_time() - began


@dataclass
class Offline:
    """One worker of all lanes, with a store each, and no broker."""

    config: Config
    directory: Path
    lanes: int
    running: dict[int, Running] = field(default_factory=dict)
    stores: dict[int, LaneStore] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)
    matches: int = 0

    def __post_init__(self) -> None:
        config = self.config
        resources = Resources(config.state.block_cache_bytes, WRITE_BUFFER_BYTES)
        self.codec = make_codec(config)
        idleness = Idleness(config, None, None)  # type: ignore[arg-type] # It is off.
        self.inputs = Inputs(config, "offline", None)  # type: ignore[arg-type] # Nothing moves.
        self.intake = Intake(
            config,
            self.codec,
            self.inputs,
            idleness,
            self.running,
            Suspicion(config),
            lambda _: None,  # Avro has no questions.
        )
        self.producer = Producer(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "log_level": 0,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": 2_097_151,
                "linger.ms": 900_000,
                "message.timeout.ms": 0,
                "partitioner": "murmur2_random",
            }
        )
        limits = Limits(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX)
        topics = Topics("left", "right", "output", "changelog", "rejects")
        self.transactions = Transactions("offline", {}, topics, limits)
        span = span_of(config.lateness, config.max_interval)
        bounds = config.lateness, config.max_interval, span
        layout = Layout("ms", *bounds, "c", "l", "r", config.join.type)
        settings = join_settings(config, self.codec, limits, layout)
        for lane in range(self.lanes):
            store = self.stores[lane] = LaneStore.open(self.directory / str(lane), resources)
            checkpoint = Checkpoint(
                epoch=1, sequence=0, writer="w", owner="o", address="", released=False,
                left_position=0, right_position=0, watermarks=Watermarks(), rows=0, size=0,
                layout=layout,
            )  # fmt: skip
            state = LaneState(Watermarks(), {}, store.windows, span, store.due)
            state.windows.probe = store.probe
            self.running[lane] = Running(lane, checkpoint, settings, state, 1, 0)

    def step(self, arrivals: tuple[list[Arrival], list[Arrival]]) -> None:
        """One round of the worker's loop."""
        messages = [
            [
                Message(
                    topic="t", partition=lane, offset=offset, key=_copy(key), value=_copy(value)
                )
                for lane, offset, key, value in side
            ]
            for side in arrivals
        ]
        with self.stages.of("sort"):
            polled = Polled()
            for side in Side:
                self.inputs._sort(side, messages[side], polled)  # noqa: SLF001 - what poll does
            messages = [[], []]
        with self.stages.of("decode"):
            self.intake.accept(polled, _NOW_MS)
            del polled
        self.turn()
        with self.stages.of("collect"):
            if gc.get_count()[0] > YOUNG_OBJECTS_MAX:
                gc.collect(1)

    def turn(self) -> None:
        """As the worker does it."""
        config = self.config
        moment = Moment(_NOW_MS, "writer", "owner", "", config.turn.max_records, 0)
        with self.stages.of("join"):
            plans = [
                plan
                for running in self.running.values()
                if (plan := plan_turn(running, moment, BOTH))
            ]
        if not plans:
            return
        with self.stages.of("encode"):
            for plan in plans:
                encode_turn(
                    plan.checkpoint,
                    plan.rows,
                    plan.buckets,
                    MESSAGE_BYTES_MAX - RECORD_SPARE_BYTES,
                )
        with self.stages.of("produce"):
            for plan in plans:
                self._produce(plan)
        self.producer.purge()
        self.producer.poll(0)
        with self.stages.of("store"):
            for plan in plans:
                position = self.running[plan.lane].changelog_position + 1
                self.stores[plan.lane].apply(plan.rows, plan.buckets, plan.checkpoint, position)
        with self.stages.of("settle"):
            for plan in plans:
                running = self.running[plan.lane]
                first = running.changelog_position
                settle_turn(running, plan, first, first + 1)
            trim_windows(self.running.values())
            bound_windows(self.running.values(), config.state.windows_bytes)
        with self.stages.of("free"):
            del plan, plans

    def _produce(self, plan: Plan) -> None:
        effects = plan.effects
        assert effects is not None, "only turns are planned here"
        stamped = timestamped(effects.matches, self.config.ticks_per_ms, _NOW_MS)
        self.matches += len(stamped)
        self.transactions._matches(self.producer, stamped)  # noqa: SLF001 - the loop itself

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


def _copy(data: bytes) -> bytes:
    return bytes(bytearray(data))


def arrivals(
    sent: tuple[list[Sent], list[Sent]], lanes: int
) -> tuple[list[Arrival], list[Arrival]]:
    """The records of both sides as they lie in their partitions."""
    known: dict[bytes, int] = {}
    sides: tuple[list[Arrival], list[Arrival]] = ([], [])
    for records, side in zip(sent, sides, strict=True):
        offsets = [0] * lanes
        for key, value, _ in records:
            lane = known.get(key)
            if lane is None:
                lane = known[key] = lane_of(key, lanes)
            side.append((lane, offsets[lane], key, value))
            offsets[lane] += 1
    return sides


def polls(
    sides: tuple[list[Arrival], list[Arrival]], size: int
) -> Iterator[tuple[list[Arrival], list[Arrival]]]:
    """Up to `size` records of each side at a time, a partition's together as they are fetched."""
    left, right = sides
    for at in range(0, max(len(left), len(right)), size):
        yield (sorted(left[at : at + size]), sorted(right[at : at + size]))


def measure(arguments: argparse.Namespace, sides: tuple[list[Arrival], list[Arrival]]) -> Stages:
    directory = Path(tempfile.mkdtemp(prefix="spanjoin-offline-", dir=arguments.dir))
    try:
        config = load_config(job_file(Place("offline", directory, "127.0.0.1:1", arguments.lanes)))
        offline = Offline(config, directory, arguments.lanes)
        gc.collect()
        gc.freeze()
        gc.disable()
        begin = arguments.warm_up // (2 * arguments.poll)
        for number, poll in enumerate(polls(sides, arguments.poll)):
            if number == begin:
                offline.stages.seconds.clear()
            offline.step(poll)
        for _ in range(2):
            offline.turn()
        offline.close()
        gc.unfreeze()
        offline.stages.seconds["matches"] = offline.matches / 1e6
        return offline.stages
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    arguments = _arguments()
    workload = Workload(arguments.records, arguments.keys, arguments.lanes, arguments.warm_up)
    warm, measured = workload.sent()
    sides = arrivals((warm[0] + measured[0], warm[1] + measured[1]), arguments.lanes)
    rounds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(arguments.rounds):
        stages = measure(arguments, sides)
        count = stages.seconds.pop("matches")
        for stage, seconds in stages.seconds.items():
            rounds[stage].append(seconds / arguments.records * 1e6)
        rounds["all"].append(sum(stages.seconds.values()) / arguments.records * 1e6)
        print(
            f"{count * 1e6:.0f} matches; "
            + ", ".join(f"{stage} {found[-1]:.2f}" for stage, found in rounds.items()),
            flush=True,
        )
    print(
        "median us per record: "
        + ", ".join(f"{stage} {median(found):.2f}" for stage, found in rounds.items())
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.offline", description=__doc__)
    parser.add_argument("--records", type=int, default=400_000, help="on both sides together")
    parser.add_argument("--warm-up", type=int, default=100_000, help="records before those")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--poll", type=int, default=10_000, help="records of a side in one poll")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where the stores are made")
    return parser.parse_args()


if __name__ == "__main__":
    main()
