"""`status`: each lane as its changelog, the group and the topics' ends tell it.

Invariant: works without a running worker, and never says more than was committed: positions,
watermarks and sizes are those of the last committed checkpoint, owners those that claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from app.console import console
from app.errors import Crash, UsageError
from app.kafka.cluster import Cluster, Extent, Member
from app.kafka.scan import Scanner
from app.progress import progress
from app.rows import moment
from app.topics import missing_input
from rebalance.phases import Phase
from schemas.records import Side
from state.checkpoint import Unreadable, decode_turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.config import Config
    from state.checkpoint import Checkpoint

TAIL_OFFSETS: Final = 64
"""How far before the changelog's end its last checkpoint is looked for first: a turn takes two
offsets, its record and the transaction's marker."""
_GROWTH: Final = 8


def job_status(config: Config) -> dict[str, Any]:
    """The job's lanes in the shape of `status --json`; raises what `looked_at` does."""
    return {"name": config.name, "lanes": [lane for lane, _ in looked_at(config)]}


def looked_at(config: Config) -> list[tuple[dict[str, Any], Checkpoint | None]]:
    """Each lane as `lane_status` has it, with its last checkpoint.

    Raises Unreachable, or UsageError where an input does not exist.
    """
    cluster = Cluster(config)
    inputs = [config.side(side).topic for side in Side]
    topics = cluster.topics([*inputs, config.changelog_topic])
    for side in Side:
        if inputs[side] not in topics:
            raise UsageError(missing_input(config, side))
    lanes = min(topics[topic].partitions for topic in inputs)
    changelog = topics.get(config.changelog_topic)
    extents = cluster.extents(config.changelog_topic, changelog.partitions) if changelog else []
    checkpoints = last_checkpoints(config, extents)
    ends = [cluster.extents(topic, lanes) for topic in inputs]
    members = cluster.members(config.name)
    found = []
    for lane in range(lanes):
        checkpoint = checkpoints[lane] if lane < len(checkpoints) else None
        status = lane_status(
            lane,
            checkpoint,
            member_of(lane, config.left.topic, members),
            (ends[Side.LEFT][lane], ends[Side.RIGHT][lane]),
            extents[lane] if lane < len(extents) else None,
        )
        found.append((status, checkpoint))
    return found


def lane_status(
    lane: int,
    checkpoint: Checkpoint | None,
    member: Member | None,
    ends: Sequence[Extent],
    changelog: Extent | None,
) -> dict[str, Any]:
    """One lane; pure. What is not known is None, except that no state is 0 rows of epoch 0."""
    owner, phase = ownership(checkpoint, member)
    positions: tuple[int | None, int | None] = (None, None)
    watermarks: tuple[int | None, int | None, int | None] = (None, None, None)
    if checkpoint is not None:
        positions = (checkpoint.left_position, checkpoint.right_position)
        watermarks = checkpoint.watermarks
    sides = {
        side.name.lower(): {
            "position": positions[side],
            "lag": lag(positions[side], ends[side]),
            "watermark": watermarks[1 + side],
        }
        for side in Side
    }
    return {
        "lane": lane,
        "phase": phase,
        "epoch": checkpoint.epoch if checkpoint else 0,
        "owner": owner,
        "watermark": watermarks[0],
        "rows": checkpoint.rows if checkpoint else 0,
        "bytes": checkpoint.size if checkpoint else 0,
        **sides,
        "changelog": {
            "start": changelog.start if changelog else None,
            "end": changelog.stable if changelog else None,
        },
    }


def ownership(
    checkpoint: Checkpoint | None, member: Member | None
) -> tuple[str | None, str | None]:
    """Owner and phase of a lane: who claimed it last, if the group still gives it to that one."""
    if member is None:
        released = checkpoint is not None and checkpoint.released
        return None, Phase.RELEASED if released else None
    if checkpoint is None or checkpoint.released or checkpoint.owner != member.client_id:
        return None, Phase.ASSIGNED
    return checkpoint.owner, Phase.RUNNING


def lag(position: int | None, extent: Extent) -> int | None:
    """Offsets from a position to the last stable one; None without a position."""
    return None if position is None else max(extent.stable - position, 0)


def last_checkpoints(config: Config, extents: Sequence[Extent]) -> list[Checkpoint | None]:
    """The last committed checkpoint of each lane of the changelog."""
    if not extents:
        return []
    scanner = Scanner(config)
    try:
        found = []
        with progress("reading checkpoints", len(extents)) as advance:
            for lane, extent in enumerate(extents):
                found.append(last_checkpoint(scanner, config.changelog_topic, lane, extent))
                advance(lane + 1)
        return found
    finally:
        scanner.close()


def last_checkpoint(scanner: Scanner, topic: str, lane: int, extent: Extent) -> Checkpoint | None:
    """The last committed checkpoint of a lane, None if it has none.

    Looks at the log's end, and further back as long as there is none: a long turn has parts.
    """
    reach = TAIL_OFFSETS
    while True:
        start = max(extent.start, extent.stable - reach)
        batches = scanner.scan(topic, lane, start, extent.stable)
        records = [record for batch in batches for record in batch]
        for record in reversed(records):
            try:
                checkpoint = decode_turn(record.value or b"").checkpoint
            except Unreadable as error:
                where = f"offset {record.offset} of partition {lane} of {topic}"
                raise Crash(f"{where} is no changelog record: {error}") from None
            if checkpoint is not None:
                return checkpoint
        if start == extent.start:
            return None
        reach *= _GROWTH


def member_of(lane: int, topic: str, members: Sequence[Member]) -> Member | None:
    """The member that the group has given this partition of the left topic."""
    for member in members:
        if lane in member.partitions.get(topic, ()):
            return member
    return None


def show(config: Config, status: Mapping[str, Any]) -> None:
    """Print the lanes as a table that fits a terminal of 80 columns."""
    table = Table(title=f"{status['name']}: {len(status['lanes'])} lanes", show_lines=True)
    table.add_column("lane", no_wrap=True)
    table.add_column("phase\nowner", min_width=8, overflow="fold")
    table.add_column("epoch", justify="right", no_wrap=True)
    for heading in ("watermark", "left", "right"):
        table.add_column(heading, justify="right", min_width=10)
    table.add_column("rows\nbytes", justify="right")
    for lane in status["lanes"]:
        table.add_row(
            str(lane["lane"]),
            f"{lane['phase'] or '-'}\n{lane['owner'] or '-'}",
            str(lane["epoch"]),
            _time(lane["watermark"], config.unit),
            *(_side_cell(lane[side.name.lower()], config.unit) for side in Side),
            f"{_number(lane['rows'])}\n{_number(lane['bytes'])}",
        )
    console().print(table)


def _side_cell(side: Mapping[str, int | None], unit: str) -> str:
    """Position, lag, and how far the side's time has come."""
    lines = [f"at {_number(side['position'])}", f"lag {_number(side['lag'])}"]
    return "\n".join([*lines, _time(side["watermark"], unit)])


def _time(ticks: int | None, unit: str) -> str:
    return "-" if ticks is None else moment(ticks, unit)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
