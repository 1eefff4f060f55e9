"""What the benchmark of the handoff concludes from times and logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.handoff.figures import Span, longest_gap, longest_pause, quantile, rate
from bench.handoff.moves import _stayed
from bench.handoff.stamps import Stamp, parse, row_id
from bench.handoff.steps import takeovers
from schemas.match_id import match_id

if TYPE_CHECKING:
    from pathlib import Path


def test_a_gap_may_begin_before_and_end_after_the_span() -> None:
    assert longest_gap([10, 20, 90, 95], Span(30, 80)) == Span(20, 90)
    assert longest_gap([10, 20, 25, 90], Span(0, 22)) == Span(10, 20)


def test_a_gap_that_has_not_ended_counts_up_to_the_end() -> None:
    assert longest_gap([10, 20], Span(15, 80)) == Span(20, 80)
    assert longest_gap([], Span(15, 80)) == Span(15, 80)


def test_of_a_lane_that_stays_nothing_counts_that_is_still_to_come() -> None:
    second = 1_000_000
    seen = [number * second // 10 for number in range(200)]
    calm, gaps = Span(0, 6 * second), [Span(17 * second, 18 * second)]
    stayed = _stayed(seen, seen, calm, gaps, watched_to_us=20 * second)
    assert stayed.gap_us == second // 10
    assert stayed.rate_kept == pytest.approx(1, abs=0.05)
    assert _stayed(seen, seen, calm, gaps, watched_to_us=21 * second).gap_us == 1.1 * second


def test_a_pause_lies_inside_the_span() -> None:
    assert longest_pause([0, 50, 60, 75, 200], Span(40, 100)) == 15
    assert longest_pause([0, 200], Span(40, 100)) == 60


def test_rates_are_per_second_and_quantiles_are_values() -> None:
    assert rate([0, 500_000, 1_000_000, 2_000_000], Span(0, 2_000_000)) == 1.5
    assert quantile([5.0, 1.0, 3.0], 0.5) == 3.0
    assert quantile([5.0, 1.0, 3.0], 0.95) == 5.0


def test_a_match_tells_its_lane_and_the_later_of_its_rows() -> None:
    assert parse(match_id(row_id(3, 170), row_id(3, 90))) == Stamp(3, 170)
    assert parse(match_id(row_id(12, 170), row_id(12, 900))) == Stamp(12, 900)


def test_takeovers_are_read_from_a_log(tmp_path: Path) -> None:
    renewed = "producer thrown away, every lane is restored"
    lines = [
        ("assigned", 10, 1), ("restore", 20, 1), ("fence", 25, 1), ("fenced", 30, 1),
        ("install", 30, 1), ("running", 42, 1), ("revoked", 45, 1),
        ("assigned", 50, 2), (renewed, 60, None), ("restore", 65, 2), ("running", 70, 2),
    ]  # fmt: skip
    log = tmp_path / "worker.log"
    log.write_text(
        "no JSON\n"
        + "\n".join(
            json.dumps(
                {"event": event, "lane": lane, "timestamp": f"2026-01-01T00:00:00.0{at:02}Z"}
            )
            for event, at, lane in lines
        )
    )
    assigned, again = takeovers([log])
    assert (assigned.cause, round(assigned.total_ms)) == ("assigned", 32)
    assert {step: round(took) for step, took in assigned.steps_ms.items()} == {
        "restore": 10, "fence": 5, "fenced": 5, "install": 0, "running": 12,
    }  # fmt: skip
    assert (again.cause, round(again.total_ms)) == ("renewed", 10)
