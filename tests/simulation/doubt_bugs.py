"""Bugs to plant where a broker that was cut off tells of the past; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.beyond import Beyond
from app.kafka.inputs import Inputs
from rebalance.lanes import Lane
from tests.simulation.mutations import ANYWHERE, Edit, Mutation, asleep

if TYPE_CHECKING:
    from collections.abc import Mapping

CUT_OFF: Final[Mapping[str, Any]] = {
    "faults": ("cut off", "cut off", "bump", "expel", "stop"),
    "fault_every_s": 0.3,
    "trouble_s": 10.0,
    "lanes": 2,
    "workers": 2,
    "events": 22,
}

DOUBT_BUGS: Final = (
    Mutation(
        "what contradicts the changelog is believed at once",
        (Edit(Lane.doubts, "return self.asked_at <", "return False and self.asked_at <"),),
        options=CUT_OFF,
    ),
    Mutation(
        "a claim counts wherever the changelog ends",
        (ANYWHERE,),
        options=CUT_OFF,
    ),
    Mutation(
        # Alone it does no harm: a claim is refused where somebody else has written since.
        "group metadata is empty, and a claim counts wherever the changelog ends",
        (
            ANYWHERE,
            Edit(
                Inputs.metadata,
                "membership = ",
                'return b"CGMDv2:" + b"\\xff" * 4 + b"job\\0\\0\\1"\n    membership = ',
            ),
        ),
        options=asleep("claim.begun"),
    ),
    Mutation(
        "a position that an input does not have yet is gone",
        (Edit(Beyond._judge, "gone = asked.at >=", "gone = True or asked.at >="),),
        options=CUT_OFF,
    ),
)
