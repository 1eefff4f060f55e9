"""A short number of seeds; `make simulate SEEDS=20000` runs more.

One takes about 0.1 s of a processor.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulation import simulate

SEEDS = 300
BATCH = 25
TRACE_LINES = 60


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_invariant_holds(first: int) -> None:
    for seed in range(first, first + BATCH):
        outcome = simulate(seed)
        if outcome.failure is not None:
            trace = "\n".join(outcome.trace[-TRACE_LINES:])
            text = f"{outcome.options}\n{trace}\nthe whole trace: make simulate SEED={seed}"
            raise AssertionError(text) from outcome.failure


def test_a_seed_is_one_run() -> None:
    one, other = simulate(7), simulate(7)
    assert one.trace == other.trace
    assert len(one.trace) > 20
