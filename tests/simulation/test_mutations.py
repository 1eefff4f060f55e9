"""Planted bugs must be found: what the simulator says is worth as much as this.

    pytest tests/simulation/test_mutations.py -s

shows how many seeds each took.
"""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.simulation import simulate
from tests.simulation.waiting_bugs import WAITING_BUGS

SEEDS_MAX = 250


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutation", [*MUTATIONS, *WAITING_BUGS], ids=lambda mutation: mutation.name
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
