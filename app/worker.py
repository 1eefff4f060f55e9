"""The loop of one worker: poll, take over, join, commit, store; one transaction a turn.

Invariant: a transaction never spans two polls. Rebalance callbacks run inside a poll only, so they
find nothing open and nothing half done. Only what a committed transaction contained reaches a
store.
"""

from __future__ import annotations

import time
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from app.beyond import Beyond
from app.copies import Copies
from app.errors import Crash, Renew, Stale
from app.idleness import Idleness
from app.intake import Intake
from app.kafka.changelog import RestoreReader
from app.kafka.inputs import Inputs
from app.kafka.producers import Producers
from app.kafka.transactions import LaneWrite, Transactions, Written
from app.lookups import Lookups
from app.observation import Observation
from app.ownership import Identity, claim, release, takeover_kind
from app.process import Plan, Running, resumed
from app.questions import NotAnswered
from app.reject_log import RejectLog
from app.steps import Reached, nobody
from app.suspicion import Suspicion
from app.turns import Turns
from app.writes import join_settings, lane_write
from rebalance.lanes import Lane
from rebalance.phases import Phase, Signal
from rebalance.takeover import Takeovers
from schemas.records import Side
from state.disk import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from app.config import Config
    from app.ends import Ends
    from app.kafka.authority import Authority
    from app.kafka.limits import Limits
    from app.lookups import Schemas
    from app.metrics import Metrics
    from app.questions import Questions
    from schemas.codec import Codec
    from state.checkpoint import Checkpoint, Layout
    from state.resources import Resources

