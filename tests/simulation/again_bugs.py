"""Bugs to plant where a turn is run again as the group went on; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.worker import Worker
from tests.simulation.mutations import Edit, Mutation

if TYPE_CHECKING:
    from collections.abc import Mapping

MOVED_ON: Final[Mapping[str, Any]] = {
    "faults": ("bump",),
    "fault_every_s": 0.3,
    "trouble_s": 10.0,
}

AGAIN_BUGS: Final = (
    Mutation(
        "what was read for a turn that is run again is not read again",
        (
            Edit(
                Worker._run_again,
                "self.running[number] = again = running.again()",
                "again = running",
            ),
        ),
        options=MOVED_ON,
    ),
    Mutation(
        "a turn is run again on top of what was joined ahead",
        (Edit(Worker._run_again, "self.turns.abandon()", "pass"),),
        options=MOVED_ON,
    ),
)
