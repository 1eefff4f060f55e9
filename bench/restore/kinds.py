"""The two systems that keep and restore a state: how each is started, and what its log says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from bench import kafka_streams, spanjoin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.systems import Place, Started

SPANJOIN_MEMORY: Final = "256MB"
"""The limit on windows and the store's cache; it is the default, too."""


class Kind(Protocol):
    """One of the two."""

    @property
    def name(self) -> str:
        """As in the table."""

    def start(self, place: Place) -> Started:
        """Start its process, on the state that is there."""

    def restored(self, log: Path) -> float:
        """Seconds from beginning to restore until all lanes run; 0 where nothing was restored."""

    def held(self, log: Path) -> float:
        """Seconds from having its lanes until they all run."""


@dataclass(frozen=True)
class Spanjoin:
    """One worker."""

    name: str = "spanjoin"

    def start(self, place: Place) -> Started:
        """Start the worker."""
        environ = {"SPANJOIN_LOG__FORMAT": "json", "SPANJOIN_STATE__CACHE_MEMORY": SPANJOIN_MEMORY}
        return spanjoin.Spanjoin(1).start(place, environ)

    def restored(self, log: Path) -> float:
        """From the first step of any takeover."""
        return _between(list(_events(log)), "restore")

    def held(self, log: Path) -> float:
        """From the first assignment."""
        return _between(list(_events(log)), "assigned")


def _events(log: Path) -> Iterator[tuple[str, float]]:
    """(event, time in s) of a worker's log."""
    for text in log.read_text(errors="replace").splitlines():
        if text.startswith("{"):
            line = json.loads(text)
            yield line["event"], datetime.fromisoformat(line["timestamp"]).timestamp()


def _between(events: list[tuple[str, float]], first: str, last: str = "running") -> float:
    """From the first event of one name to the last of another."""
    begins = [at for event, at in events if event == first]
    ends = [at for event, at in events if event == last]
    return max(ends) - min(begins) if begins and ends else 0.0


@dataclass(frozen=True)
class KafkaStreams:
    """One process of one thread, with the same retention."""

    name: str = "Kafka Streams"

    def start(self, place: Place) -> Started:
        """Start the process."""
        return kafka_streams.KafkaStreams(1, place.lateness_ms).start(place)

    def restored(self, log: Path) -> float:
        """From the first changelog that it began to read until it was running with its tasks."""
        return _between(list(_said(log)), "RESTORING", "TASKS")

    def held(self, log: Path) -> float:
        """As `restored`: it does not say when it was given its tasks, only what it does then."""
        return self.restored(log)


def _said(log: Path) -> Iterator[tuple[str, float]]:
    """(what, time in s) of the application's lines; see IntervalJoin.java."""
    for text in log.read_text(errors="replace").splitlines():
        what, *words = text.split()[:7] or [""]
        if what == "TASKS":
            yield what, int(words[0]) / 1000
        elif what in {"RESTORING", "RESTORED"}:
            yield what, int(words[-1]) / 1000
