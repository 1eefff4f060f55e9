"""From a plan to what its transaction writes, and how large anything of it may be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from app.join import JoinSettings
from app.kafka.transactions import LaneWrite
from app.process import Plan, timestamped
from app.unmatched import DUE_MAX, Outer
from schemas.records import JoinType
from state.checkpoint import Layout, encode_turn

if TYPE_CHECKING:
    from app.config import Config
    from app.kafka.limits import Limits
    from schemas.codec import Codec

CHANGELOG_SPARE_BYTES: Final = 64 * 1024
"""Room for checkpoint and directory beside the largest row in one changelog record."""
RECORD_SPARE_BYTES: Final = 4 * 1024
"""Room for what the client and the broker put around a record."""


def join_settings(config: Config, codec: Codec, limits: Limits, layout: Layout) -> JoinSettings:
    """What the joins of a lane keep to; `layout` is that of its state."""
    sides = JoinType(layout.join_type).preserved
    return JoinSettings(
        lateness=layout.lateness,
        max_interval=layout.max_interval,
        span=layout.span,
        max_future=config.max_future,
        match_bytes_max=limits.output,
        row_bytes_max=limits.changelog - CHANGELOG_SPARE_BYTES,
        match_value=codec.match_value,
        outer=Outer(sides, codec.unmatched_value, DUE_MAX) if sides else None,
    )


def lane_write(plan: Plan, config: Config, limits: Limits, now_ms: int) -> LaneWrite:
    """What a plan writes to the topics; `now_ms` is the wall clock."""
    checkpoint, effects = plan.checkpoint, plan.effects
    bytes_max = limits.changelog - RECORD_SPARE_BYTES
    return LaneWrite(
        lane=plan.lane,
        changelog=partial(encode_turn, checkpoint, plan.rows, plan.buckets, bytes_max),
        positions=(checkpoint.left_position, checkpoint.right_position),
        matches=timestamped(effects.matches, config.ticks_per_ms, now_ms)
        if effects is not None
        else (),
        rejects=effects.rejects if effects is not None else (),
        after=plan.after,
    )