CLOSE_TIMEOUT_S: Final = 3.0

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Worker:
    """All lanes of one process. Every method runs on the one thread that polls."""

    config: Config
    identity: Identity
    transactions: Transactions
    authority: Authority
    codec: Codec
    layout: Layout
    limits: Limits
    resources: Resources
    threads: Executor
    ends: Ends
    questions: Questions
    metrics: Metrics
    schemas: Schemas | None = None
    """Answers what the codec has to ask, if it has."""
    accept_bounds: bool = False
    reached: Reached = nobody
    """Told of every step; see `app.steps`."""
    rejects: RejectLog = field(default_factory=RejectLog)
    lanes: dict[int, Lane] = field(default_factory=dict)
    running: dict[int, Running] = field(default_factory=dict)
    joined: bool = False
    """Whether the group has given us an assignment, even an empty one."""
    producers: Producers = field(init=False)
    inputs: Inputs = field(init=False)
    beyond: Beyond = field(init=False)
    idleness: Idleness = field(init=False)
    lookups: Lookups = field(init=False)
    intake: Intake = field(init=False)
    takeovers: Takeovers = field(init=False)
    reader: RestoreReader = field(init=False)
    copies: Copies = field(init=False)
    turns: Turns = field(init=False)
    observe: Observation = field(init=False)
    _kept: dict[int, Running] = field(default_factory=dict)
    """Lanes that are restored without a new assignment, as they ran before."""
    _renew: str | None = None
    """Why the producer must be thrown away, once the current poll is over."""
    _busy: bool = False
    """Whether the last step did something, so that the next poll need not wait."""

    def __post_init__(self) -> None:
        self.turns = Turns(self)
        self.observe = Observation(self.metrics, self.reached)
        self.producers = Producers(self.transactions, self.authority, self.threads)
        self.inputs = Inputs(self.config, self.identity.worker, self)
        self.reader = RestoreReader(self.config, self.identity.worker)
        self.beyond = Beyond(self)
        self.idleness = Idleness(self.config, self.authority, self.threads)
        self.lookups = Lookups(self.codec, self.schemas, self.threads)
        self.intake = Intake(
            config=self.config,
            codec=self.codec,
            inputs=self.inputs,
            idleness=self.idleness,
            running=self.running,
            suspicion=Suspicion(self.config),
            look_up=self.lookups.ask,
        )
        self.takeovers = Takeovers(
            lanes=self.lanes,
            reader=self.reader,
            authority=self.authority,
            threads=self.threads,
            resources=self.resources,
            layout=self.layout,
            topics=(self.config.left.topic, self.config.right.topic),
            windows_bytes_max=self.config.state.windows_bytes,
            own=self.producers.own,
            observe=self.observe,
            accept_bounds=self.accept_bounds,
        )
        state = self.config.state
        self.copies = Copies(
            directory=state.dir,
            threads=self.threads,
            held=self.lanes,
            kept_max=state.stale_copies,
            kept_s=state.cleanup_delay_ms / 1000,
            reached=self.reached,
        )

    def step(self) -> None:
        """One round. Raises what the process cannot go on after.

        What was polled goes into the inboxes before anything else can fail: the client does not
        give it a second time.
        """
        busy = self._busy or self.takeovers.busy
        if not self.takeovers.busy:
            self.turns.rest()
        wait_s = 0.0 if busy else self.config.turn.max_wait_ms / 1000
        polled = self.inputs.poll(self.config.turn.max_records, wait_s)
        self.intake.accept(polled, self.now())
        self.beyond.step()
        follow = None
        try:
            self._busy = self._round() or bool(polled.records)
            if not self.turns.ahead.plans:
                self.questions.serve(self.running, self.codec, self._prove, self.lookups.ask)
        except Stale as stale:
            follow = partial(self._run_again, str(stale))
        except Renew as renew:
            follow = partial(self._start_over, str(renew))
        if follow is not None:
            # Only now: the exception holds on to the producer that failed.
            follow()

    def _round(self) -> bool:
        """Take over, claim, join; returns whether a turn was committed."""
        if (why := self._renew or self.transactions.doubt) is not None:
            raise Renew(why)
        if self.lookups.step():
            self.intake.resume()
        ready = self.takeovers.step()
        if not (self.producers.ready() and self.inputs.member()):
            # Nothing can be committed now; between two memberships the next poll will tell.
            return False
        self._claim(ready)
        self.idleness.step()
        return self.turns.step()

    def leave(self) -> None:
        """Release every lane and close the stores; raises nothing that a stop could not bear."""
        try:
            self.release(list(self.running))
        except (Renew, Crash, StoreError) as failure:
            _log.warning("lanes could not be released", reason=str(failure))
        for number in list(self.lanes):
            self._drop(number, Signal.REVOKED)
        self.rejects.close()

    def close(self) -> None:
        """Leave the group and close the clients; may hang, so on a thread that may be left.

        The stores are still being closed: the next owners need not wait for that.
        Whatever `leave` has not released is not released by the group's last callback either: if a
        store could not be written, memory is behind what was committed, and a release would hand
        the lane over as it was before its newest turn.
        """
        self.running.clear()
        self.ends.close()
        self.inputs.close()
        self.reader.close()
        wait(self.copies.busy, CLOSE_TIMEOUT_S)

    # Rebalance callbacks: called inside `poll`, never raise.

    def assigned(self, lanes: list[int]) -> None:
        """Remember; everything else happens in later steps."""
        self.joined = True
        for number in self.intake.wanted(lanes):
            lane = self.lanes[number] = Lane(number, self.copies.path(number))
            lane.closing = self.copies.take(number)
            self.observe(lane, "assigned", reason="the group's new assignment")

    def revoked(self, lanes: list[int]) -> None:
        """Write the releases of the running ones in one transaction; then they are not ours."""
        released = [number for number in lanes if number in self.running]
        try:
            self.release(released)
        except (Renew, Crash, StoreError) as failure:
            # Not released: the next owner finds our name in the changelog and fences it.
            _log.warning("lanes could not be released", lanes=released, reason=str(failure))
            if isinstance(failure, Renew) and not isinstance(failure, Stale):
                self._renew = str(failure)
        for number in lanes:
            self._drop(number, Signal.REVOKED)

    def lost(self, lanes: list[int]) -> None:
        """Drop everything in memory, write nothing: somebody else may own them already."""
        for number in lanes:
            self._drop(number, Signal.LOST)

    def unsettled(self) -> bool:
        """Whether others still have to give up lanes, so that another rebalance is to come."""
        return self.authority.unsettled(self.questions.lanes)

    def away(self) -> None:
        """No broker can be reached: an idle producer is of no use after that.

        Its first transaction hangs for good (in sending the offsets), long after the brokers came
        back. One that is in a transaction meanwhile finds out by itself.
        """
        self.producers.forget_next()
        if self.transactions.ready:
            self._renew = "no broker could be reached"

    def release(self, lanes: list[int]) -> None:
        """Hand lanes over in good order: a checkpoint that says so."""
        if not lanes or not self.transactions.ready or not self.inputs.member():
            return
        self.commit([Plan(n, "release", release(self.running[n].checkpoint)) for n in lanes])

    def _claim(self, ready: list[Lane]) -> None:
        """Commit of a higher epoch: from here on the lanes are ours to write."""
        if not ready:
            return
        plans = [
            Plan(lane.number, "claim", self._claiming(lane), after=lane.end_seen) for lane in ready
        ]
        kept, layout = self._kept, self.layout
        kinds = [takeover_kind(lane.checkpoint, kept=lane.number in kept) for lane in ready]
        states = [resumed(kept.get(n.number), n.opened, layout, n.warm) for n in ready]
        written = self.commit(plans)
        for lane, plan, state, kind in zip(ready, plans, states, kinds, strict=True):
            lane.signal(Signal.CLAIMED)
            kept.pop(lane.number, None)
            running = Running(
                lane=lane.number,
                checkpoint=plan.checkpoint,
                settings=join_settings(
                    self.config, self.codec, self.limits, plan.checkpoint.layout
                ),
                state=state,
                changelog_first=written[lane.number].first,
                changelog_position=written[lane.number].position,
            )
            self.running[lane.number] = running
            self.inputs.start(lane.number, running.positions)
            self.idleness.start(lane.number)
            self.observe.claimed(lane, kind)

    def _prove(self, lanes: list[int]) -> None:
        """Commit the unchanged positions of lanes: the broker takes them from an owner only.

        Raises NotAnswered, where it would be known beforehand to fail, and what `write` raises.
        """
        if not self.inputs.member():
            raise NotAnswered("this worker is between two memberships of its group")
        writes = [LaneWrite(n, self.running[n].positions) for n in lanes]
        self._write("proof", writes)

    def _claiming(self, lane: Lane) -> Checkpoint:
        assert lane.bound is not None, f"lane {lane.number} is claimed without a bound"
        identity = replace(self.identity, writer=self.transactions.writer)
        return claim(lane.checkpoint, lane.bound, self.layout, self.config.start, identity)

    def now(self) -> int | None:
        """The wall clock in the job's unit, None where it does not matter."""
        return self.config.now_in_unit(time.time() * 1000)

    def commit(
        self, plans: list[Plan], meanwhile: Callable[[], None] | None = None
    ) -> dict[int, Written]:
        """One transaction, then one store write a lane; the only way anything is written.

        `meanwhile` is called while the transaction's end is waited for. Raises Renew (only the
        changelog knows what counts), Crash, StoreError.
        """
        now_ms = int(time.time() * 1000)
        kind = plans[0].kind
        writes = [lane_write(plan, self.config, self.limits, now_ms) for plan in plans]
        written = self._write(kind, writes, meanwhile)
        for plan in plans:
            # If this fails the process ends: the changelog has the turn.
            store = self.lanes[plan.lane].opened
            store.apply(plan.rows, plan.buckets, plan.checkpoint, written[plan.lane].position)
        self.reached(f"{kind}.stored")
        return written

    def _write(
        self, kind: str, writes: list[LaneWrite], meanwhile: Callable[[], None] | None = None
    ) -> dict[int, Written]:
        """One transaction.

        Releases are written in a callback: until the poll is over, whoever asks the consumer
        anything on another thread waits. So the membership is read beforehand, which cannot change
        before the callback returns; elsewhere it is read right before it is needed.
        """
        metadata = self.inputs.metadata
        if kind == "release":
            metadata = partial(bytes, self.inputs.metadata())
        begun = self.transactions.begin(kind, writes)
        return self.ends.run(partial(self.transactions.end, begun, metadata), meanwhile)

    def _start_over(self, why: str) -> None:
        """The last transaction failed: only the changelog knows whether it counts.

        A new producer alone would not do: if the turn did count, running it again from memory
        would apply it twice. So every lane is taken over anew, from its last committed state.
        """
        _log.warning("producer thrown away, every lane is restored", reason=why)
        self.metrics.renewal()
        self.reached("renewed")
        self._renew = None
        self._busy = False
        self.producers.retire()
        self.turns.abandon()
        self._kept |= self.running
        for number in list(self.running):
            self._stop_running(number)
            self.inputs.hold(Side.LEFT, number)
        for lane in self.lanes.values():
            self.takeovers.restart(lane, Signal.RENEWED)
            self.observe.line(lane, "renewed", reason=why)

    def _run_again(self, why: str) -> None:
        """Nothing of the last transaction counts: what was read for it is read again.

        Lanes that were to be claimed begin anew: an aborted record of ours stands in their way.
        """
        _log.info("a turn is run again", reason=why)
        self.metrics.run_again()
        self.reached("run again")
        self._busy = False
        self.turns.abandon()
        for number, running in list(self.running.items()):
            self.inputs.stop(number)
            self.running[number] = again = running.again()
            self.inputs.start(number, again.positions)
            self.idleness.start(number)
        for lane in self.lanes.values():
            if lane.phase is Phase.INSTALLING:
                self.takeovers.restart(lane, Signal.RENEWED)

    def _stop_running(self, number: int) -> None:
        if self.running.pop(number, None) is not None:
            self.turns.forget(number)
            self.inputs.stop(number)
            self.idleness.stop(number)
            self.metrics.forget(number)

    def _drop(self, number: int, signal: Signal) -> None:
        """The lane is not ours any more."""
        lane = self.lanes.pop(number, None)
        if lane is None:
            return
        self._stop_running(number)
        self._kept.pop(number, None)
        self.takeovers.forget(lane)
        lane.signal(signal)
        self.copies.leave(number, lane.closer(), time.monotonic())
        self.observe.left(lane, signal)
        lane.store = None
