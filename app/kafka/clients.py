"""What every client of the vendor's has in common: its defaults, and through what it speaks."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, KafkaError

    from app.properties import Property

COMPLAIN_EVERY_S: Final = 10.0
LOOK_UP_TIMEOUT_S: Final = 1.0
_QUIET: Final = 2
"""Below librdkafka's level of lost connections: they are told once, in a line of our own."""
_ALL_BUT_DEBUG: Final = 6
_BROKE: Final = re.compile(r"FAIL .*in state (UP|REAUTH)\b|REQTMOUT ")
"""Of a connection that could not be made there is nothing to fear: nothing was sent on it. Where a
name has an address that nobody listens at, every new client meets one."""

_log: Final = structlog.get_logger()
_complained: Final[dict[int, float]] = {}


def with_defaults(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of any client. It does not write to standard error, unless it is to debug.

    A client that has lost every connection, be it that the broker closes them after ten idle
    minutes, would by default forget all brokers and bootstrap anew. An idle producer then hangs:
    its next transaction waits for a broker that is forgotten, 26 s as was seen, and fails.
    """
    loudness = {} if "debug" in properties else {"log_level": _QUIET}
    return {"metadata.recovery.strategy": "none", **loudness, **properties}


def for_admin(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of a client that asks questions.

    A question waits for its broker by asking to be connected at every change of the broker's state.
    In a client that connects only where it must, that skips the pause between two attempts, and
    each attempt is such a change: a broker that is away cost most of a processor.
    """
    return {"enable.sparse.connections": False, **with_defaults(properties)}


def report(error: KafkaError) -> None:
    """Tell people of a client's own trouble, one line of a kind now and then.

    For `error_cb`: whatever asks for an answer also arrives where it can be answered.
    """
    now = time.monotonic()
    if now - _complained.get(error.code(), -COMPLAIN_EVERY_S) >= COMPLAIN_EVERY_S:
        _complained[error.code()] = now
        _log.warning("kafka", error=error.str())


def look_up(consumer: Consumer, topic: str) -> None:
    """Let a consumer outside of any group know a topic before it is assigned some of it.

    An assignment does not make librdkafka ask who leads the partitions: a timer of one second does
    (`rd_kafka_topic_scan_all`), so that the first records would come that much later. Where no
    broker answers in time, they do.
    """
    with suppress(KafkaException):
        consumer.list_topics(topic, LOOK_UP_TIMEOUT_S)


class Listener:
    """Hears what a client logs, in place of a logger: whether a connection of it broke.

    There is no other sign of one that broke and was made again within one call. Lines come while
    the client is polled or flushed, those of one kind only once in a while: the first one tells.
    """

    def __init__(self) -> None:
        self.heard = ""
        """The last line that said so."""
        self._tell: Callable[..., object] = _log.debug

    def properties(self, properties: Mapping[str, Property]) -> dict[str, Any]:
        """Properties of a client that it is to listen to."""
        level = {"log_level": _ALL_BUT_DEBUG}
        if "debug" in properties:
            level, self._tell = {}, _log.info
        return {**with_defaults(properties), **level, "log.connection.close": True, "logger": self}

    def log(self, _level: int, text: str, *parts: object) -> None:
        """A line of the client's log, as Python's own loggers take it."""
        line = text % parts
        self._tell("kafka", said=line)
        if _BROKE.match(line):
            self.heard = line
