"""Puts the simulated Kafka, clock and threads where the production modules look for the real ones.

Names are replaced in the modules that import them; `patched` looks at every module that a worker
is made of. What a module has bound to another name at import would escape it.
"""

from __future__ import annotations

import concurrent.futures
import gc
import shutil
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import confluent_kafka.admin
import pytest
from greenlet import getcurrent

import app.beyond
import app.ends
import app.housekeeping
import app.intake
import app.kafka.authority
import app.kafka.changelog
import app.kafka.clients
import app.kafka.replaced
import app.kafka.transactions
import app.lookups
import app.pace
import app.run
import app.starvation
import app.turns
import app.worker
import app.writes
import rebalance.fence
import rebalance.lanes
import rebalance.restore
import rebalance.takeover
from app.formats import worker_codec
from app.process import plan_turn, settle_turn
from rebalance.lanes import Lane
from state.disk import StoreFull
from state.resources import Resources
from state.store import LaneStore
from tests.simulation import machine
from tests.simulation.admin import AdminClient
from tests.simulation.client import Client
from tests.simulation.consumer import Consumer
from tests.simulation.memory import check_memory
from tests.simulation.producer import Producer
from tests.simulation.registry import Forgetful, Registry
from tests.simulation.world import Task, current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from app.config import Config
    from app.process import Moment, Plan, Running
    from schemas.codec import Codec
    from state.checkpoint import Checkpoint
    from tests.simulation.broker import Broker
    from tests.simulation.checks import Counted

TIMES: Final[tuple[tuple[Any, str, float], ...]] = (
    (app.kafka.transactions, "CALL_TIMEOUT_S", 1.5),
    (app.kafka.transactions, "ENDS_WITHIN_S", 2.5),
    (app.kafka.transactions, "ABORT_WITHIN_S", 0.5),
    (app.ends, "LEFT_AFTER_S", 3.5),
    (app.kafka.transactions, "CALL_TIMEOUT_MIN_S", 0.1),
    (app.kafka.authority, "REQUEST_TIMEOUT_S", 1.0),
    (app.kafka.authority, "FENCE_TIMEOUT_S", 2.0),
    (app.kafka.authority, "LOOK_AGAIN_S", 0.1),
    (app.kafka.replaced, "SILENT_S", 3.0),
    (app.kafka.changelog, "_TAIL_TIMEOUT_S", 1.0),
    (rebalance.fence, "RELEASE_MARKER_WAIT_MS", 400),
    (rebalance.lanes, "DOUBTED_MS", 2_000),
    (app.beyond, "DOUBTED_MS", 2_000),
    (rebalance.takeover, "STALL_MS", 600),
    (rebalance.takeover, "AUDIT_ROWS_MAX", 12),
    (rebalance.restore, "AUDIT_ROWS", 1),
    (rebalance.restore, "BATCH_TURNS_MAX", 3),
    (rebalance.restore, "SCAN_ROWS", 3),
    (app.writes, "CHANGELOG_SPARE_BYTES", 1024),
    (app.writes, "DUE_MAX", 1),
    (app.pace, "LIMIT_MIN", 1),
    (app.turns, "AHEAD_MIN", 1),
    (app.intake, "HELD_MIN", 5),
    (app.lookups, "PAUSE_S", 0.05),
    (app.starvation, "ASK_EVERY_S", 1.0),
    (app.starvation, "PROMPT_S", 0.4),
    (app.starvation, "GIVEN_UP_AFTER", 12),
    (app.housekeeping, "TRUNCATE_EVERY_S", 1.0),
    (app.housekeeping, "WATCH_EVERY_S", 2.0),
    (app.housekeeping, "WATCH_AGAIN_S", 1.0),
    (app.housekeeping, "FIGURES_EVERY_S", 1.0),
)
"""Shorter than in production by a factor of five or so, like the client's own in `job`: what
counts is which of them is longer than which."""


class Shutil:
    """In place of the module `shutil`: a thread may die before and after it."""

    @staticmethod
    def rmtree(path: Path, *, ignore_errors: bool) -> None:
        """Remove a directory."""
        current().process.world.step("rmtree")
        shutil.rmtree(path, ignore_errors=ignore_errors)


class Names:
    """In place of the module `uuid`: names that say who made them."""

    @staticmethod
    def uuid4() -> str:
        """The next name of this process."""
        process = current().process
        process.names += 1
        return f"{process.name}.{process.names}"


