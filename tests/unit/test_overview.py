"""The lanes of all workers, looked at in the background."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from app import overview, status
from app.errors import Unreachable
from app.overview import Overview
from tests.unit.jobs import job
from tests.unit.test_status import CHECKPOINT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LANE = {"lane": 0, "owner": "me"}


class Looks:
    """Stands for the cluster: what it says, and when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = self.count = 0
        self.says: list[tuple[dict[str, Any], object]] | Exception = [(LANE, CHECKPOINT)]
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr(status, "looked_at", self)
        monkeypatch.setattr(overview, "FRESH_S", 0.0)
        monkeypatch.setattr(overview, "FIRST_ANSWER_S", 5.0)

    def __call__(self, _config: object) -> Any:
        self.begun += 1
        self.go_on.wait(5)
        self.count += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def settled(seen: Overview) -> dict[str, Any]:
    """The newest answer."""
    seen.job()
    if seen._looking is not None:
        seen._looking.join(5)
    return seen.job()


def test_what_the_page_needs_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Looks(monkeypatch)
    found = Overview(job(tmp_path), "me").job()
    assert found["lanes"] == [{**LANE, "address": CHECKPOINT.address}]
    assert (found["name"], found["worker"], found["left"], found["right"]) == (
        "job",
        "me",
        "l",
        "r",
    )
    assert (found["unit"], found["lateness"], found["max_interval"]) == ("ms", 10_000, 43_200_000)
    assert found["now"] > 0
    assert found["trouble"] is None


def test_lanes_stay_while_the_broker_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    seen = Overview(job(tmp_path), "me")
    seen.job()
    looks.says = Unreachable("no broker answered")
    found = settled(seen)
    assert found["trouble"] == "no broker answered"
    assert len(found["lanes"]) == 1
    looks.says = []
    found = settled(seen)
    assert (found["trouble"], found["lanes"]) == (None, [])


def test_one_look_at_a_time_and_nobody_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    seen = Overview(job(tmp_path), "me")
    seen.job()
    looks.go_on.clear()
    for _ in range(5):
        assert len(seen.job()["lanes"]) == 1
    until = time.monotonic() + 5
    while looks.begun < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(seen.job()["lanes"]) == 1
    assert (looks.begun, looks.count) == (2, 1)
    looks.go_on.set()
    settled(seen)
    assert looks.count >= 2
    monkeypatch.setattr(overview, "FRESH_S", 60.0)
    count = looks.count
    for _ in range(5):
        settled(seen)
    assert looks.count <= count + 1
