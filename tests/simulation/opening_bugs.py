"""Bugs to plant in how a lane's store is opened beside the loop; see `mutations`."""

from __future__ import annotations

from typing import Final

from app.kafka.transactions import Transactions
from rebalance.lanes import Lane
from rebalance.takeover import Takeovers
from tests.simulation.mutations import SLOW_MOVES, Edit, Mutation

OPENING_BUGS: Final = (
    Mutation(
        "a store that is being opened when its lane leaves stays open",
        (
            Edit(
                Lane.closer,
                "None if self.opening is None else partial(_close, self.opening)",
                "None",
            ),
        ),
        options=SLOW_MOVES,
    ),
    Mutation(
        "a store is opened before its former self is closed",
        (
            Edit(
                Takeovers._await_store,
                "lane.opening is None and (lane.closing is None or lane.closing.done())",
                "lane.opening is None",
            ),
        ),
        options=SLOW_MOVES,
    ),
    Mutation(
        "a store is opened once more where the lane starts over meanwhile",
        (
            Edit(Lane.signal, "self.extent = None", "self.extent = self.opening = None"),
            # As if connections broke all the time: the group's moving on renews whoever is busy.
            Edit(Transactions._counts_for_nothing, "return live.ended and", "return False and"),
        ),
        options=SLOW_MOVES,
    ),
)
