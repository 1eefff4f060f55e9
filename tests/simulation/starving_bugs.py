"""Bugs to plant where a client stands still and does not know it; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.starvation import Starvation
from tests.simulation.mutations import Edit, Mutation

if TYPE_CHECKING:
    from collections.abc import Mapping

DEAF: Final[Mapping[str, Any]] = {
    "faults": ("deaf", "bump", "stop"),
    "fault_every_s": 0.8,
    "trouble_s": 8.0,
    "lanes": 2,
    "workers": 2,
    "events": 22,
}

STARVING_BUGS: Final = (
    Mutation(
        "a side that is not fed is not noticed",
        (
            Edit(
                Starvation._judge,
                "_is_over(count, partial(self.worker.inputs.lost, side))",
                "False",
            ),
        ),
        options=DEAF,
    ),
    Mutation(
        "a changelog that is not fed is not noticed",
        (Edit(Starvation._judge_replays, "_is_over(count, self.worker.reader.lost)", "False"),),
        options=DEAF,
    ),
    Mutation(
        "a side that is not fed is sought at its end",
        (
            Edit(
                Starvation._seek,
                "inputs.flow(side, lane, sign.expected)",
                "inputs.flow(side, lane, stable)",
            ),
        ),
        options=DEAF,
    ),
)
