"""The broker of the test session, and a job of its own for each test."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest

from app.broker import Broker, start_broker
from tests.kafka.harness import Harness
from tests.kafka.lane import Lane, Lanes
from tests.kafka.proxy import proxied_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.proxy import Proxy

LANES: Final = 28
"""More than any one file has tests."""


@pytest.fixture(scope="session", autouse=True)
def orderly_end() -> Iterator[None]:
    """SIGTERM is like Ctrl-C: fixtures still end the workers they started.

    And Ctrl-C is itself, though a shell that starts the tests in the background ignores it: what
    they start would not hear it.
    """
    heard = (signal.SIGTERM, signal.SIGINT)
    before = [(number, signal.signal(number, signal.default_int_handler)) for number in heard]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One real broker for all tests of the session."""
    with start_broker(say=print) as broker:
        yield broker


@pytest.fixture
def kafka(broker: Broker, tmp_path: Path) -> Iterator[Harness]:
    """Fresh topic and job names on the session's broker; ends the workers it started."""
    harness = Harness(broker.bootstrap_servers, tmp_path, quick_session=broker.owned)
    try:
        yield harness
    finally:
        harness.close()


@pytest.fixture(scope="session")
def proxied() -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of a broker of its own, and the address of both."""
    with proxied_broker() as both:
        yield both


@pytest.fixture
def proxy(proxied: tuple[Proxy, str]) -> Iterator[Proxy]:
    """That proxy; after the test it lets everything through again."""
    proxy, _ = proxied
    yield proxy
    proxy.go_on()


@pytest.fixture
def proxied_kafka(proxied: tuple[Proxy, str], tmp_path: Path) -> Iterator[Harness]:
    """As `kafka`, with the proxy in between."""
    proxy, address = proxied
    harness = Harness(address, tmp_path)
    try:
        yield harness
    finally:
        proxy.go_on()
        harness.close()


@pytest.fixture(scope="module")
def lanes(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lanes]:
    """One worker for all tests of a file that need nothing but a lane."""
    directory = tmp_path_factory.mktemp("lanes")
    harness = Harness(broker.bootstrap_servers, directory, quick_session=broker.owned)
    try:
        lanes = Lanes(harness, LANES)
        yield lanes
        lanes.close()
    finally:
        harness.close()


@pytest.fixture
def lane(lanes: Lanes) -> Iterator[Lane]:
    """A lane for one test; what it left behind is read, so that the next does not see it."""
    lane = lanes.take()
    yield lane
    lane.settle()
