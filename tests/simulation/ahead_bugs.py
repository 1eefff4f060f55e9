"""Bugs to plant where a turn is joined before the one before it is committed; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import app.process
from app.turns import Turns
from app.worker import Worker
from schemas.records import JoinType
from tests.simulation.mutations import Edit, Mutation, asleep

if TYPE_CHECKING:
    from collections.abc import Mapping

LITTLE_MEMORY: Final[Mapping[str, Any]] = {"cache_memory": 1, "join": JoinType.INNER}
OUTER: Final[Mapping[str, Any]] = {"join": JoinType.FULL}

AHEAD_BUGS: Final = (
    Mutation(
        "what was joined ahead outlives a turn that failed",
        (Edit(Turns.abandon, "self._abandon(self._next())", "pass"),),
    ),
    Mutation(
        "what was joined ahead of a lane that left is committed",
        (Edit(Turns.forget, "plan.lane != lane", "True"),),
    ),
    Mutation(
        "a failed turn's directory and watermark stay in memory",
        (Edit(app.process.abandon_turn, "state = running.state", "return"),),
    ),
    Mutation(
        "windows are evicted that hold what is not committed",
        (
            Edit(Turns._commit, "if not self.ahead.plans:", "if True:"),
            Edit(Turns._may_run_ahead, "worker.config.state.windows_bytes", "10**12"),
        ),
        options=LITTLE_MEMORY,
    ),
    Mutation(
        "an outer join looks for unmatched rows that the store has not got yet",
        (Edit(Turns._may_run_ahead, 'worker.config.join.type == "inner"', "True"),),
        options=OUTER,
    ),
    Mutation(
        "a turn that is joined ahead begins where the committed one ended",
        (Edit(app.process.plan_turn, "before = running.planned", "before = running.checkpoint"),),
    ),
    Mutation(
        "a lane is handed over as it was joined ahead",
        (Edit(Worker.release, "self.running[n].checkpoint", "self.running[n].planned"),),
    ),
    Mutation(
        "the changelog is let go of by what is not committed",
        (
            Edit(
                app.process.truncation_point, "running.buckets.values()",
                "running.state.buckets.values()",
            ),
        ),
        # Whoever comes next has nothing of its own, and finds too little.
        options=asleep(
            "truncated", faults=("sleep", "wipe", "sleep", "expel"), edges=True,
            join=JoinType.INNER, events=22, max_records=2,
        ),
    ),
)  # fmt: skip
