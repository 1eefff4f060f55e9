"""The choice of a broker: a given one, else Docker, else Kafka's jars, else a line that helps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from app.broker.given import GivenBroker
from app.broker.interface import Broker, BrokerUnavailable
from app.broker.jars import find_jars, find_java
from app.broker.process import ProcessBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENVIRONMENT_NAME: Final = "SPANJOIN_TEST_BOOTSTRAP_SERVERS"

NOTHING_HERE: Final = (
    "no Kafka broker can be started here: install Docker and start it, or Java 17 and Maven, "
    f"or set {ENVIRONMENT_NAME} to a broker that may be used for tests"
)


def _say_nothing(line: str) -> None:
    """Do nothing with the line."""


def start_broker(
    properties: Mapping[str, str] | None = None,
    *,
    say: Callable[[str], None] = _say_nothing,
    environ: Mapping[str, str] = os.environ,
) -> Broker:
    """Start a broker, or take the one that the environment names, and wait until it answers.

    `properties` are server properties on top of `settings.SHORT_RUN`; a given broker keeps its
    own. `say` is told in a few words what takes long.

    Raises:
        BrokerUnavailable: nothing to start one with, or it did not come up.
    """
    given = environ.get(ENVIRONMENT_NAME, "").strip()
    if given:
        return GivenBroker(given)
    extra = dict(properties or {})
    docker_failed = ""
    try:
        container = _in_docker(extra, say)
    except BrokerUnavailable as error:
        docker_failed = f" (Docker runs, but: {error.line})"
    else:
        if container is not None:
            return container
    java = find_java(environ)
    jars = find_jars(environ, say) if java is not None else None
    if java is None or jars is None:
        raise BrokerUnavailable(NOTHING_HERE + docker_failed)
    return ProcessBroker(java, jars, extra)


def _in_docker(properties: Mapping[str, str], say: Callable[[str], None]) -> Broker | None:
    try:
        from app.broker import container  # noqa: PLC0415 - testcontainers is an optional extra
    except ImportError:
        return None
    return container.ContainerBroker(properties, say) if container.docker_answers() else None
