"""The choice of a broker: given by the environment, else Docker, else Kafka's jars, else one line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from app.broker.container import ContainerBroker, docker_answers
from app.broker.given import GivenBroker
from app.broker.interface import Broker, BrokerUnavailable
from app.broker.jars import find_java, find_jars
from app.broker.process import ProcessBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENVIRONMENT_NAME: Final = "SPANJOIN_TEST_BOOTSTRAP_SERVERS"

NOTHING_HERE: Final = (
    "no Kafka broker can be started here: install Docker and start it, or Java 17 and Maven, "
    f"or set {ENVIRONMENT_NAME} to a broker that may be used for tests"
)


def start_broker(
    properties: Mapping[str, str] | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
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
    if docker_answers():
        try:
            return ContainerBroker(extra, say)
        except BrokerUnavailable as error:
            docker_failed = f" (Docker runs, but: {error.line})"
    java = find_java(environ)
    if java is None:
        raise BrokerUnavailable(NOTHING_HERE + docker_failed)
    jars = find_jars(environ, say)
    if jars is None:
        raise BrokerUnavailable(NOTHING_HERE + docker_failed)
    return ProcessBroker(java, jars, extra)
