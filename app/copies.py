"""The lane stores on this worker's disk: whose turn is over, and when what it left is removed.

A lane that moved away leaves its store behind as a stale copy. If the lane comes back the takeover
goes on from there and replays little; if it does not, the copy goes: the new owner has one.

Invariant: nothing here touches the store of a lane that this worker holds, nor one that is still
being opened or closed. `take` says what a lane that comes back has to wait for, a removal included:

1. A copy is due, a helper thread begins to remove it.
2. The lane is assigned to this worker again; its store is opened, in the same directory.
3. The thread goes on and removes files of the store that is in use.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.errors import UsageError
from app.steps import Reached, nobody
from state.disk import StateDirTaken, bytes_of_data, lock_state_dir
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from concurrent.futures import Executor, Future
    from pathlib import Path

SETTLING_S: Final = 10.0
"""How long after joining the group what an earlier process left is looked for: a group that takes
a member in settles in two rebalances, and the lanes it brings need their copies."""
MEASURE_EVERY_S: Final = 5.0
_NAME: Final = re.compile(r"lane-(\d+)")

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Copies:
    """One per worker, on its thread. Times are of the monotonic clock, in seconds."""

    directory: Path
    threads: Executor
    held: Mapping[int, object]
    """The lanes this worker has, by number."""
    kept_max: int
    """Stale copies that may be kept, the newest; 0: each is removed at once."""
    kept_s: float
    """How long each may be kept."""
    reached: Reached = nobody
    stale: dict[int, float] = field(default_factory=dict)
    """Lane -> since when its store is nobody's here."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Lane -> bytes that its store took on disk when it was last measured."""
    _busy: dict[int, Future[None]] = field(default_factory=dict)
    """Lane -> the thread's work on its store: closing or removing it."""
    _removing: set[int] = field(default_factory=set)
    _survey_at: float | None = None
    _surveyed: bool = False
    _measuring: Future[dict[int, int]] | None = None
    _measure_at: float = 0.0

    def path(self, lane: int) -> Path:
        """Where the store of a lane is."""
        return lane_path(self.directory, lane)

    def take(self, lane: int) -> Future[None] | None:
        """The lane is ours (again): its copy is kept. Returns what its opening must wait for."""
        self.stale.pop(lane, None)
        return self._busy.get(lane)

    def leave(self, lane: int, close: Callable[[], None] | None, now: float) -> None:
        """The lane is not ours any more.

        `close` is its `closer`: it is slow, or even has to wait for the store to be open, so a
        thread does it.
        """
        if close is not None:
            self._removing.discard(lane)
            self._busy[lane] = self.threads.submit(close)
        if close is not None or self.path(lane).exists():
            self.stale[lane] = now

    @property
    def busy(self) -> Collection[Future[None]]:
        """What threads do to stores: done when every one is closed or removed."""
        return self._busy.values()

    def step(self, now: float, *, joined: bool) -> None:
        """Remove what was kept for too long, or is too much. Never waits for the disk."""
        if joined and not self._surveyed:
            self._survey(now)
        for lane, work in list(self._busy.items()):
            if work.done():
                del self._busy[lane]
                if lane in self._removing:
                    self._removing.discard(lane)
                    self._removed(lane, work)
        for lane in due(self.stale, now, self.kept_max, self.kept_s):
            if lane not in self._busy:
                del self.stale[lane]
                self._removing.add(lane)
                self._busy[lane] = self.threads.submit(LaneStore.destroy, self.path(lane))
        self._measure(now)

    def figures(self, now: float) -> list[dict[str, Any]]:
        """The stale copies for `/status`."""
        return [
            {
                "lane": lane,
                "disk_bytes": self.sizes.get(lane),
                "stale_ms": round((now - since) * 1000),
            }
            for lane, since in sorted(self.stale.items())
        ]

    def _survey(self, now: float) -> None:
        """What an earlier process left and nobody asked for is a stale copy, too."""
        if self._survey_at is None:
            self._survey_at = now + SETTLING_S
        if now < self._survey_at:
            return
        self._surveyed = True
        for lane, _ in lane_stores(self.directory):
            if lane not in self.held and lane not in self._busy:
                self.stale.setdefault(lane, now)

    def _removed(self, lane: int, work: Future[None]) -> None:
        failure = work.exception()
        if failure is not None:
            _log.warning("a stale copy could not be removed", lane=lane, reason=str(failure))
            return
        self.sizes.pop(lane, None)
        _log.info("stale copy removed", lane=lane)
        self.reached("stale copy removed")

    def _measure(self, now: float) -> None:
        if self._measuring is not None and self._measuring.done():
            self.sizes = self._measuring.result()
            self._measuring = None
        # A lane that has just come is not without a figure until the next round.
        is_due = now >= self._measure_at or not self.held.keys() <= self.sizes.keys()
        if self._measuring is None and is_due:
            self._measure_at = now + MEASURE_EVERY_S
            self._measuring = self.threads.submit(bytes_on_disk, self.directory)


def due(stale: Mapping[int, float], now: float, kept_max: int, kept_s: float) -> list[int]:
    """The stale copies to remove: those too old, and beyond the newest `kept_max`. Pure."""
    newest_first = sorted(stale, key=lambda lane: (-stale[lane], lane))
    return [
        lane
        for rank, lane in enumerate(newest_first)
        if rank >= kept_max or now - stale[lane] >= kept_s
    ]


def lane_path(directory: Path, lane: int) -> Path:
    """Where the store of a lane is, in a state directory."""
    return directory / f"lane-{lane}"


def worker_directories(state: Path) -> list[Path]:
    """The state directories that there are under `state`: its own, and those of `run --workers`."""
    if not state.is_dir():
        return []
    numbered = sorted(path for path in state.iterdir() if path.name.isdigit() and path.is_dir())
    return [state, *numbered]


def lane_stores(directory: Path) -> Iterator[tuple[int, Path]]:
    """The lanes that have a store in a state directory, whatever its condition."""
    for path in sorted(directory.iterdir()):
        found = _NAME.fullmatch(path.name)
        if found is not None and path.is_dir():
            yield int(found[1]), path


def bytes_on_disk(directory: Path) -> dict[int, int]:
    """What the store of each lane takes there; one that is removed meanwhile does not count."""
    sizes: dict[int, int] = {}
    for lane, path in lane_stores(directory):
        with suppress(FileNotFoundError):
            sizes[lane] = bytes_of_data(path)
    return sizes


@contextmanager
def stopped(directory: Path, scratch: str | None = None) -> Iterator[None]:
    """Under the lock of the directory of a worker that does not run. Raises UsageError if it does.

    What a command that was killed left there under names that begin with `scratch` is removed.
    """
    try:
        lock = lock_state_dir(directory)
    except StateDirTaken:
        raise UsageError(f"state.dir {directory} is used by a worker: stop it first") from None
    with lock:
        for left in directory.glob(f"{scratch}*") if scratch else ():
            shutil.rmtree(left, ignore_errors=True)
        yield
