"""What the lower layers stop for, as the command's one line and exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import Crash, SpanjoinError, UsageError
from rebalance.lanes import START_OVER, Mismatch, Unrepairable
from schemas.codec import UnknownSchema
from state.checkpoint import Unreadable
from state.disk import StoreDamaged, StoreError, StoreFull, StoreLocked

if TYPE_CHECKING:
    from app.config import Config

ENDINGS: Final = (Mismatch, UnknownSchema, Unreadable, StoreError)
"""Exceptions of the lower layers that end a worker."""


def ending(error: Exception, config: Config) -> SpanjoinError:
    """The line for people, with the mend and the exit code."""
    match error:
        case Mismatch():
            return UsageError(str(error))
        case UnknownSchema():
            return UsageError(f"{error}: configure that schema again, or {START_OVER}")
        case Unreadable():
            return UsageError(
                f"topic {config.changelog_topic} holds a record that cannot be read ({error}): run "
                f"the version that wrote it, or {START_OVER}"
            )
        case _:
            return _of_store(error, config)


def _of_store(error: Exception, config: Config) -> SpanjoinError:
    where = config.state.dir
    match error:
        case StoreLocked():
            return UsageError(f"state.dir {where} is used by another process: {error}")
        case StoreFull():
            return Crash(f"the disk of state.dir {where} is full: {error}")
        case Unrepairable():
            return Crash(
                f"{error}: the disk of state.dir {where} or topic {config.changelog_topic} is "
                f"damaged; try another disk, or {START_OVER}"
            )
        case StoreDamaged():
            return Crash(f"the state in {where} is damaged ({error}): delete it and start again")
        case _:
            return Crash(f"state.dir {where} cannot be used: {error}")
