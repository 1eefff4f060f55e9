"""What contradicts the changelog, for a while or for good: a broker that was cut off, or a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance.lanes import DOUBTED_MS, Lane, Mismatch
from rebalance.phases import Phase
from tests.unit.test_takeover import Broker, Changelog, step_to, takeover

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance.takeover import Takeovers


class Hours:
    """In place of the module `time` where a lane looks at it."""

    now = 1000.0

    def monotonic(self) -> float:
        self.now += 0.01  # Whoever has so much time must come to its end.
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours = Hours()
    monkeypatch.setattr("rebalance.lanes.time", hours)
    monkeypatch.setattr("rebalance.takeover.time", hours)
    return hours


def ready_within(takeovers: Takeovers, clock: Hours, seconds: float) -> list[Lane]:
    """The lanes that may be claimed within this time."""
    ready: list[Lane] = []
    until = clock.now + seconds
    while not ready and clock.now < until:
        clock.now += 0.05
        ready = takeovers.step()
    return ready


DOUBTED_S = DOUBTED_MS / 1000


def test_an_input_that_ends_before_the_position_does_stop(tmp_path: Path, clock: Hours) -> None:
    log = Changelog()
    log.append(left_position=17, sequence=1)
    takeovers, lane = takeover(log, Broker(log), tmp_path / "lane-0")
    assert ready_within(takeovers, clock, DOUBTED_S) == []
    with pytest.raises(Mismatch, match="ends at offset 9, before the position 17"):
        ready_within(takeovers, clock, 1)
    lane.opened.close()


def test_an_input_that_ends_too_early_for_a_moment_does_not_stop(
    tmp_path: Path, clock: Hours
) -> None:
    log = Changelog()
    log.append(left_position=17, sequence=1)
    broker = Broker(log)
    takeovers, lane = takeover(log, broker, tmp_path / "lane-0")
    assert ready_within(takeovers, clock, DOUBTED_S - 1) == []
    broker.input_end = 17
    assert ready_within(takeovers, clock, 1) == [lane]
    assert lane.doubted_at is None, "a later contradiction has all its time"
    lane.opened.close()


def with_newer_offsets(directory: Path) -> tuple[Changelog, Takeovers, Lane]:
    """The leader of the changelog was cut off after the first of two turns."""
    log = Changelog()
    log.append(left_position=5, sequence=1)
    log.append(left_position=7, sequence=2)
    log.known = 1
    takeovers, lane = takeover(log, Broker(log, stored_left=7), directory)
    return log, takeovers, lane


def test_offsets_ahead_of_an_old_changelog_are_asked_for_again(
    tmp_path: Path, clock: Hours
) -> None:
    log, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    assert ready_within(takeovers, clock, DOUBTED_S - 1) == []
    log.known = None
    assert ready_within(takeovers, clock, 1) == [lane]
    assert lane.checkpoint is not None
    assert lane.checkpoint.left_position == 7, "the restore went on to the new end"
    lane.opened.close()


def test_offsets_that_stay_ahead_do_stop(tmp_path: Path, clock: Hours) -> None:
    _, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    assert ready_within(takeovers, clock, DOUBTED_S) == []
    with pytest.raises(Mismatch, match=r"committed offset 7 of left .* changelog position 5"):
        ready_within(takeovers, clock, 1)
    lane.opened.close()


def test_an_answer_from_before_a_sleep_is_not_believed(tmp_path: Path, clock: Hours) -> None:
    log, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    assert ready_within(takeovers, clock, 0.5) == []
    step_to(takeovers, lane, Phase.FENCING)
    clock.now += 2 * DOUBTED_S
    log.known = None
    assert ready_within(takeovers, clock, 1) == [lane]
    lane.opened.close()


def restored(log: Changelog, directory: Path, clock: Hours) -> None:
    """A worker has been here before."""
    takeovers, lane = takeover(log, Broker(log), directory)
    assert ready_within(takeovers, clock, 2) == [lane]
    lane.opened.close()


def test_a_store_that_is_ahead_of_an_old_changelog_is_kept(tmp_path: Path, clock: Hours) -> None:
    log, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    log.known = None
    restored(log, lane.directory, clock)
    log.known = 1
    wiped: list[str] = []
    takeovers.observe = lambda _lane, event, **_details: wiped.append(event)  # type: ignore[assignment]
    assert ready_within(takeovers, clock, DOUBTED_S - 1) == []
    log.known = None
    assert ready_within(takeovers, clock, 1) == [lane]
    assert "wipe" not in wiped
    lane.opened.close()


def test_a_store_that_stays_ahead_of_the_changelog_is_wiped(tmp_path: Path, clock: Hours) -> None:
    log, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    log.known = None
    restored(log, lane.directory, clock)
    del log.records[1:]
    takeovers.authority.stored_left = 5  # type: ignore[attr-defined]
    assert ready_within(takeovers, clock, DOUBTED_S) == []
    assert lane.phase is Phase.ASSIGNED
    assert ready_within(takeovers, clock, 2) == [lane]
    assert lane.checkpoint is not None
    assert lane.checkpoint.left_position == 5
    lane.opened.close()


def test_a_reader_that_is_behind_wipes_nothing(tmp_path: Path, clock: Hours) -> None:
    log, takeovers, lane = with_newer_offsets(tmp_path / "lane-0")
    log.known = None
    restored(log, lane.directory, clock)
    told: list[str] = []
    takeovers.observe = lambda _lane, event, **_details: told.append(event)  # type: ignore[assignment]
    takeovers.step()
    log.known = 1
    takeovers.authority.log = log_of(log.records)  # type: ignore[attr-defined]
    assert ready_within(takeovers, clock, DOUBTED_S - 1) == []
    log.known = None
    assert ready_within(takeovers, clock, 1) == [lane]
    assert "doubted" in told
    assert "wipe" not in told
    lane.opened.close()


def log_of(records: list[bytes]) -> Changelog:
    """The same changelog as another broker has it."""
    return Changelog(records)
