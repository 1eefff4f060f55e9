"""Logs on standard error: lines for people, or one JSON object a line.

Invariant: standard output is never logged to; it belongs to the results of commands.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import structlog

from app.secrets import HIDDEN, hide, is_secret

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


def configure(log: LogTable) -> None:
    """Send every log of the process to standard error in the wanted form and level."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _hide_secrets,
            *_renderers(log.format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log.level]),
        # Looked up at each call, so that whoever replaces sys.stderr still gets the lines.
        logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def beside_results(log: LogTable) -> LogTable:
    """The log of a command that runs a worker inside, and tells people itself what it does.

    What each lane goes through would stand between its lines: it is told where somebody asked for
    a level.
    """
    return log if "level" in log.model_fields_set else log.model_copy(update={"level": "warning"})


def _renderers(form: str) -> list[Processor]:
    if form == "json":
        return [structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def _hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if is_secret(name):
            event[name] = HIDDEN
        else:
            event[name] = _hidden(value)
    return event


def _hidden(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden(one) for one in value]
    return hide(value if isinstance(value, str) else repr(value))
