"""Runs a worker that is told of the past, as by a leader that was cut off from the others.

    python -m tests.kafka.outdated CONFIG END LEFT RIGHT

The changelog of lane 0 ends at END for it, and the group has committed LEFT and RIGHT. It is told
the truth as soon as it has claimed the lane, or has failed to.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from app import log
from app.config import load_config
from app.kafka.authority import Authority
from app.kafka.changelog import RestoreReader
from app.run import run_worker
from rebalance.lanes import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance.takeover import Replayed


class OldLeader:
    """What it says of lane 0."""

    def __init__(self, end: int, stored: tuple[int, int]) -> None:
        self._end = end
        self._stored = stored
        self._heard = False
        """Whether it knows of its successor."""

    def reached(self, step: str) -> None:
        """Hear of a step of the worker."""
        if step in {"claim.committed", "renewed"}:
            self._heard = True

    def changelog(self, authority: Authority, lane: int) -> Extent:
        """In place of `Authority.changelog`."""
        start, end = _changelog(authority, lane)
        return Extent(start, end if self._heard else self._end)

    def stable(self, authority: Authority, lane: int) -> int:
        """In place of `Authority.stable`."""
        stable = _stable(authority, lane)
        return stable if self._heard else self._end

    def stored(self, authority: Authority, lane: int) -> tuple[int | None, int | None]:
        """In place of `Authority.stored`."""
        return _stored(authority, lane) if self._heard else self._stored

    def read(self, reader: RestoreReader, limit: int) -> Replayed:
        """In place of `RestoreReader.read`."""
        replayed = _read(reader, limit)
        if self._heard:
            return replayed
        known = [item for item in replayed.items if item[1] < self._end]
        if len(known) < len(replayed.items):
            known.append((0, self._end, None))
        return replayed._replace(items=known)


_changelog, _stable, _stored = Authority.changelog, Authority.stable, Authority.stored
_read = RestoreReader.read


def _bound(method: Callable[..., object]) -> Callable[..., object]:
    """A function, so that it is called with what it is an attribute of."""

    def called(*arguments: object) -> object:
        return method(*arguments)

    return called


def main() -> int:
    """Run the worker; returns its exit code."""
    config, (end, left, right) = load_config(Path(sys.argv[1])), map(int, sys.argv[2:])
    log.configure(config.log)
    old = OldLeader(end, (left, right))
    with (
        patch.object(Authority, "changelog", _bound(old.changelog)),
        patch.object(Authority, "stable", _bound(old.stable)),
        patch.object(Authority, "stored", _bound(old.stored)),
        patch.object(RestoreReader, "read", _bound(old.read)),
    ):
        return run_worker(config, reached=old.reached)


if __name__ == "__main__":
    sys.exit(main())
