"""The whole job as the page shows it: what it joins, and the lanes of all workers.

A worker knows its own lanes only. The others' are looked up as `spanjoin status` does it, on a
thread of its own and only when somebody asks: it takes a moment, and a broker may be away.

Invariant: whoever asks gets the newest answer that there is, after a bounded time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.errors import SpanjoinError
from app.secrets import hide

if TYPE_CHECKING:
    from app.config import Config

FRESH_S: Final = 4.0
"""An answer that is not older is given again."""
FIRST_ANSWER_S: Final = 3.0
"""How long the first one is waited for."""


@dataclass(slots=True)
class Overview:
    """One per worker; `job` may be called on any thread."""

    config: Config
    worker: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looking: threading.Thread | None = None
    _lanes: list[dict[str, Any]] = field(default_factory=list)
    _trouble: str | None = None
    _looked: float = -FRESH_S

    def job(self) -> dict[str, Any]:
        """What `/job` shows: settings that a person needs to read the rest, and the lanes."""
        looking = self._look()
        if looking is not None and not self._lanes:
            looking.join(FIRST_ANSWER_S)
        config = self.config
        return {
            "name": config.name,
            "worker": self.worker,
            "left": config.left.topic,
            "right": config.right.topic,
            "output": config.output.topic,
            "join_type": config.join.type,
            "unit": config.unit,
            "lateness": config.lateness,
            "max_interval": config.max_interval,
            "now": config.now_in_unit(time.time() * 1000),
            "lanes": self._lanes,
            "trouble": self._trouble,
        }

    def _look(self) -> threading.Thread | None:
        """Begin to look if that is due; returns the thread that looks, if one does."""
        with self._lock:
            if self._looking is not None and self._looking.is_alive():
                return self._looking
            if time.monotonic() - self._looked < FRESH_S:
                return None
            self._looking = threading.Thread(target=self._refresh, name="overview", daemon=True)
            self._looking.start()
            return self._looking

    def _refresh(self) -> None:
        # With what draws tables: half a second that a start can do without.
        from app import status  # noqa: PLC0415

        try:
            found = status.looked_at(self.config)
        except SpanjoinError as error:
            # The lanes stay as they were seen last: better than none.
            self._trouble = hide(error.line)
        else:
            self._lanes = [
                {**lane, "address": checkpoint.address if checkpoint and lane["owner"] else ""}
                for lane, checkpoint in found
            ]
            self._trouble = None
        self._looked = time.monotonic()
