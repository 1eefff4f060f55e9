"""Bugs to plant in what a lane has in memory when it begins to run; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.worker import Worker
from schemas.records import JoinType
from state.window import Windows
from tests.simulation.mutations import MOVES, Edit, Mutation

if TYPE_CHECKING:
    from collections.abc import Mapping

SELDOM: Final[Mapping[str, Any]] = {
    "faults": ("bump",),
    "fault_every_s": 0.3,
    "trouble_s": 10.0,
    "lanes": 1,
    "workers": 1,
    "events": 30,
    "max_records": 8,
    "seldom": 0.8,
    "edges": False,
    "questions": False,
    "registry": False,
    "join": JoinType.INNER,
    "cache_memory": 2**20,
}
"""New keys again and again, at a worker that goes on with most of its memory."""

MEMORY_BUGS: Final = (
    Mutation(
        "the windows of a lane that was not read through count as all its rows",
        (Edit(Windows.__init__, "self.cold = sorted(buckets)", "self.cold = []"),),
    ),
    Mutation(
        "a window that was read in part counts as all rows of its key",
        (Edit(Windows._seldom, "(key not in table or key in parts)", "key not in table"),),
    ),
    Mutation(
        "nobody looks where the rows are of windows that were there in part",
        (Edit(Windows.release, "{*self.cold, *buckets}", "self.cold"),),
    ),
    Mutation(
        "a window that was read in part stays after its turn",
        (Edit(Windows.release, "self._drop(gone)", "self._parts -= gone"),),
    ),
    Mutation(
        "a window that was read in part stays one when nothing is missing any more",
        (Edit(Windows.prepare, "self._parts.clear()", "pass"),),
        options=SELDOM,
    ),
    Mutation(
        "the memory of a lane that left is used when it comes back",
        (Edit(Worker._drop, "self._kept.pop(number, None)", "pass"),),
        options=MOVES,
    ),
)
