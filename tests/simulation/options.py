"""What one seed stands for: how large, how slow, and what breaks how often.

Each run switches only some kinds of failures on. All of them always would drown the rare schedules
that need many quiet steps between two failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from app.config import Config, load_config
from schemas.records import JoinType

if TYPE_CHECKING:
    from pathlib import Path

LATENESS: Final = 10
MAX_INTERVAL: Final = 20
JOB: Final = """\
name = "job"
unit = "none"
[kafka]
"bootstrap.servers" = "simulated:9092"
[kafka.consumer]
"session.timeout.ms" = 1500
"heartbeat.interval.ms" = 200
"max.poll.interval.ms" = 6000
[kafka.producer]
"transaction.timeout.ms" = 2500
[left]
topic = "left"
[right]
topic = "right"
[output]
topic = "output"
[join]
allowed_lateness = 10
max_interval = 20
max_future = "off"
idle_timeout = "{idle}"
type = "{join}"
[schema]
{schema}
[turn]
max_records = 1
[state]
cleanup_delay = "3s"
"""
REGISTRY: Final = """\
format = "registry"
registry.url = "http://localhost"
"""
FAULTS: Final = (
    "crash",
    "pause",
    "sleep",
    "expel",
    "bump",
    "away",
    "stop",
    "wipe",
    "damage",
    "full",
    "join",
    "deaf",
    "cut off",
)
"""Failures that are done to somebody at some time."""


class Blow(NamedTuple):
    """What happens to a worker (by number) when it comes by a place; `Faults` has what there is.

    `where` is the beginning of a step's label; the seed chooses which of its first passages it is.
    """

    worker: int
    where: str
    what: str


@dataclass
class Options:
    """Drawn from the seed. Times in seconds."""

    seed: int
    lanes: int = 1
    workers: int = 1
    events: int = 12
    """Per side and lane, about."""
    max_records: int = 3
    output_partitions: int = 1
    disorder: int = 5
    """How far behind its side's newest an event may be; up to the allowed lateness none is late."""
    trouble_s: float = 0.0
    """How long things break; afterwards all must come to an end."""
    faults: tuple[str, ...] = ()
    fault_every_s: float = 1.0
    lose_request: float = 0.0
    lose_answer: float = 0.0
    late_end: float = 0.0
    twice: bool = False
    """Whether outputs may stand in the log twice, as they may where a planted bug lets late_end."""
    lose_end: float = 0.0
    marker_s: float = 0.02
    slow_every: float = 0.03
    slow_s: float = 0.3
    edges: bool = False
    """Inputs whose rows are needed as long as possible; see `workload.edges`."""
    sleep_at: str = ""
    """Where workers are stopped for longer than a session; anywhere, if it does not say."""
    schedule: tuple[Blow, ...] = ()
    """Failures by hand, one after the other; see `schedules`."""
    seldom: float = 0.0
    """Share of rows whose key occurs once or twice."""
    idle: bool = False
    """Whether a side that is silent stops counting in the watermark, so that rows come late."""
    questions: bool = False
    """Whether somebody keeps asking for the rows of a key."""
    foreign: float = 0.0
    """Share of input batches that are written by somebody else's transactions."""
    join: JoinType = JoinType.INNER
    registry: bool = False
    """Whether schemas have to be asked for; see `registry`."""
    record_bytes_max: int = 0
    """Splits a turn's changelog records, if not 0."""
    cache_memory: int = 2**20
    """For windows, in bytes: all rows fit, or some of a lane's, or none stay from turn to turn."""

    @staticmethod
    def of(seed: int) -> Options:
        """The options of a seed; a share of seeds runs without any failure."""
        random = Random(f"options {seed}")
        options = Options(
            seed,
            lanes=random.choice([1, 1, 2, 3]),
            workers=random.choice([1, 2, 2, 3]),
            events=random.randint(6, 22),
            max_records=random.choice([1, 2, 4, 8]),
            output_partitions=random.choice([1, 2]),
            disorder=random.choice([0, 5, LATENESS, LATENESS, 3 * LATENESS]),
            marker_s=random.choice([0.005, 0.02, 0.2, 1.0]),
            slow_every=random.choice([0.0, 0.02, 0.1]),
            slow_s=random.choice([0.05, 0.3, 1.0]),
            idle=random.random() < 0.15,
            questions=random.random() < 0.3,
            edges=random.random() < 0.15,
            foreign=random.choice([0.0, 0.0, 0.3]),
            record_bytes_max=random.choice([0, 0, 700]),
            cache_memory=Random(f"memory {seed}").choice([2**20, 2**20, 2**14, 1]),
            join=Random(f"join {seed}").choice([*[JoinType.INNER] * 4, *JoinType]),
            registry=Random(f"registry {seed}").random() < 0.2,
        )
        if random.random() < 0.05:
            return options
        options.trouble_s = random.uniform(2.0, 14.0)
        options.faults = tuple(fault for fault in FAULTS[:-2] if random.random() < 0.45)
        options.fault_every_s = random.choice([0.3, 0.8, 2.0])
        for name in ("lose_request", "lose_answer"):
            if random.random() < 0.25:
                setattr(options, name, random.choice([0.01, 0.05]))
        if random.random() < 0.4:
            options.late_end = random.choice([0.2, 0.7])
        if random.random() < 0.25:
            options.lose_end = random.choice([0.05, 0.3])
        if Random(f"deaf {seed}").random() < 0.2:
            options.faults += ("deaf",)
        if Random(f"cut off {seed}").random() < 0.2:
            options.faults += ("cut off",)
        if Random(f"group {seed}").random() < 0.1:
            # Nothing but the group's moving on, again and again: connections hold.
            options.faults, options.fault_every_s = ("bump", "crash"), 0.3
            options.lose_request = options.lose_answer = options.late_end = options.lose_end = 0.0
        return options

    def __str__(self) -> str:
        said = {name: value for name, value in vars(self).items() if value not in (0.0, (), {})}
        return " ".join(f"{name}={value}" for name, value in said.items())


def job(directory: Path, options: Options) -> Config:
    """The configuration of a worker whose state is in this directory."""
    idle = "300ms" if options.idle else "off"
    plain = _plain(directory.parent, idle, options.join, options.registry)
    turn = plain.turn.model_copy(update={"max_records": options.max_records})
    memory = str(options.cache_memory)
    state = plain.state.model_copy(update={"dir": directory, "cache_memory": memory})
    return plain.model_copy(update={"turn": turn, "state": state})


@cache
def _plain(directory: Path, idle: str, join: JoinType, registry: bool) -> Config:
    path = directory / "job.toml"
    schema = REGISTRY if registry else ""
    text = JOB.replace("{idle}", idle).replace("{join}", join).replace("{schema}", schema)
    path.write_text(text, encoding="utf-8")
    return load_config(path, {})
