"""Times that look like another unit: said once, and of records that are odd only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from app.suspicion import Suspicion, likely_unit
from schemas.records import Fault, Parts, Reason, Side
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 1_740_981_600


def at(ts: int) -> Parts:
    return ts, ts, "a", ts, 0, b""


@pytest.mark.parametrize(
    ("ts", "unit", "likely"),
    [
        (SECONDS, "ms", "s"),
        (SECONDS * 10**3, "us", "ms"),
        (SECONDS * 10**6, "ns", "us"),
        (SECONDS * 10**3, "s", "ms"),
        (SECONDS * 10**9, "ms", "ns"),
        (SECONDS * 10**3, "ms", None),
        (0, "ms", None),
        (5, "ms", None),
        (-SECONDS, "ms", None),
        (SECONDS, "none", None),
        (2**63 - 1, "ms", None),
    ],
)
def test_a_likely_unit_is_one_that_makes_a_time_of_today(
    ts: int, unit: str, likely: str | None
) -> None:
    assert likely_unit(ts, unit) == likely


def test_seconds_for_milliseconds_are_told_once(tmp_path: Path) -> None:
    suspicion = Suspicion(job(tmp_path))
    with capture_logs() as logs:
        suspicion.look(Side.LEFT, at(SECONDS * 1000))
        suspicion.look(Side.RIGHT, Fault(Reason.UNDECODABLE, ""))
        assert not suspicion.sides
        suspicion.look(Side.RIGHT, at(SECONDS))
        suspicion.look(Side.RIGHT, at(SECONDS))
    assert suspicion.sides == {Side.RIGHT}
    (said,) = logs
    assert said["event"].startswith('the times look like "s", not "ms"')
    assert (said["side"], said["read_as"]) == ("right", "1970-01-21 03:36:21.600")


def test_a_declared_unit_is_what_times_are_compared_with(tmp_path: Path) -> None:
    suspicion = Suspicion(job(tmp_path, MINIMAL.replace('"l"', '"l"\ntime_unit = "s"')))
    with capture_logs() as logs:
        suspicion.look(Side.LEFT, at(SECONDS * 1000))
        assert not suspicion.sides
        suspicion.look(Side.LEFT, at(SECONDS * 1000 * 1000))
    assert 'look like "ms", not "s"' in logs[0]["event"]
