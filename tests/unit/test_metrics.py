from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from app.effects import Counts
from app.metrics import LaneFigures, Metrics, SideFigures, Totals
from app.observation import Observation
from app.steps import nobody
from rebalance.lanes import Lane
from rebalance.phases import Signal
from schemas.records import Reason

if TYPE_CHECKING:
    from pathlib import Path

TURN = Counts(1, 2, 3, 4, 10, 5, 6, 7, 8, 0, {Reason.LATE: 9})
FIGURES = LaneFigures(
    "running", 4, 100, 7, 700, (SideFigures(100, 5, 2), SideFigures(None, 6, None))
)


def lines(registry: CollectorRegistry) -> set[str]:
    text = generate_latest(registry).decode()
    return {line for line in text.splitlines() if not line.startswith("#")}


def test_figures_of_a_lane() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.lane(3, FIGURES)
    metrics.counted(3, TURN, (0, 4))
    metrics.counted(3, TURN, (1, 6))
    metrics.windows(3, 5, 2)
    metrics.turn(0.2, 0.1)
    found = lines(registry)
    assert {
        'spanjoin_lane_phase{lane="3",phase="running"} 1.0',
        'spanjoin_lane_phase{lane="3",phase="restoring"} 0.0',
        'spanjoin_lane_epoch{lane="3"} 4.0',
        'spanjoin_state_rows{lane="3"} 7.0',
        'spanjoin_state_bytes{lane="3"} 700.0',
        'spanjoin_watermark{lane="3"} 100.0',
        'spanjoin_side_watermark{lane="3",side="left"} 100.0',
        'spanjoin_input_position{lane="3",side="right"} 6.0',
        'spanjoin_input_lag{lane="3",side="left"} 2.0',
        'spanjoin_records_total{lane="3",side="right"} 10.0',
        'spanjoin_matches_total{lane="3"} 6.0',
        'spanjoin_match_retractions_total{lane="3"} 8.0',
        'spanjoin_unmatched_rows_total{lane="3"} 20.0',
        'spanjoin_rejects_total{lane="3",reason="late"} 18.0',
        "spanjoin_turn_seconds_count 1.0",
        "spanjoin_commit_seconds_sum 0.1",
    } <= found
    assert not any('side="right"' in line and "lag" in line for line in found)
    assert not any("_created" in line for line in found)


def test_what_is_not_known_any_more_has_no_series() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.lane(3, FIGURES)
    metrics.lane(3, FIGURES._replace(watermark=None))
    assert not any(line.startswith("spanjoin_watermark{") for line in lines(registry))


def test_a_lane_that_leaves_takes_its_series_along() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for lane in (3, 33):
        metrics.lane(lane, FIGURES)
        metrics.counted(lane, TURN, (1, 0))
        metrics.windows(lane, 1, 1)
    metrics.forget(3)
    metrics.forget(4)
    found = lines(registry)
    assert not any('lane="3"' in line for line in found)
    assert any('lane="33"' in line for line in found)


@pytest.mark.parametrize("signal", [Signal.REVOKED, Signal.LOST])
def test_a_lane_that_leaves_before_it_ran_takes_its_series_along(
    signal: Signal, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.lane(3, FIGURES._replace(phase="fencing", watermark=None))
    Observation(metrics, nobody).left(Lane(3, tmp_path), signal)
    found = lines(registry)
    assert f'spanjoin_lanes_left_total{{kind="{signal}"}} 1.0' in found
    assert {line for line in found if "lane=" in line} == set()


def test_totals_of_a_lane_begin_anew_when_it_comes_back() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.counted(3, TURN, (1, 4))
    metrics.counted(3, TURN, (2, 6))
    assert metrics.totals(3) == Totals(
        left=3, right=10, matches=6, retractions=8, unmatched=20, rejects=18
    )
    assert metrics.totals(4) == Totals()
    metrics.forget(3)
    assert metrics.totals(3) == Totals()
