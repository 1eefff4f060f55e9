"""The broker of the test session, and a job of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.broker import Broker, start_broker
from tests.kafka.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One real broker for all tests of the session."""
    with start_broker(say=print) as broker:
        yield broker


@pytest.fixture
def kafka(broker: Broker, tmp_path: Path) -> Iterator[Harness]:
    """Fresh topic and job names on the session's broker; ends the workers it started."""
    harness = Harness(broker.bootstrap_servers, tmp_path)
    try:
        yield harness
    finally:
        harness.close()
