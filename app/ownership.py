"""The checkpoints that change the owner of a lane: claim and release. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schemas.records import Side
from state.checkpoint import Checkpoint, Layout, Watermarks

if TYPE_CHECKING:
    from rebalance.lanes import Bound


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes: the worker, the address of its HTTP server, its live producer."""

    worker: str
    address: str
    writer: str = ""


def claim(
    before: Checkpoint | None, bound: Bound, layout: Layout, start: str, identity: Identity
) -> Checkpoint:
    """A higher epoch with unchanged positions; a lane without history starts where `start` says.

    The span of the buckets is kept for as long as the state lives.
    """
    if before is None:
        positions = [extent.start if start == "earliest" else extent.end for extent in bound.inputs]
        return Checkpoint(
            epoch=1,
            sequence=0,
            writer=identity.writer,
            owner=identity.worker,
            address=identity.address,
            released=False,
            left_position=positions[Side.LEFT],
            right_position=positions[Side.RIGHT],
            watermarks=Watermarks(),
            rows=0,
            size=0,
            layout=layout,
        )
    return replace(
        before,
        epoch=before.epoch + 1,
        sequence=before.sequence + 1,
        writer=identity.writer,
        owner=identity.worker,
        address=identity.address,
        released=False,
        layout=replace(layout, span=before.layout.span),
    )


def takeover_kind(before: Checkpoint | None, *, kept: bool) -> str:
    """How a lane was found that is about to be claimed, see `app.metrics.TAKEOVERS`.

    `kept`: this worker ran it until a moment ago.
    """
    if before is None:
        return "new"
    if kept:
        return "renewed"
    return "released" if before.released else "fenced"


def release(before: Checkpoint) -> Checkpoint:
    """The same state, handed over in good order: whoever comes next has nothing to fence."""
    return replace(before, sequence=before.sequence + 1, released=True)
