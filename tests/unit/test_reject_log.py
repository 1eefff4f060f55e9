"""One line of a reason and lane now and then, and every reject in exactly one of them."""

from __future__ import annotations

from typing import Final

import pytest
from structlog.testing import capture_logs

from app.reject_log import DETAIL_LENGTH_MAX, EVERY_S, RejectLog
from schemas.records import Reason, Rejected

LATE: Final = Reason.LATE


def rejects(count: int, reason: Reason = LATE, detail: str = "d") -> list[Rejected]:
    return [Rejected(number, reason, detail, None) for number in range(count)]


@pytest.fixture
def log() -> RejectLog:
    return RejectLog()


def test_the_first_is_told_at_once_and_the_others_later_with_their_count(log: RejectLog) -> None:
    with capture_logs() as lines:
        log.note(3, rejects(1), 100.0)
        for turn in range(1000):
            log.note(3, rejects(2), 100.0 + turn * EVERY_S / 1001)
        log.step(100.0 + EVERY_S - 0.01)
    assert [line["count"] for line in lines] == [1]
    with capture_logs() as lines:
        log.step(100.0 + EVERY_S)
        log.step(100.0 + 9 * EVERY_S)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("rejected", "warning")
    assert (line["lane"], line["reason"], line["count"]) == (3, "late", 2000)
    assert (line["newest_offset"], line["detail"]) == (1, "d")


def test_lanes_and_reasons_have_lines_of_their_own(log: RejectLog) -> None:
    with capture_logs() as lines:
        log.note(0, rejects(2) + rejects(3, Reason.NULL_KEY), 5.0)
        log.note(1, rejects(4), 5.0)
    told = [(line["lane"], line["reason"], line["count"]) for line in lines]
    assert told == [(0, "late", 2), (0, "null_key", 3), (1, "late", 4)]


def test_a_long_detail_is_cut(log: RejectLog) -> None:
    with capture_logs() as lines:
        log.note(0, rejects(1, detail="x" * 10_000), 5.0)
    assert lines[0]["detail"] == "x" * DETAIL_LENGTH_MAX + "..."


def test_what_is_left_is_told_at_the_end(log: RejectLog) -> None:
    with capture_logs() as lines:
        log.note(0, rejects(1), 5.0)
        log.note(0, rejects(7), 5.1)
        log.close()
        log.close()
    assert [line["count"] for line in lines] == [1, 7]


def test_nothing_is_told_of_nothing(log: RejectLog) -> None:
    with capture_logs() as lines:
        log.note(0, [], 5.0)
        log.step(50.0)
    assert lines == []
