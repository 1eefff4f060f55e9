"""Planted bugs must be found: what the simulator says is worth as much as this.

    pytest tests/simulation/test_mutations.py -s

shows how many seeds each took.
"""

from __future__ import annotations

import pytest

from tests.simulation.again_bugs import AGAIN_BUGS
from tests.simulation.ahead_bugs import AHEAD_BUGS
from tests.simulation.answer_bugs import ANSWER_BUGS
from tests.simulation.asking_bugs import ASKING_BUGS
from tests.simulation.doubt_bugs import DOUBT_BUGS
from tests.simulation.memory_bugs import MEMORY_BUGS
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.opening_bugs import OPENING_BUGS
from tests.simulation.simulation import simulate
from tests.simulation.starving_bugs import STARVING_BUGS
from tests.simulation.waiting_bugs import WAITING_BUGS

SEEDS_MAX = 600
"""Most are found by a few; with every change of the code under test others are lucky."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutation",
    [
        *MUTATIONS,
        *WAITING_BUGS,
        *AGAIN_BUGS,
        *AHEAD_BUGS,
        *ASKING_BUGS,
        *MEMORY_BUGS,
        *OPENING_BUGS,
        *STARVING_BUGS,
        *DOUBT_BUGS,
        *ANSWER_BUGS,
    ],
    ids=lambda mutation: mutation.name,
)
def test_a_planted_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        failure = simulate(seed, mutation.change).failure
        if failure is not None:
            how = " ".join(f"{type(failure).__name__}: {failure}".split())
            print(f"\n{mutation.name}: seed {seed}: {how[:160]}")  # noqa: T201 - the table
            return
    raise AssertionError(f"not found by {SEEDS_MAX} seeds")
