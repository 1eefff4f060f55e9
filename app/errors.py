"""What ends a command, named by the answer it asks for; each class carries its exit code.

    Exception
    ├── SpanjoinError              exit 1   one line for stderr, never a traceback
    │   ├── UsageError             exit 2   a person must change something; nothing was moved
    │   ├── Crash                  exit 1   this process cannot go on; starting it again may help
    │   │   └── Unreachable        exit 1   no broker or Schema Registry answered in time
    │   └── Fenced                 exit 75  lost or stuck; start again at once
    └── Response                   never leaves the worker's loop
        ├── Retry                  ask again later, nothing was changed
        └── Renew                  a transaction failed: new producer, every lane taken over anew
            └── Stale              the group went on meanwhile, nothing counts: run it again

Bad input is a value (`schemas.records.Rejected`), never one of these.
"""

from __future__ import annotations

from typing import ClassVar, Final

EXIT_DONE: Final = 0
EXIT_CRASH: Final = 1
EXIT_USAGE: Final = 2
EXIT_RESTART: Final = 75


class SpanjoinError(Exception):
    """A failure that ends the command; its text is the one line a person reads."""

    exit_code: ClassVar[int] = EXIT_CRASH

    @property
    def line(self) -> str:
        """The text on one line: errors of libraries may carry newlines."""
        return " ".join(str(self).split())


class UsageError(SpanjoinError):
    """Usage, configuration, or a state of the cluster that needs a person: name thing and mend."""

    exit_code: ClassVar[int] = EXIT_USAGE


class Crash(SpanjoinError):
    """Anything else that stops the process: a full disk, a store damaged beyond a replay."""


class Unreachable(Crash):
    """No broker or registry answered within the time a command is willing to wait."""


class Fenced(SpanjoinError):
    """The worker was fenced, expelled or is stuck: the supervisor is to start it again."""

    exit_code: ClassVar[int] = EXIT_RESTART


class Response(Exception):
    """Base of the answers that the worker's loop gives by itself."""


class Retry(Response):
    """Nothing has changed; the same call may be made again after a pause."""


class Renew(Response):
    """Only the changelog knows whether a transaction counts: new producer, restore every lane."""


class Stale(Renew):
    """The group went on, and the broker says that nothing of the transaction counts: run it again.

    The producer stays, and so does what is committed in memory; the next poll tells whose the lanes
    are.
    """
