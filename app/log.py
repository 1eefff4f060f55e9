"""Logs on standard error: lines for people, or one JSON object a line.

Invariant: standard output is never logged to; it belongs to the results of commands.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import EventDict, Processor, WrappedLogger

    from app.settings import LogTable

_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SECRET_WORDS: Final = ("password", "secret", "token", "sasl.", "ssl.key")
_HIDDEN: Final = "***"


def configure(log: LogTable) -> None:
    """Send every log of the process to standard error in the wanted form and level."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _hide_secrets,
            *_renderers(log.format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log.level]),
        # Looked up at each call, so that whoever replaces sys.stderr still gets the lines.
        logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _renderers(form: str) -> list[Processor]:
    if form == "json":
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def _hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name in event:
        if any(word in name.lower() for word in _SECRET_WORDS):
            event[name] = _HIDDEN
    return event
