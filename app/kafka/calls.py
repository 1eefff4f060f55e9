"""Client calls that are under way on helper threads, so that one that hangs is noticed.

Each of them has a time-out, and whoever waits for the broker asks again and again. But the client's
calls have been seen to outlive their time-outs, and a lane whose takeover waits for a thread that
never comes back would wait for ever. Nothing can end such a call but the end of its process.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HUNG_AFTER_S: Final = 120.0
"""Several times what the longest of them may take."""


class Calls:
    """One per process; thread-safe."""

    def __init__(self) -> None:
        self._under_way: dict[object, tuple[str, float]] = {}
        """By call, what it is for, and when it began (monotonic s)."""

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """A call, for as long as it takes."""
        call = object()
        self._under_way[call] = what, time.monotonic()
        try:
            yield
        finally:
            del self._under_way[call]

    def hung(self, now: float) -> str | None:
        """What a call is for that hangs, if one does; `now` is monotonic, in seconds."""
        for what, began in list(self._under_way.values()):
            if now - began > HUNG_AFTER_S:
                return what
        return None
