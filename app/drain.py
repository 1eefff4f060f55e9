"""A worker of the command's own that takes what is left in the inputs, and releases every lane.

It is a member of the group like any other, so everything that holds for a worker holds here: its
turns count once, and the watermarks decide what is late.
"""

from __future__ import annotations

import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from app.endings import ENDINGS, ending
from app.errors import Crash, UsageError
from app.kafka.authority import Authority
from app.kafka.clients import close_within
from app.metrics import Metrics
from app.ownership import Identity
from app.progress import progress
from app.run import CLOSE_WITHIN_S, HELPER_THREADS, Connected, Process, make_worker
from state.retention import span_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.config import Config
    from app.progress import Advance
    from app.steps import Reached
    from app.worker import Worker
    from schemas.records import Side
    from state.checkpoint import Watermarks

ALONE_WITHIN_S: Final = 20.0
"""How long a worker that has joined may lack some of the lanes before somebody else has them."""
STILL_S: Final = 120.0
"""How long nothing may happen."""


def drain(
    config: Config,
    until: Mapping[tuple[Side, int], int],
    level: Callable[[list[Watermarks]], list[int | None]],
    reached: Reached,
) -> None:
    """Take every lane named in `until` to its offsets, raise the watermarks, and release it.

    `level` says what the watermark of each lane is raised to, by those of all lanes in order.
    The caller holds the lock of `state.dir`. Raises UsageError where somebody else takes part, or
    where `level` does; what was taken until then is taken.
    """
    lanes = len(until) // 2
    worker_id = f"{config.name}-{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    process = Process(reached=reached, metrics=Metrics(CollectorRegistry()))
    authority = Authority(config, worker_id, process.stopping)
    threads = ThreadPoolExecutor(HELPER_THREADS, thread_name_prefix="helper")
    layout = authority.layout(span_of(config.lateness, config.max_interval))
    connected = Connected(lanes, authority.limits(), layout)
    worker = make_worker(config, Identity(worker_id, ""), process, authority, connected, threads)
    worker.intake.until = until
    worker.inputs.subscribe()
    try:
        with progress("taking what is unread", sum(until.values()), counted=False) as advance:
            _take(worker, lanes, advance)
            levels = level([worker.running[lane].state.watermarks for lane in range(lanes)])
            while _raise(worker, levels):
                _take(worker, lanes, advance)
    except ENDINGS as error:
        raise ending(error, config) from error
    finally:
        worker.leave()
        process.stopping.set()
        close_within(CLOSE_WITHIN_S, worker.close)
        threads.shutdown(wait=False, cancel_futures=True)


def _take(worker: Worker, lanes: int, advance: Advance) -> None:
    """Step until nothing is left to do."""
    moved = alone = time.monotonic()
    seen: list[object] = []
    while True:
        worker.step()
        now = time.monotonic()
        come: list[object] = [(lane.phase, lane.to_restore) for lane in worker.lanes.values()]
        come += [running.checkpoint.sequence for running in worker.running.values()]
        if come == seen and _finished(worker, lanes):
            return
        if come != seen:
            moved, seen = now, come
            advance(sum(sum(running.positions) for running in worker.running.values()))
        if not (worker.joined and worker.inputs.member()) or len(worker.lanes) == lanes:
            alone = now
        elif now - alone > ALONE_WITHIN_S:
            raise UsageError(
                "a worker has joined the group meanwhile: stop it, then run the reshard again"
            )
        if now - moved > STILL_S:
            trouble = worker.lookups.trouble or "SPANJOIN_LOG__LEVEL=info tells what it does"
            raise Crash(f"nothing was taken for {STILL_S:g} s ({trouble}); run the reshard again")


def _finished(worker: Worker, lanes: int) -> bool:
    """Whether every lane runs, and has taken all that it is to be given."""
    return (
        len(worker.running) == lanes
        and worker.transactions.ready
        and worker.inputs.member()
        and not worker.turns.ahead.plans
        and all(
            all(running.drained) and not len(running.inbox) and not running.waits
            for running in worker.running.values()
        )
    )


def _raise(worker: Worker, levels: Sequence[int | None]) -> bool:
    """Let time pass in the lanes that are behind, as the next turn will find it.

    Returns whether there were any. A lane that was restored meanwhile is behind once more.
    """
    behind = False
    for lane, level in enumerate(levels):
        state = worker.running[lane].state
        was = state.watermarks.lane
        if level is not None and (was is None or was < level):
            state.watermarks = state.watermarks._replace(lane=level)
            behind = True
    return behind
