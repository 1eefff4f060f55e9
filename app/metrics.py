"""The figures a worker exposes to Prometheus, all named `spanjoin_*` in base units.

Invariant: scraping reads numbers that the loop has left here; it never touches state. Series of a
lane disappear when the lane leaves, or a dashboard would show two owners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.effects import Counts

PHASES: Final = ("assigned", "restoring", "fencing", "installing", "running", "released")
_TURN_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 45)
_SIDES: Final = tuple(side.name.lower() for side in Side)


class SideFigures(NamedTuple):
    """One side of a lane. lag: records up to the last stable offset; None = not known yet."""

    watermark: int | None
    position: int | None
    lag: int | None


class LaneFigures(NamedTuple):
    """A lane as it is between turns; watermarks in the events' unit, None = minus infinity."""

    phase: str
    epoch: int
    watermark: int | None
    rows: int
    size: int
    sides: tuple[SideFigures, SideFigures]


class Metrics:
    """The worker's series; not thread-safe beyond what the client library is: one loop writes."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # Twice the series for the time at which each began, which nothing here asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"spanjoin_{name}", text, ("lane", *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"spanjoin_{name}", text, ("lane", *labels), registry=registry)

        self._suspect = _suspect(registry)
        self._records = counter("records", "Input records taken", "side")
        self._rejects = counter("rejects", "Input records rejected", "reason")
        self._counters: Mapping[str, Counter] = {
            "inserted": counter("inserts", "Inserts accepted"),
            "retracted": counter("retractions", "Retractions honoured"),
            "matched": counter("matches", "Matches emitted"),
            "tombstones": counter("match_retractions", "Matches retracted (tombstones)"),
            "unmatched": counter("unmatched_rows", "Rows of an outer join emitted as unmatched"),
            "duplicates": counter("duplicates", "Inserts with a known id, ignored"),
            "duplicate_changed": counter("duplicates_changed", "Duplicates with other bytes"),
            "remembered": counter("retractions_remembered", "Retractions before their insert"),
            "remembered_expired": counter(
                "retractions_expired", "Remembered retractions whose insert never came"
            ),
        }
        self._turn_seconds = Histogram(
            "spanjoin_turn_seconds",
            "Time of one turn, commit included",
            registry=registry,
            buckets=_TURN_SECONDS,
        )
        self._commit_seconds = Histogram(
            "spanjoin_commit_seconds",
            "Time from the first produce to the committed transaction",
            registry=registry,
            buckets=_TURN_SECONDS,
        )
        self._phase = gauge("lane_phase", "1 for the phase the lane is in", "phase")
        self._epoch = gauge("lane_epoch", "The lane's epoch: takeovers since its beginning")
        self._rows = gauge("state_rows", "Rows stored")
        self._size = gauge("state_bytes", "Bytes of the stored rows")
        self._watermark = gauge("watermark", "The lane's watermark, in the events' unit")
        self._side_watermark = gauge("side_watermark", "A side's watermark", "side")
        self._position = gauge("input_position", "The next offset to take", "side")
        self._lag = gauge("input_lag", "Records up to the last stable offset", "side")
        self._by_lane = (
            self._records,
            self._rejects,
            *self._counters.values(),
            self._phase,
            self._epoch,
            self._rows,
            self._size,
            self._watermark,
            self._side_watermark,
            self._position,
            self._lag,
        )

    def taken(self, lane: int, side: Side, records: int) -> None:
        """Count input records of a committed turn."""
        self._records.labels(str(lane), _SIDES[side]).inc(records)

    def counted(self, lane: int, counts: Counts) -> None:
        """Count what a committed turn did in a lane."""
        label = str(lane)
        for name, counter in self._counters.items():
            counter.labels(label).inc(getattr(counts, name))
        for reason, number in counts.rejected.items():
            self._rejects.labels(label, str(reason)).inc(number)

    def suspect(self, sides: Collection[Side]) -> None:
        """Show which sides' times look like another unit."""
        for side in Side:
            self._suspect.labels(_SIDES[side]).set(side in sides)

    def turn(self, seconds: float, commit_seconds: float) -> None:
        """Observe one committed turn of the worker."""
        self._turn_seconds.observe(seconds)
        self._commit_seconds.observe(commit_seconds)

    def lane(self, lane: int, figures: LaneFigures) -> None:
        """Show a lane as it is now; what is not known (None) has no series."""
        label = str(lane)
        for phase in PHASES:
            self._phase.labels(label, phase).set(phase == figures.phase)
        self._epoch.labels(label).set(figures.epoch)
        self._rows.labels(label).set(figures.rows)
        self._size.labels(label).set(figures.size)
        _show(self._watermark, (label,), figures.watermark)
        for name, side in zip(_SIDES, figures.sides, strict=True):
            _show(self._side_watermark, (label, name), side.watermark)
            _show(self._position, (label, name), side.position)
            _show(self._lag, (label, name), side.lag)

    def forget(self, lane: int) -> None:
        """Drop every series of a lane that has left."""
        for metric in self._by_lane:
            metric.remove_by_labels({"lane": str(lane)})


def _suspect(registry: CollectorRegistry) -> Gauge:
    text = "1 if a side's times look like another unit than the declared one"
    return Gauge("spanjoin_suspect_time_unit", text, ("side",), registry=registry)


def _show(gauge: Gauge, labels: tuple[str, ...], value: int | None) -> None:
    if value is None:
        gauge.remove(*labels)
    else:
        gauge.labels(*labels).set(value)
