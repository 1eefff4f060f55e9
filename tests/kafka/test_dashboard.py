"""The dashboard over real workers, through a real Prometheus: every panel shows something."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.deploy import panel_queries
from tests.kafka.busy import LANES, Busy
from tests.prometheus import FOUND, Prometheus

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

pytestmark = pytest.mark.skipif(
    FOUND is None, reason="Prometheus is not installed (Debian: the package prometheus)"
)

SEEN_FOR_S: Final = 5
MAY_BE_EMPTY: Final = {"Changelog still to be replayed"}
"""Shown during a restore only, which may be over between two scrapes."""


def test_every_panel_shows_something_of_a_job_that_lost_a_worker(kafka: Harness) -> None:
    busy = Busy(kafka)
    with Prometheus(kafka.directory / "prometheus") as prometheus:
        began = time.time()
        busy.start()
        busy.start()
        prometheus.scrape(busy.ports)
        kafka.await_(lambda: _running(busy) == LANES, 60, busy.workers[0].tail)
        busy.go_on(SEEN_FOR_S)
        busy.kill()
        kafka.await_(lambda: _running(busy) == LANES, 60, busy.workers[0].tail)
        busy.go_on(SEEN_FOR_S)

        def empty() -> set[str]:
            return {
                f"{title}: {query}"
                for title, query in panel_queries()
                if title not in MAY_BE_EMPTY
                and not _is_drawn(prometheus, query.replace("$job", ".*"), began)
            }

        kafka.await_(lambda: not empty(), 20, lambda: str(empty()))
    kafka.settle()


def _running(busy: Busy) -> int:
    return sum(len(worker.running()) for worker in busy.workers)


def _is_drawn(prometheus: Prometheus, query: str, began_s: float) -> bool:
    """Whether there is a line of at least two points."""
    found = prometheus.over(query, began_s, time.time(), 1)
    return any(sum(math.isfinite(value) for _, value in line) > 1 for _, line in found)
