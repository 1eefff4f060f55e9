"""Names of producers that were ended: each once, however many lanes and threads ask for it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from app.errors import Retry

if TYPE_CHECKING:
    from collections.abc import Callable

ENDED_MAX: Final = 4_096
"""Names remembered, those that were asked for last.

Only the writers of the lanes' last checkpoints and undecided tails are ever asked for, which are
fewer; whoever is no longer among them never is again. To end a name that is forgotten all the same
costs some milliseconds and harms nobody, as its producer is dead and no other has the name.
"""


class Fences:
    """Ends each name once. Thread-safe; `end` blocks and is called outside of the lock."""

    def __init__(self, end: Callable[[str], None], ended_max: int = ENDED_MAX) -> None:
        self._end = end
        self._ended_max = ended_max
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._under_way: set[str] = set()
        self._lock = Lock()

    def once(self, name: str) -> None:
        """Return once the name was ended, now or before.

        Raises Retry while another thread is at it (two would abort each other's attempt), and what
        `end` raises.
        """
        with self._lock:
            if name in self._ended:
                self._ended.move_to_end(name)
                return
            if name in self._under_way:
                raise Retry("another thread is at it")
            self._under_way.add(name)
        try:
            self._end(name)
        except BaseException:
            with self._lock:
                self._under_way.discard(name)
            raise
        with self._lock:
            self._under_way.discard(name)
            self._ended[name] = None
            if len(self._ended) > self._ended_max:
                self._ended.popitem(last=False)
