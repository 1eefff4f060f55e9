"""Bugs to plant where something waits for a schema; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import app.join
import app.process
from app.intake import Intake
from tests.simulation.mutations import Edit, Mutation

if TYPE_CHECKING:
    from collections.abc import Mapping

WAITING: Final[Mapping[str, Any]] = {"registry": True}

WAITING_BUGS: Final = (
    Mutation(
        "records of a turn that has to wait do not return",
        (Edit(app.process.plan_turn, "running.inbox.put_back(records)\n        raise", "raise"),),
        options=WAITING,
    ),
    Mutation(
        "a turn that has to wait stays in memory",
        (Edit(app.join._emitted, "lane.windows.forget(decisions.touched())", "pass"),),
        options=WAITING,
    ),
    Mutation(
        "records that were given back are never read again",
        (Edit(Intake.resume, "running.unread[side] = False", "continue"),),
        options=WAITING,
    ),
)
