"""How much a turn takes, and how long a worker that keeps up rests between two."""

from __future__ import annotations

import pytest

from app.pace import BACKOFF_S, LIMIT_MIN, REST_MAX_S, TURN_TARGET_S, Pace


def test_a_turn_that_took_too_long_takes_as_much_less_the_next_time() -> None:
    pace = Pace(10_000)
    pace.took(4 * TURN_TARGET_S)
    assert pace.limit == 2_500
    pace.took(TURN_TARGET_S / 2)
    assert pace.limit == 5_000
    pace.took(TURN_TARGET_S / 2)
    pace.took(TURN_TARGET_S / 2)
    assert pace.limit == 10_000


def test_there_is_a_least_number() -> None:
    pace = Pace(10_000)
    for _ in range(9):
        pace.failed()
    assert pace.limit == LIMIT_MIN
    pace.took(100 * TURN_TARGET_S)
    assert pace.limit == LIMIT_MIN


@pytest.mark.parametrize("needed_s", [0.001, 0.004, 0.008])
def test_a_worker_rests_for_about_as_long_as_markers_take(needed_s: float) -> None:
    pace = Pace(100)
    rests, late = [], 0
    for _ in range(1_000):
        too_soon = pace.rest_s < needed_s
        pace.entered(BACKOFF_S + 0.001 if too_soon else 0.003)
        rests.append(pace.rest_s)
        late += too_soon
    assert late < 120, "one in ten at most, and at first some more"
    assert needed_s - 0.001 < sum(rests[100:]) / len(rests[100:]) < needed_s + 0.002


def test_a_broker_that_is_always_slow_does_not_slow_the_worker_much() -> None:
    pace = Pace(100)
    for _ in range(100):
        pace.entered(0.5)
    assert pace.rest_s == REST_MAX_S
    for _ in range(100):
        pace.entered(0.001)
    assert pace.rest_s == 0
