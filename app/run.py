"""One worker process, from its start to its exit code.

Invariant: whatever hangs in the client, the process ends: SIGTERM gives 0 within 10 s at any time,
and a loop that stands still is ended by the watchdog with 75, so that a supervisor starts it again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import socket
import sys
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from app import health, stops
from app.access import access
from app.allocator import map_large_blocks
from app.endings import ENDINGS, ending
from app.ends import Ends
from app.errors import (
    EXIT_CRASH,
    EXIT_DONE,
    EXIT_RESTART,
    Fenced,
    SpanjoinError,
    Unreachable,
    UsageError,
)
from app.figures import unready
from app.formats import job_schemas, worker_codec
from app.housekeeping import Housekeeping
from app.kafka.authority import Authority
from app.kafka.calls import Calls
from app.kafka.clients import close_within
from app.kafka.limits import Limits, producer_properties
from app.kafka.transactions import Topics, Transactions
from app.metrics import Metrics
from app.overview import Overview
from app.ownership import Identity
from app.placements import Placements, check_newest
from app.questions import NotAnswered, Questions
from app.secrets import hide
from app.steps import Reached, nobody
from app.timeline import timeline
from app.topics import prepare_topics
from app.worker import Worker
from state.disk import StateDirTaken, lock_state_dir, store_error
from state.resources import Resources
from state.retention import span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config import Config
    from app.timeline import Pair
    from state.checkpoint import Layout

STUCK_AFTER_S: Final = 45.0
"""A round of the loop that takes longer is taken for a hang in the client."""
SLOW_AFTER_S: Final = 15.0
"""One that takes longer waits for a broker: a call of a transaction may take 8 s."""
TELL_AFTER_S: Final = 1.0
"""So long a start may take before people are told what it waits for."""
STOP_WITHIN_S: Final = 8.0
CLOSE_WITHIN_S: Final = 3.0
HELPER_THREADS: Final = 8
WRITE_BUFFER_BYTES: Final = 64 * 1024 * 1024

_THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")
_EVERY_ADDRESS: Final = ("0.0.0.0", "")  # noqa: S104 (nothing is bound here)

_log: Final = structlog.get_logger()


class Connected(NamedTuple):
    """What the first contact with the cluster brought."""

    lanes: int
    limits: Limits
    layout: Layout


@dataclass(slots=True)
class Process:
    """One run: what it was asked, and its state that other threads look at."""

    accept_bounds: bool = False
    reached: Reached = nobody
    stopping: threading.Event = field(default_factory=threading.Event)
    beat: float = field(default_factory=time.monotonic)
    """When the loop last came round (monotonic s)."""
    waiting_for: str | None = "starting"
    """Why it is not ready, before there are lanes to speak of."""
    metrics: Metrics | None = None
    """Instead of those that the process shows."""
    worker: Worker | None = None
    housekeeping: Housekeeping | None = None
    questions: Questions | None = None
    calls: Calls = field(default_factory=Calls)
    """Of helper threads."""

    def health(self, config: Config, worker_id: str) -> health.Health:
        """What the HTTP server may ask."""
        nothing = {"name": config.name, "worker": worker_id, "lanes": []}
        return health.Health(
            live=self._live,
            ready=self._ready,
            status=lambda: (self.housekeeping and self.housekeeping.status) or nothing,
            ask=self._ask,
            look=self._look,
            job=Overview(config, worker_id).job,
        )

    def _ask(
        self,
        key: bytes,
        linearizable: bool,  # noqa: FBT001 (a flag of the question)
        lane: int | None,
    ) -> Future[dict[str, Any]]:
        if self.questions is None:
            raise NotAnswered(f"not ready: {self.waiting_for}")
        return self.questions.ask(key, linearizable=linearizable, lane=lane)

    def _look(self, key: bytes, lane: int | None, pair: Pair | None) -> Future[dict[str, Any]]:
        if self.questions is None:
            raise NotAnswered(f"not ready: {self.waiting_for}")
        tell = partial(timeline, pair=pair)
        return self.questions.ask(key, linearizable=False, lane=lane, tell=tell)

    def _live(self, still_s_max: float = STUCK_AFTER_S) -> str | None:
        still_s = time.monotonic() - self.beat
        return f"the loop stands still for {still_s:.0f} s" if still_s > still_s_max else None

    def hanging(self, now: float) -> str | None:
        """What hangs and will not go on, if anything does; `now` is monotonic, in seconds."""
        return "the loop" if now - self.beat > STUCK_AFTER_S else self.calls.hung(now)

    def _ready(self) -> str | None:
        if self.waiting_for is not None:
            return self.waiting_for
        if (still := self._live(SLOW_AFTER_S)) is not None:
            return still
        if self.housekeeping is not None and self.housekeeping.unready is not None:
            return self.housekeeping.unready
        if self.worker is not None and self.worker.inputs.unreachable:
            return "no broker can be reached"
        if self.worker is not None and self.worker.lookups.trouble is not None:
            return self.worker.lookups.trouble
        return unready(dict(self.worker.lanes)) if self.worker is not None else "starting"


def run_worker(config: Config, *, accept_bounds: bool = False, reached: Reached = nobody) -> int:
    """Run one worker until it is told to stop; returns its exit code.

    `reached` is told of every step of the worker, see `app.steps`.

    Raises UsageError, Crash or Fenced, each with the exit code it stands for.
    """
    process = Process(accept_bounds, reached)
    map_large_blocks()
    try:
        lock = lock_state_dir(config.state.dir)
    except StateDirTaken as taken:
        raise UsageError(
            f"state.dir {config.state.dir} is used by another worker; give each its own"
        ) from taken
    except OSError as error:
        raise ending(store_error(config.state.dir, error), config) from error
    with lock, stops.heard(partial(_stop, process)), _http(config, process) as identity:
        structlog.contextvars.bind_contextvars(worker=identity.worker)
        threading.Thread(target=_watch, args=(process,), name="watchdog", daemon=True).start()
        threads = ThreadPoolExecutor(HELPER_THREADS, thread_name_prefix="helper")
        try:
            return _work(config, identity, process, threads)
        finally:
            process.stopping.set()
            failure = sys.exc_info()[1]
            _end_within(CLOSE_WITHIN_S, _exit_code(failure), failure)
            threads.shutdown(wait=False, cancel_futures=True)


def _work(
    config: Config,
    identity: Identity,
    process: Process,
    threads: ThreadPoolExecutor,
) -> int:
    authority = Authority(config, identity.worker, process.stopping, process.calls)
    connected = _connect(config, process, threads, authority)
    if connected is None:
        return EXIT_DONE
    process.waiting_for = "joining the group"
    if config.consumer_properties().get("group.protocol") == "consumer":
        _log.warning(
            "a broker that was restarted may be unable to load the group for good",
            reason='group.protocol "consumer"', seen_with="4.2.1",
        )  # fmt: skip
    worker = make_worker(config, identity, process, authority, connected, threads)
    worker.intake.placements = Placements(connected.lanes, config.join.partitioners)
    process.worker = worker
    watch = _one_thread("watch", identity)
    process.housekeeping = Housekeeping(worker, connected.lanes, watch)
    gc.collect()
    gc.freeze()
    gc.disable()
    worker.inputs.subscribe()
    try:
        while not process.stopping.is_set():
            try:
                worker.step()
            except ENDINGS as error:
                raise ending(error, config) from error
            except Fenced:
                if process.stopping.is_set():
                    break  # The stop has cut off a question to the broker.
                raise
            process.housekeeping.step()
            if process.waiting_for is not None and worker.joined:
                process.waiting_for = None
            process.beat = time.monotonic()
        worker.leave()
        _log.info("stopped")
        return EXIT_DONE
    finally:
        close_within(CLOSE_WITHIN_S, worker.close)


def make_worker(
    config: Config,
    identity: Identity,
    process: Process,
    authority: Authority,
    connected: Connected,
    threads: ThreadPoolExecutor,
) -> Worker:
    """A worker that has not joined the group yet."""
    topics = Topics(
        left=config.left.topic,
        right=config.right.topic,
        output=config.output.topic,
        changelog=config.changelog_topic,
        rejects=config.rejects_topic,
    )
    process.questions = Questions(connected.lanes)
    return Worker(
        config=config,
        identity=identity,
        transactions=Transactions(
            config.name,
            producer_properties(config, identity.worker, connected.limits),
            topics,
            connected.limits,
            process.reached,
        ),
        authority=authority,
        codec=worker_codec(config),
        schemas=job_schemas(config),
        layout=connected.layout,
        limits=connected.limits,
        resources=Resources(config.state.block_cache_bytes, WRITE_BUFFER_BYTES),
        threads=threads,
        ends=Ends(partial(_one_thread, "ending", identity)),
        questions=process.questions,
        metrics=process.metrics or Metrics(),
        accept_bounds=process.accept_bounds,
        reached=process.reached,
    )


def _one_thread(name: str, identity: Identity) -> ThreadPoolExecutor:
    """For what must not queue up behind anything."""
    tell = partial(structlog.contextvars.bind_contextvars, worker=identity.worker)
    return ThreadPoolExecutor(1, name, tell)


def _connect(
    config: Config, process: Process, threads: ThreadPoolExecutor, authority: Authority
) -> Connected | None:
    """First contact, on a helper thread so that SIGTERM is heard; None when told to stop."""
    process.waiting_for = f"waiting for the broker at {config.bootstrap_servers}"

    def contact() -> Connected:
        lanes = prepare_topics(config)
        check_newest(config, lanes)
        span = span_of(config.lateness, config.max_interval)
        return Connected(lanes, authority.limits(), authority.layout(span))

    contacting: Future[Connected] = threads.submit(contact)
    tell_at = time.monotonic() + TELL_AFTER_S
    while not process.stopping.wait(0.02):
        process.beat = time.monotonic()
        if process.beat > tell_at:
            tell_at = inf
            _log.info("connecting", brokers=config.bootstrap_servers)
        if contacting.done():
            try:
                return contacting.result()
            except Unreachable as away:
                _log.warning("waiting for the broker", reason=away.line)
                contacting = threads.submit(contact)
            except Fenced:
                if process.stopping.is_set():
                    return None
                raise
    return None


def _stop(process: Process) -> None:
    """End the loop after its turn; if that takes too long, the process.

    A worker that dies without a release costs the next owner a second, never a match.
    """
    process.stopping.set()
    _end_within(STOP_WITHIN_S, EXIT_DONE, None)


@contextlib.contextmanager
def _http(config: Config, process: Process) -> Iterator[Identity]:
    """Serve probes and figures, if a port is configured; yields who this worker is."""
    worker_id = f"{config.name}-{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    if config.http.port == 0:
        yield Identity(worker_id, config.http.advertised)
        return
    allowed = access(config.http)
    if not allowed.token and config.http.host not in _THIS_MACHINE:
        _log.warning(
            "whoever reaches the port can read rows: set http.token", host=config.http.host
        )
    server = health.serve(
        config.http.host,
        config.http.port,
        process.health(config, worker_id),
        access=allowed,
    )
    _log.info("answers HTTP", at=reached_at(config.http.host, server.port), tls=bool(allowed.tls))
    try:
        yield Identity(
            worker_id, config.http.advertised or reached_at(config.http.host, server.port)
        )
    finally:
        server.close()


def reached_at(host: str, port: int) -> str:
    """Where others reach a server on `host`: if that is every address, by the machine's name."""
    return f"{socket.gethostname() if host in _EVERY_ADDRESS else host}:{port}"


def _watch(process: Process) -> None:
    """End the process when its loop hangs, or a helper thread.

    Client calls have been seen to outlive their own time-outs after an outage, and nothing else
    can end them.
    """
    while not process.stopping.wait(1.0):
        if (what := process.hanging(time.monotonic())) is not None:
            _log.error("the process ends, as it hangs", what=what)
            # Which call it is that hangs is known here and nowhere else.
            faulthandler.dump_traceback(sys.stderr, all_threads=True)
            _exit(EXIT_RESTART)


def _end_within(seconds: float, code: int, failure: BaseException | None) -> None:
    """End the process with this code even if an orderly end hangs in the client."""

    def end() -> None:
        time.sleep(seconds)
        if isinstance(failure, SpanjoinError):
            print(f"spanjoin: {hide(failure.line)}", file=sys.stderr)  # noqa: T201 (the command's line)
        _exit(code)

    threading.Thread(target=end, name="end", daemon=True).start()


def _exit_code(failure: BaseException | None) -> int:
    if failure is None:
        return EXIT_DONE
    return failure.exit_code if isinstance(failure, SpanjoinError) else EXIT_CRASH


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
