"""The handoff of a lane as a table: Phase x Signal -> Phase.

Rule: everything that decides in which phase a lane is lives in this file. A pair that is not in
the table is an error (a programmer's), never silently ignored.

    ASSIGNED -opened-> RESTORING -caught_up-> FENCING -bounded-> INSTALLING -claimed-> RUNNING
                           ^                     |                   |
                           +------ stalled ------+-------------------+
    any of these: -damaged-> ASSIGNED (store wiped, or to be)   -renewed-> ASSIGNED
                  -revoked, lost-> RELEASED

    RESTORING   the changelog is replayed into the store, up to the last stable offset
    FENCING     open transactions of former owners are ended; then the stored offsets, then the high
                watermark are read (in this order: offsets that became stable after the watermark
                was read could lie ahead of a checkpoint that is still to be replayed)
    INSTALLING  replay goes on to that high watermark; checks; then the claim is committed
    RUNNING     the claim is committed: turns may be written
    RELEASED    not ours any more; its store is a stale copy

`renewed`: the producer was thrown away after an outcome nobody acknowledged. Only the changelog
knows what counted, so every lane starts over, without a new assignment.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a lane stands in its handoff."""

    ASSIGNED = "assigned"
    RESTORING = "restoring"
    FENCING = "fencing"
    INSTALLING = "installing"
    RUNNING = "running"
    RELEASED = "released"


class Signal(StrEnum):
    """What can happen to a lane."""

    OPENED = "opened"
    CAUGHT_UP = "caught_up"
    BOUNDED = "bounded"
    STALLED = "stalled"
    DAMAGED = "damaged"
    CLAIMED = "claimed"
    RENEWED = "renewed"
    REVOKED = "revoked"
    LOST = "lost"


class IllegalSignal(Exception):
    """A signal that must not occur in this phase: a defect of the program, not of its input."""


_HELD: Final = (
    Phase.ASSIGNED,
    Phase.RESTORING,
    Phase.FENCING,
    Phase.INSTALLING,
    Phase.RUNNING,
)

TRANSITIONS: Final[dict[tuple[Phase, Signal], Phase]] = {
    (Phase.ASSIGNED, Signal.OPENED): Phase.RESTORING,
    (Phase.RESTORING, Signal.CAUGHT_UP): Phase.FENCING,
    (Phase.FENCING, Signal.BOUNDED): Phase.INSTALLING,
    (Phase.FENCING, Signal.STALLED): Phase.RESTORING,
    (Phase.INSTALLING, Signal.STALLED): Phase.RESTORING,
    (Phase.INSTALLING, Signal.CLAIMED): Phase.RUNNING,
    **{(phase, Signal.DAMAGED): Phase.ASSIGNED for phase in _HELD},
    **{(phase, Signal.RENEWED): Phase.ASSIGNED for phase in _HELD},
    **{(phase, Signal.REVOKED): Phase.RELEASED for phase in _HELD},
    **{(phase, Signal.LOST): Phase.RELEASED for phase in _HELD},
}


def after(phase: Phase, signal: Signal) -> Phase:
    """The phase that follows; raises IllegalSignal for a pair the table does not hold."""
    try:
        return TRANSITIONS[phase, signal]
    except KeyError:
        raise IllegalSignal(f"{signal} in phase {phase}") from None
