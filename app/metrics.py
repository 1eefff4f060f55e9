"""The figures a worker exposes to Prometheus, all named `spanjoin_*` in base units.

Invariant: scraping reads numbers that the loop has left here; it never touches state. Series of a
lane disappear when the lane leaves, or a dashboard would show two owners.
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from rebalance.phases import Phase
from schemas.records import Reason, Side

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.effects import Counts

_TURN_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 45)
_TAKEOVER_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SIDES: Final = tuple(side.name.lower() for side in Side)

TAKEOVERS: Final = ("new", "released", "fenced", "renewed")
"""How a lane was found by its new owner: without history; handed over; left behind by an owner that
was fenced; or its own, after a transaction of it had failed."""
DEPARTURES: Final = ("revoked", "lost")
"""How a lane leaves: the group moves it, or the session has ended."""

# Field of `LaneFigures` -> name and text of its gauge.
_LANE_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "epoch": ("lane_epoch", "The lane's epoch: takeovers since its beginning"),
    "rows": ("state_rows", "Rows stored"),
    "size": ("state_bytes", "Bytes of the stored rows"),
    "disk_bytes": ("state_disk_bytes", "Bytes of the lane's store on disk"),
    "watermark": ("watermark", "The lane's watermark, in the events' unit"),
    "watermark_lag_s": (
        "watermark_lag_seconds",
        "How far the lane's watermark is behind the clock; not where the unit is none",
    ),
    "skew_s": (
        "skew_seconds",
        "The left side's watermark less the right side's; not where the unit is none",
    ),
    "windows": ("windows", "Windows in memory: keys whose rows need not be read from disk"),
    "window_bytes": ("window_bytes", "Memory that the windows take, as it is estimated"),
    "to_restore": ("restore_remaining", "Offsets of the changelog still to be replayed"),
}
# The same of `SideFigures`.
_SIDE_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "watermark": ("side_watermark", "A side's watermark"),
    "position": ("input_position", "The next offset to take"),
    "lag": ("input_lag", "Records up to the last stable offset"),
}
# Field of `Counts` -> name and text of its counter.
_LANE_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "inserted": ("inserts", "Inserts accepted"),
    "retracted": ("retractions", "Retractions honoured"),
    "matched": ("matches", "Matches emitted"),
    "tombstones": ("match_retractions", "Matches retracted (tombstones)"),
    "unmatched": ("unmatched_rows", "Rows of an outer join emitted as unmatched"),
    "duplicates": ("duplicates", "Inserts with a known id, ignored"),
    "duplicate_changed": ("duplicates_changed", "Duplicates with other bytes"),
    "remembered": ("retractions_remembered", "Retractions before their insert"),
    "remembered_expired": (
        "retractions_expired",
        "Remembered retractions whose insert never came",
    ),
}

# Of the worker as a whole: name and text.
_COUNTERS: Final = (
    ("renewals", "Producers thrown away after a failed transaction"),
    ("turns_run_again", "Transactions that were aborted as the group went on, and run again"),
    ("starved_sides", "Sides sought anew, of which nothing came although the broker had more"),
    ("wipes", "Local stores that could not be gone on from"),
)


class Totals(NamedTuple):
    """What a lane's committed turns came to since this worker took it over."""

    left: int = 0
    right: int = 0
    matches: int = 0
    retractions: int = 0
    unmatched: int = 0
    rejects: int = 0

    def plus(self, counts: Counts, taken: tuple[int, int]) -> Totals:
        """With one more turn."""
        return Totals(
            self.left + taken[Side.LEFT],
            self.right + taken[Side.RIGHT],
            self.matches + counts.matched,
            self.retractions + counts.tombstones,
            self.unmatched + counts.unmatched,
            self.rejects + sum(counts.rejected.values()),
        )


class SideFigures(NamedTuple):
    """One side of a lane. lag: records up to the last stable offset; None = not known yet."""

    watermark: int | None
    position: int | None
    lag: int | None


class LaneFigures(NamedTuple):
    """A lane as it is between turns; watermarks in the events' unit, None = minus infinity.

    to_restore: offsets of the changelog; None while its end is not known.
    """

    phase: str
    epoch: int
    watermark: int | None
    rows: int
    size: int
    sides: tuple[SideFigures, SideFigures]
    watermark_lag_s: float | None = None
    skew_s: float | None = None
    windows: int = 0
    window_bytes: int = 0
    to_restore: int | None = None
    disk_bytes: int | None = None


_NOTHING: Final = Totals()


