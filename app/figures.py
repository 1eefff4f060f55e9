"""A worker's lanes as people see them: for `/status`, `/readyz` and the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from app.metrics import LaneFigures, SideFigures
from rebalance.phases import Phase
from schemas.records import Side

if TYPE_CHECKING:
    from app.kafka.inputs import Inputs
    from app.process import Running
    from rebalance.lanes import Lane
    from state.checkpoint import Checkpoint


class Clock(NamedTuple):
    """The time now in the events' unit, None where that is no time; and how many are a second."""

    now: int | None
    ticks_per_s: int

    def seconds_between(self, since: int | None, until: int | None) -> float | None:
        """From one time to another; None where one is not known, or the unit is no time."""
        if self.now is None or since is None or until is None:
            return None
        return (until - since) / self.ticks_per_s


def lane_figures(lane: Lane, running: Running | None, inputs: Inputs, clock: Clock) -> LaneFigures:
    """One lane between turns; what is not known yet is None or 0."""
    checkpoint = running.checkpoint if running is not None else lane.checkpoint
    if checkpoint is None:
        nothing = SideFigures(None, None, None)
        return LaneFigures(
            lane.phase, 0, None, 0, 0, (nothing, nothing), to_restore=lane.to_restore
        )
    left, right = (_side(side, lane, checkpoint, running, inputs) for side in Side)
    mark = checkpoint.watermarks.lane
    windows = None if running is None else running.state.windows
    return LaneFigures(
        phase=lane.phase,
        epoch=checkpoint.epoch,
        watermark=mark,
        rows=checkpoint.rows,
        size=checkpoint.size,
        sides=(left, right),
        watermark_lag_s=clock.seconds_between(mark, clock.now),
        skew_s=clock.seconds_between(right.watermark, left.watermark),
        windows=0 if windows is None else len(windows.table),
        window_bytes=0 if windows is None else windows.size,
        to_restore=lane.to_restore,
    )


def _side(
    side: Side, lane: Lane, checkpoint: Checkpoint, running: Running | None, inputs: Inputs
) -> SideFigures:
    watermarks = checkpoint.watermarks
    position = (checkpoint.left_position, checkpoint.right_position)[side]
    lag = None
    if running is not None:
        end = inputs.high_watermark(side, lane.number)
        # At the partition's end nothing is left but markers, which take offsets too.
        waiting = running.inbox.waiting(side)
        lag = waiting if running.drained[side] else max(end - position, waiting)
    return SideFigures((watermarks.left, watermarks.right)[side], position, lag)


def lane_status(
    number: int, figures: LaneFigures, owner: str, changelog: tuple[int | None, int | None]
) -> dict[str, Any]:
    """One entry of `/status`, in the shape of `spanjoin status --json`."""
    sides = {
        side.name.lower(): {
            "position": found.position,
            "lag": found.lag,
            "watermark": found.watermark,
        }
        for side, found in zip(Side, figures.sides, strict=True)
    }
    return {
        "lane": number,
        "phase": str(figures.phase),
        "epoch": figures.epoch,
        "owner": owner,
        "watermark": figures.watermark,
        "rows": figures.rows,
        "bytes": figures.size,
        **sides,
        "changelog": {"start": changelog[0], "end": changelog[1]},
    }


def unready(lanes: dict[int, Lane]) -> str | None:
    """Why a worker is not ready: its first lane that does not run yet; None if all do."""
    for number, lane in sorted(lanes.items()):
        if lane.phase is not Phase.RUNNING:
            return f"lane {number} is {lane.phase}"
    return None
