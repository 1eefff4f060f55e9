"""How every client of the vendor's is made to speak: through our log, not on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from app.properties import Property

COMPLAIN_EVERY_S: Final = 10.0
_QUIET: Final = 2
"""Below librdkafka's level of lost connections: they are told once, in a line of our own."""

_log: Final = structlog.get_logger()
_complained: Final[dict[int, float]] = {}


def quiet(properties: Mapping[str, Property]) -> dict[str, Any]:
    """Properties of a client that does not write to standard error, unless asked to debug."""
    if "debug" in properties:
        return dict(properties)
    return {"log_level": _QUIET, **properties}


def report(error: KafkaError) -> None:
    """Tell people of a client's own trouble, one line of a kind now and then.

    For `error_cb`: whatever asks for an answer also arrives where it can be answered.
    """
    now = time.monotonic()
    if now - _complained.get(error.code(), -COMPLAIN_EVERY_S) >= COMPLAIN_EVERY_S:
        _complained[error.code()] = now
        _log.warning("kafka", error=error.str())
