"""The named steps of a worker, told to one injected listener; in production nobody listens.

A test injects a listener that kills or stops the process at the n-th passage of a step, so that a
crash at every point of the protocol is a test and not a hope. A step is told when everything
before it is done and nothing after it has begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Reached = Callable[[str], None]
"""Told the name of the step that was reached."""

KINDS: Final = ("turn", "claim", "release")
"""What a transaction is for; each of WRITING is told as `<kind>.<step>`."""
WRITING: Final = (
    "begun",  # the transaction is open, nothing was produced
    "produced",  # outputs are in the client's queue
    "flushed",  # the broker has the outputs
    "logged",  # the broker has the changelog records
    "offsets",  # the group coordinator took the offsets
    "committed",  # the commit was acknowledged
    "stored",  # the stores have it
)
TAKING_OVER: Final = (
    "assigned",
    "restore",
    "fence",
    "fenced",
    "install",
    "running",
    "revoked",
    "lost",
    "wipe",
    "renewed",
    "run again",
)
"""Steps of a lane on its way, as they stand in the log."""
PROVING: Final = tuple(f"proof.{step}" for step in WRITING if step != "stored")
"""Of the transaction that proves ownership: it writes nothing, so nothing is stored."""
CLEANING: Final = ("stale copy removed", "truncated")

STEPS: Final = (
    *(f"{kind}.{step}" for kind in KINDS for step in WRITING),
    *TAKING_OVER,
    *PROVING,
    *CLEANING,
)


def nobody(step: str) -> None:
    """Listen to nothing."""