@contextmanager
def patched(broker: Broker, lanes: int, counted: Counted) -> Iterator[None]:
    """For as long as one simulation takes. `counted` is filled by the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "broker", broker, raising=False)
        swaps = {
            id(confluent_kafka.Consumer): Consumer,
            id(confluent_kafka.Producer): Producer,
            id(confluent_kafka.admin.AdminClient): AdminClient,
            id(time): machine.Clock,
            id(threading): machine.Threading,
            id(uuid): Names,
            id(gc): machine.Collector(),
            id(shutil): Shutil,
            id(concurrent.futures.wait): machine.wait,
            id(concurrent.futures.ThreadPoolExecutor): machine.executor,
        }
        for module in _modules():
            for name, value in list(vars(module).items()):
                if id(value) in swaps:
                    patch.setattr(module, name, swaps[id(value)])
            if hasattr(module, "_log"):
                patch.setattr(module, "_log", machine.Log())
        for module, name, value in TIMES:
            patch.setattr(module, name, value)
        patch.setattr(app.kafka.clients, "_complained", {})
        patch.setattr(app.worker, "Lane", _lane)
        patch.setattr(app.run, "prepare_topics", lambda _config: lanes)
        patch.setattr(app.run, "worker_codec", _worker_codec)
        patch.setattr(app.run, "job_schemas", _job_schemas)
        # Its keys lie where they are put, and commands' clients are not simulated.
        patch.setattr(app.run, "check_newest", lambda _config, _lanes: None)
        patch.setattr(app.run, "Metrics", machine.Metrics)
        patch.setattr(app.run, "Resources", lambda _cache, _buffer: RESOURCES)
        patch.setattr(app.turns, "plan_turn", _noting(plan_turn, counted))
        patch.setattr(app.turns, "settle_turn", _settling)
        _watch_stores(patch)
        yield


def _noting(plan: Callable[..., Plan | None], counted: Counted) -> Callable[..., Plan | None]:
    """Plans as it would, and notes which sides counted: that depends on the clock alone."""

    def note(running: Running, moment: Moment, counting: tuple[bool, bool]) -> Plan | None:
        _step("join")
        planned = plan(running, moment, counting)
        if planned is not None:
            counted[running.lane, moment.writer, planned.checkpoint.sequence] = counting
        return planned

    return note


def _settling(running: Running, plan: Plan, first: int, position: int) -> None:
    """Settles as it would; where nothing is joined ahead, memory must be what is stored."""
    settle_turn(running, plan, first, position)
    if running.planned == running.checkpoint:
        check_memory(running)


def _modules() -> list[ModuleType]:
    """Every module that was loaded of the layers that do anything."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in {"app", "rebalance"}
    ]


def _lane(number: int, directory: Path) -> Lane:
    """A lane; its own defaults were bound to the real clock when the class was made."""
    now = machine.Clock.monotonic()
    return Lane(number, directory, moved_at=now, assigned_at=now)


RESOURCES: Final = Resources(1 << 20, 1 << 22)
_CODECS: Final[dict[str, Codec]] = {}


def codec_of(config: Config) -> Codec:
    """One for all simulations: it has no state, and takes longer to make than all the rest."""
    join = config.join.type
    if join not in _CODECS:
        plain = config.format_.model_copy(update={"format": "avro"})
        _CODECS[join] = worker_codec(config.model_copy(update={"format_": plain}))
    return _CODECS[join]


def _worker_codec(config: Config) -> Codec:
    codec = codec_of(config)
    return Forgetful(codec) if config.format_.format == "registry" else codec


def _job_schemas(config: Config) -> Registry | None:
    return Registry() if config.format_.format == "registry" else None


def _watch_stores(patch: pytest.MonkeyPatch) -> None:
    """A store may be the last thing a process does; and what a dead one had open is let go."""
    opened, committed = LaneStore._open, LaneStore.commit

    def _open(store: LaneStore) -> None:
        _step("store.open")
        opened(store)
        if isinstance(task := getcurrent(), Task):
            task.process.stores[store] = None

    def commit(store: LaneStore, checkpoint: Checkpoint | None, position: int) -> None:
        _step("store.write")
        if current().process.disk_full:
            raise StoreFull(f"store {store.path}: No space left on device")
        committed(store, checkpoint, position)
        _step("store.written")

    patch.setattr(LaneStore, "_open", _open)
    patch.setattr(LaneStore, "commit", commit)
    for name in ("wipe", "close"):
        patch.setattr(LaneStore, name, _stepping(getattr(LaneStore, name), f"store.{name}"))


def _stepping(method: Callable[[LaneStore], None], label: str) -> Callable[[LaneStore], None]:
    def step_first(store: LaneStore) -> None:
        _step(label)
        method(store)

    return step_first


def _step(label: str) -> None:
    if isinstance(task := getcurrent(), Task):
        task.process.world.step(label)
