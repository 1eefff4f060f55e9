"""Turns: what is joined is committed, and the next turn is joined while that is under way.

A transaction's second half is waiting: for the broker to take outputs and changelog, offsets and
commit. Where there is a backlog, that time is used:

    poll n         joins turn n              (nothing is open, rebalance callbacks may run)
    poll n + 1     commits turn n and, while its end is waited for, joins turn n + 1
    poll n + 2     commits turn n + 1, ...

So a transaction spans no poll, and no more than one turn is joined that is not under way. When a
lane leaves, its part of that turn is forgotten; nobody has been told of it. A small turn is
committed in the round that polled it: where there is no backlog nothing waits.

A turn is joined ahead only where memory may run ahead of the store: nobody is asked about a key,
no window has to be evicted, and no unmatched rows are looked for, which are found in the store.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import Renew
from app.pace import REST_MAX_S, Pace
from app.process import (
    Moment,
    Plan,
    Running,
    abandon_turn,
    bound_windows,
    plan_turn,
    settle_turn,
    trim_windows,
    windows_bytes,
)
from schemas.codec import Unresolved

if TYPE_CHECKING:
    from app.worker import Worker

AHEAD_MIN: Final = 1_000
"""Records of a turn that may wait for the next poll: with fewer the worker keeps up."""


class Turn(NamedTuple):
    """What is to be committed together, and how long it took to join."""

    plans: list[Plan]
    joined_s: float

    @property
    def records(self) -> int:
        """Input records of both sides."""
        return sum([sum(plan.taken) for plan in self.plans])


NOTHING: Final = Turn([], 0.0)


@dataclass(slots=True)
class Turns:
    """One per worker, on its thread."""

    worker: Worker
    pace: Pace = field(init=False)
    ahead: Turn = NOTHING
    """What is joined and waits for the next poll."""
    _rests_until: float = 0.0

    def __post_init__(self) -> None:
        self.pace = Pace(self.worker.config.turn.max_records)

    def step(self) -> bool:
        """Commit what there is; returns whether there was anything to do. Raises as `commit`."""
        worker = self.worker
        if not self.ahead.plans:
            turn = self._joined()
            if turn.records >= AHEAD_MIN and self._may_run_ahead():
                self.ahead = turn
            elif turn.plans:
                self._commit(turn)
                self.pace.entered(worker.transactions.entered_s)
                self._rests_until = time.monotonic() + self.pace.rest_s
            return bool(turn.plans)
        self._commit(self._next(), ahead=True)
        if self.ahead.plans and (self.ahead.records < AHEAD_MIN or not self._may_run_ahead()):
            self._commit(self._next())
        return True

    def rest(self) -> None:
        """Wait for what the last turn has left to be done at the broker, see `app.pace`."""
        left = self._rests_until - time.monotonic()
        if 0 < left <= REST_MAX_S:
            time.sleep(left)

    def forget(self, lane: int) -> None:
        """The lane leaves: its part of a turn that waits will not be committed here."""
        self.ahead = self.ahead._replace(
            plans=[plan for plan in self.ahead.plans if plan.lane != lane]
        )

    def abandon(self) -> None:
        """Nothing that waits will be committed."""
        self._abandon(self._next())

    def _next(self) -> Turn:
        turn, self.ahead = self.ahead, NOTHING
        return turn

    def _may_run_ahead(self) -> bool:
        worker = self.worker
        return (
            worker.config.join.type == "inner"
            and not worker.questions.any
            and windows_bytes(worker.running.values()) <= worker.config.state.windows_bytes
        )

    def _join_ahead(self) -> None:
        """What there is to do while the end of a transaction is waited for."""
        if self._may_run_ahead():
            self.ahead = self._joined()
        trim_windows(self.worker.running.values())

    def _commit(self, turn: Turn, *, ahead: bool = False) -> None:
        worker, plans = self.worker, turn.plans
        began = time.monotonic()
        try:
            written = worker.commit(plans, self._join_ahead if ahead else None)
        except Renew:
            self.pace.failed()
            self._abandon(turn)
            raise
        for plan in plans:
            running = worker.running[plan.lane]
            settle_turn(running, plan, *written[plan.lane])
            worker.intake.flow(running)
            if plan.effects is not None:
                worker.metrics.counted(plan.lane, plan.effects.counts, plan.taken)
                worker.rejects.note(plan.lane, plan.effects.rejects, time.monotonic())
        if not ahead:
            trim_windows(worker.running.values())
        if not self.ahead.plans:
            bound_windows(worker.running.values(), worker.config.state.windows_bytes)
        took = time.monotonic() - began
        worker.metrics.turn(turn.joined_s + took, took)
        self.pace.took(took)

    def _abandon(self, turn: Turn) -> None:
        for plan in turn.plans:
            abandon_turn(self.worker.running[plan.lane], plan)

    def _joined(self) -> Turn:
        """Join what may be joined now, lane after lane."""
        began = time.monotonic()
        worker = self.worker
        moment = Moment(
            now=worker.now(),
            owner=worker.identity.worker,
            address=worker.identity.address,
            writer=worker.transactions.writer,
            limit=self.pace.limit,
            max_skew=worker.config.max_skew,
        )
        plans = [
            plan
            for running in worker.running.values()
            if not running.waits and (plan := self._plan(running, moment))
        ]
        return Turn(plans, time.monotonic() - began)

    def _plan(self, running: Running, moment: Moment) -> Plan | None:
        """The lane's part of the turn; None where it has none, or has to wait for a schema."""
        try:
            return plan_turn(running, moment, self.worker.idleness.counting(running.lane))
        except Unresolved as unresolved:
            running.waits = True
            self.worker.lookups.ask(unresolved)
            return None