class Metrics:
    """The worker's series; not thread-safe beyond what the client library is: one loop writes."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # Twice the series for the time at which each began, which nothing here asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"spanjoin_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"spanjoin_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            name = f"spanjoin_{name}_seconds"
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        self._records = counter("records", "Input records taken", "lane", "side")
        self._rejects = counter("rejects", "Input records rejected", "lane", "reason")
        self._opened = counter(
            "windows_opened", "Windows made for a key that was not in memory", "lane"
        )
        self._loaded = counter("windows_loaded", "Windows read from the store", "lane")
        self._counters = {name: counter(*said, "lane") for name, said in _LANE_COUNTERS.items()}
        self._gauges = {name: gauge(*said, "lane") for name, said in _LANE_GAUGES.items()}
        self._of_side = {name: gauge(*said, "lane", "side") for name, said in _SIDE_GAUGES.items()}
        self._phase = gauge("lane_phase", "1 for the phase the lane is in", "lane", "phase")
        self._by_lane = (
            self._records, self._rejects, self._opened, self._loaded, *self._counters.values(),
            *self._gauges.values(), *self._of_side.values(), self._phase,
        )  # fmt: skip
        self._totals: dict[int, Totals] = {}
        self._turn = seconds("turn", "Time of one turn, commit included", _TURN_SECONDS)
        self._commit = seconds(
            "commit", "Time from the first produce to the committed transaction", _TURN_SECONDS
        )
        self._takeover = seconds(
            "takeover",
            "Time from a lane's assignment, or its renewal, to the committed claim, by how it was "
            "found: new, released, fenced or renewed",
            _TAKEOVER_SECONDS,
            "kind",
        )
        self._left = counter("lanes_left", "Lanes that went: revoked or lost", "kind")
        self._renewals, self._again, self._starved, self._wipes = starmap(counter, _COUNTERS)
        self._lanes = gauge("lanes", "Lanes of the job, whoever has them")
        self._away = gauge("broker_away", "1 while no broker answers")
        self._registry_away = gauge(
            "schema_registry_away", "1 while the Schema Registry does not answer what is asked"
        )
        self._suspect = gauge(
            "suspect_time_unit",
            "1 if a side's times look like another unit than the declared one",
            "side",
        )
        gauge("build_info", "Always 1; the version is a label", "version").labels(
            version("spanjoin")
        ).set(1)
        for kind in TAKEOVERS:
            self._takeover.labels(kind)
        for kind in DEPARTURES:
            self._left.labels(kind)

    def counted(self, lane: int, counts: Counts, taken: tuple[int, int]) -> None:
        """Count what a committed turn did in a lane; `taken` are its input records by side."""
        label = str(lane)
        self._totals[lane] = self.totals(lane).plus(counts, taken)
        for name, records in zip(_SIDES, taken, strict=True):
            self._records.labels(label, name).inc(records)
        for name, counter in self._counters.items():
            counter.labels(label).inc(getattr(counts, name))
        for reason, number in counts.rejected.items():
            self._rejects.labels(label, str(reason)).inc(number)

    def totals(self, lane: int) -> Totals:
        """The same sums as numbers, for the page."""
        return self._totals.get(lane, _NOTHING)

    def registry(self, *, away: bool) -> None:
        """Show whether the Schema Registry answers; it does where nothing is asked."""
        self._registry_away.set(away)

    def suspect(self, sides: Collection[Side]) -> None:
        """Show which sides' times look like another unit."""
        for side in Side:
            self._suspect.labels(_SIDES[side]).set(side in sides)

    def turn(self, seconds: float, commit_seconds: float) -> None:
        """Observe one committed turn of the worker."""
        self._turn.observe(seconds)
        self._commit.observe(commit_seconds)

    def windows(self, lane: int, opened: int, loaded: int) -> None:
        """Count windows that were made, and those of them that were read from the store."""
        self._opened.labels(str(lane)).inc(opened)
        self._loaded.labels(str(lane)).inc(loaded)

    def takeover(self, kind: str, seconds: float) -> None:
        """Observe a lane that was claimed; `kind` is one of TAKEOVERS."""
        self._takeover.labels(kind).observe(seconds)

    def departure(self, kind: str) -> None:
        """Count a lane that left; `kind` is one of DEPARTURES."""
        self._left.labels(kind).inc()

    def renewal(self) -> None:
        """Count a producer that was thrown away."""
        self._renewals.inc()

    def run_again(self) -> None:
        """Count a transaction of which nothing counts, as the group went on meanwhile."""
        self._again.inc()

    def starved(self) -> None:
        """Count a side that the client did not feed."""
        self._starved.inc()

    def wipe(self) -> None:
        """Count a store that is made anew."""
        self._wipes.inc()

    def worker(self, lanes: int, *, away: bool) -> None:
        """Show what is no lane's: how many the job has, and whether a broker answers."""
        self._lanes.set(lanes)
        self._away.set(away)

    def lane(self, lane: int, figures: LaneFigures) -> None:
        """Show a lane as it is now; what is not known (None) has no series.

        Counters begin at 0 here: one that appears with its first event shows no increase.
        """
        label = str(lane)
        for phase in Phase:
            self._phase.labels(label, phase).set(phase == figures.phase)
        for name, gauge in self._gauges.items():
            _show(gauge, (label,), getattr(figures, name))
        for name, side in zip(_SIDES, figures.sides, strict=True):
            self._records.labels(label, name)
            for field, gauge in self._of_side.items():
                _show(gauge, (label, name), getattr(side, field))
        for counter in (self._opened, self._loaded, *self._counters.values()):
            counter.labels(label)
        for reason in Reason:
            self._rejects.labels(label, str(reason))

    def forget(self, lane: int) -> None:
        """Drop every series of a lane that has left."""
        self._totals.pop(lane, None)
        for metric in self._by_lane:
            metric.remove_by_labels({"lane": str(lane)})


def _show(gauge: Gauge, labels: tuple[str, ...], value: float | None) -> None:
    if value is None:
        gauge.remove(*labels)
    else:
        gauge.labels(*labels).set(value)
