"""What every client of the vendor's has in common: its defaults, and through what it speaks."""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, KafkaError, Message

    from app.properties import Property

COMPLAIN_EVERY_S: Final = 10.0
LOOK_UP_TIMEOUT_S: Final = 1.0
FOUND_WITHIN_S: Final = 3.0
"""A client that knows a broker has its answer by then, if the broker answers others promptly."""
_QUIET: Final = 2
"""Below librdkafka's level of lost connections: they are told once, in a line of our own."""
_EVERYTHING: Final = 7
_BROKE: Final = re.compile(r"FAIL .*in state (UP|REAUTH)\b|REQTMOUT ")
"""Of a connection that could not be made there is nothing to fear: nothing was sent on it. Where a
name has an address that nobody listens at, every new client meets one."""
_UNSAID: Final = ": error log suppressed"
"""What the debug line of a failure ends with that has no other line."""

_log: Final = structlog.get_logger()
_complained: Final[dict[int, float]] = {}


def with_defaults(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of any client. It does not write to standard error, unless it is to debug.

    A client that is in use for long must be able to bootstrap anew, which is the client's default:

    1. A broker sleeps through its session with the controller, or starts: it is fenced. It answers,
       but of brokers it lists none: fenced ones are left out.
    2. A client that asks for metadata just then takes that for the whole truth, and forgets every
       broker (`rd_kafka_metadata_decommission_unavailable_brokers`), the bootstrap ones, too.
    3. A moment later the broker is back. The client knows nobody whom it could ask. Without a
       bootstrap it stands still for good, and has nothing to say.
    """
    loudness = {} if "debug" in properties else {"log_level": _QUIET}
    return {**loudness, **properties}


class Silence:
    """In place of a logger. Whatever it would say comes out of a call as well."""

    def log(self, _level: int, _text: str, *_parts: object) -> None:
        """Say nothing."""


def for_commands(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of a command's client: a command tells in one line what went wrong.

    Of fatal errors, such as a right that is missing, the client writes lines of its own whatever
    the level.
    """
    quiet = {} if "debug" in properties else {"logger": Silence()}
    return {**quiet, **with_defaults(properties)}


def for_transactions(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of a producer that is thrown away as soon as a transaction of it fails.

    By default a client that has lost every connection, be it that the broker closes them after ten
    idle minutes, forgets all brokers and bootstraps anew. An idle producer then hangs: its next
    transaction waits for a broker that is forgotten, 26 s as was seen, and fails. So this one keeps
    what it knows; should it be told of no brokers, as above, its next transaction fails.
    """
    return {"metadata.recovery.strategy": "none", **with_defaults(properties)}


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


def noting(offsets: list[int]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery report that notes where a record is, if it was delivered."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            offsets.append(offset)

    return delivered


def close_within(seconds: float, close: Callable[[], object]) -> None:
    """Close a client, which has been seen to hang; after so long it is left behind."""
    closing = threading.Thread(target=close, name="close", daemon=True)
    closing.start()
    closing.join(seconds)


def look_up(consumer: Consumer, topic: str, timeout_s: float = LOOK_UP_TIMEOUT_S) -> bool:
    """Let a consumer outside of any group know a topic before it is assigned some of it.

    An assignment does not make librdkafka ask who leads the partitions: a timer of one second does
    (`rd_kafka_topic_scan_all`), so that the first records would come that much later. Where no
    broker answers in time, they do. Returns whether one did.
    """
    try:
        consumer.list_topics(topic, timeout_s)
    except KafkaException:
        return False
    return True


class Listener:
    """Hears what a client logs, in place of a logger: whether a connection of it broke.

    There is no other sign of one that broke and was made again within one call. Lines come while
    the client is polled or flushed. Of a failure that says the same as the one before, within 30 s,
    there is a debug line only (`rd_kafka_broker_set_error`); and the one before may have had none
    either: a connection that the other end closes after a minute without traffic is no failure to
    the client, which it is not here, as nothing was on its way. So debug lines are listened to.
    """

    def __init__(self) -> None:
        self.heard = ""
        """The last line that said so."""
        self._asked_for = ""
        """What the user has the client debug."""

    def properties(self, properties: Mapping[str, Property]) -> dict[str, Any]:
        """Properties of a client that it is to listen to."""
        self._asked_for = str(properties.get("debug", ""))
        return {
            **for_transactions(properties),
            "debug": ",".join(filter(None, (self._asked_for, "broker"))),
            "log_level": _EVERYTHING,
            "log.connection.close": True,
            "logger": self,
        }

    def log(self, level: int, text: str, *parts: object) -> None:
        """A line of the client's log, as Python's own loggers take it."""
        line = text % parts
        if self._asked_for:
            _log.info("kafka", said=line)
        elif level > logging.DEBUG:
            _log.debug("kafka", said=line)
        if _BROKE.match(line) and (level > logging.DEBUG or line.endswith(_UNSAID)):
            self.heard = line
