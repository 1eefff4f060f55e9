"""What can be wrong with a state directory, and the lock that gives it to one process.

Errors are named by the answer they ask for; the store's vendor speaks in strings, which are read
here and nowhere else.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOCK_FILE: Final = "lock"


class StoreError(Exception):
    """A store cannot go on, for a reason that no kind below covers: end the process."""


class StoreLocked(StoreError):
    """The store is open elsewhere, or still being closed: wait, or find who has it."""


class StoreDamaged(StoreError):
    """What is stored cannot be trusted: wipe it and replay the changelog."""


class StoreFull(StoreError):
    """No room for a write, which was not made: free some, then start again; nothing is lost."""


class StateDirTaken(Exception):
    """Another process works in this state directory."""


_DATA_FILES: Final = (".sst", ".log")
_LOCKED: Final = ("lock hold by current process", "While lock file")
_FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")
# A file of the store that is not there any more is as bad as one with wrong bytes.
_DAMAGED: Final = ("Corruption", "hecksum", "No such file or directory")


def store_error(path: Path, error: Exception) -> StoreError:
    """The typed error for what the store's vendor raised for the store at `path`."""
    text = " ".join(str(error).split())
    kinds = ((StoreLocked, _LOCKED), (StoreFull, _FULL), (StoreDamaged, _DAMAGED))
    for kind, marks in kinds:
        if any(mark in text for mark in marks):
            return kind(f"store {path}: {text}")
    return StoreError(f"store {path}: {text}")


class StateLock:
    """A lock that dies with its process, however that ends. Also a context manager."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others have the directory; nothing happens the second time."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def lock_state_dir(path: Path) -> StateLock:
    """Take a state directory for this process, and make it if needed.

    Raises StateDirTaken, and OSError where the directory cannot be made or written. The file stays
    when the lock goes: a lock on a file that is removed excludes nobody who opens the next one.
    """
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise StateDirTaken(f"{path} is in use by process {holder or 'unknown'}") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return StateLock(descriptor)


def bytes_of_data(path: Path) -> int:
    """Bytes of a store's tables and logs; files that go meanwhile do not count."""
    total = 0
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(_DATA_FILES):
                with suppress(FileNotFoundError):
                    total += entry.stat().st_size
    return total
