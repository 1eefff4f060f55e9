"""A job between two numbers of partitions, as the cluster has it: for `app.reshard`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import UsageError
from app.formats import make_codec
from app.kafka.reshard import Resharding
from app.kafka.scan import Scanner
from app.leftovers import Border, Placing, fitting, keyed
from app.rights import RESHARD, missing, missing_on_group
from app.status import last_checkpoints
from app.topics import missing_input, names
from app.validity import limits_of
from app.writes import RECORD_SPARE_BYTES
from rebalance.moving import jumps, levels
from schemas.partition import PARTITIONERS
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.config import Config
    from app.kafka.cluster import Topic
    from app.steps import Reached
    from state.checkpoint import Checkpoint, Watermarks

    Checkpoints = Sequence[Checkpoint | None]

SAMPLED: Final = 1_000
"""Records of each input partition whose keys tell the partitioner."""
HASHES_KEPT: Final = 100_000


class Request(NamedTuple):
    """What was asked for. `partitioner` None: it is found in the inputs."""

    partitions: int
    accept_late: bool = False
    partitioner: str | None = None


class Job:
    """The job as it was found, and what all steps need."""

    def __init__(self, config: Config, request: Request, reached: Reached) -> None:
        self.config = config
        self.request = request
        self.reached = reached
        self.inputs = (config.left.topic, config.right.topic)
        self.cluster = Resharding(config)
        self.scanner = Scanner(config)
        self.codec = make_codec(config)
        self._limits = limits_of(config.lateness, config.max_interval, None)
        self.lanewise = (*self.inputs, config.changelog_topic, config.rejects_topic)
        """The topics that have a partition for each lane."""
        self.topics: Mapping[str, Topic] = self.cluster.topics(
            [*self.lanewise, config.output.topic]
        )

    @property
    def lanes(self) -> int:
        """Partitions that the changelog had when the command began."""
        return self.topics[self.config.changelog_topic].partitions

    @property
    def record_bytes_max(self) -> int:
        """The largest changelog record, for the topic and for the client's own limit."""
        topic = self.topics[self.config.changelog_topic].settings["max.message.bytes"]
        client = self.config.producer_properties().get("message.max.bytes", topic)
        return min(int(topic), int(client)) - RECORD_SPARE_BYTES

    def checkpoints(self) -> list[Checkpoint | None]:
        """The newest of each lane."""
        topic = self.config.changelog_topic
        return last_checkpoints(self.config, self.cluster.extents(topic, self.lanes))

    def check(self, checkpoints: Checkpoints) -> None:
        """Raise UsageError where something stands in the way."""
        wanted = self.request.partitions
        for one in checkpoints:
            if one is not None and one.resharding not in {0, wanted}:
                raise UsageError(
                    f"a reshard to {one.resharding} partitions was begun and did not end: run it "
                    f"again with --partitions {one.resharding}"
                )
        if self.lanes > wanted:
            raise UsageError(
                f"{self.config.name} has {self.lanes} lanes, and partitions cannot be taken away"
            )
        for side in Side:
            has = self.topics[self.inputs[side]].partitions
            if has not in {self.lanes, wanted}:
                raise UsageError(
                    f'{side.name.lower()} topic "{self.inputs[side]}" has {has} partitions: not '
                    f"{self.lanes} as the state, nor {wanted} as was asked for"
                )

    def check_topics(self) -> None:
        """Raise UsageError where there is nothing to work on, or that is not allowed."""
        for side in Side:
            if self.inputs[side] not in self.topics:
                raise UsageError(missing_input(self.config, side))
        if self.config.changelog_topic not in self.topics:
            raise UsageError(
                f"{self.config.name} has no state to move yet: add the partitions to its inputs "
                f"before its first `spanjoin run`"
            )
        for topic in (self.config.rejects_topic, self.config.output.topic):
            if topic not in self.topics:
                raise UsageError(f"topic {topic} does not exist: create it with `spanjoin topics`")
        group = self.config.name
        lacking = missing(names(self.config), self.topics, RESHARD)
        if lacking := [*lacking, *missing_on_group(group, self.cluster.group_rights(group))]:
            raise UsageError("; ".join(lacking))

    def level(self, watermarks: list[Watermarks]) -> list[int | None]:
        """What the watermarks are raised to; raises UsageError where that has to be allowed."""
        if not self.request.accept_late and (said := self.jumps(watermarks)):
            raise UsageError(f"{said}: let the lanes catch up, or take it with --accept-late")
        return levels(watermarks, self.request.partitions)

    def jumps(self, watermarks: Sequence[Watermarks]) -> str | None:
        """Which keys would be brought forward by more than the allowed lateness, for people."""
        found = jumps(watermarks, self.request.partitions, self.config.lateness)
        if not found:
            return None
        said = ", ".join(
            f"lane {lane} from {'-' if was is None else was} to {new}" for lane, was, new in found
        )
        return (
            f"watermarks would go forward by more than join.allowed_lateness ({said}), and records "
            f"of these keys could be rejected as late"
        )

    def placing(self, checkpoints: Checkpoints, before: int) -> tuple[Placing, str]:
        """How keys are placed, and how that is known. Raises UsageError where it is not.

        A wrong guess would send rows where no later record of their keys arrives.
        """
        name = self.request.partitioner
        said = f"partitioner: {name}, as was said"
        if name is None:
            places = set(self._places(checkpoints, before))
            found = fitting(places, before)
            if not found:
                raise UsageError(
                    f"the keys of {' and '.join(self.inputs)} are not where any partitioner known "
                    f"here would put them ({', '.join(PARTITIONERS)}), so rows cannot be moved by "
                    f"key"
                )
            if len(found) > 1:
                raise UsageError(
                    f"the inputs do not tell whether their producers place keys by "
                    f"{' or '.join(found)}: say so with --partitioner"
                )
            name = found[0]
            said = f"partitioner: {name}, by {len(places):,} keys of the inputs"
        hashed = lru_cache(HASHES_KEPT)(PARTITIONERS[name])
        return Placing(hashed, before, self.request.partitions), said

    def unread(self, checkpoints: Checkpoints, before: int) -> dict[tuple[Side, int], range]:
        """The offsets that were not taken yet, by side and lane."""
        found = {}
        for side in Side:
            extents = self.cluster.extents(self.inputs[side], before)
            for lane, (extent, one) in enumerate(zip(extents, checkpoints, strict=False)):
                start = extent.start if self.config.start == "earliest" else extent.end
                if one is not None:
                    start = (one.left_position, one.right_position)[side]
                found[side, lane] = range(start, max(start, extent.end))
        return found

    def borders(self, placing: Placing, checkpoints: Checkpoints) -> dict[tuple[Side, int], Border]:
        """What stands unread in each partition of before."""
        topics = self.cluster.topics(self.inputs)
        found = {}
        for (side, lane), offsets in self.unread(checkpoints, placing.before).items():
            if topics[self.inputs[side]].partitions == placing.before:
                # Whatever is there was written under the old layout.
                found[side, lane] = Border(lane, placing, offsets.stop)
                continue
            border = found[side, lane] = Border(lane, placing, offsets.start)
            for offset, key in self._keys(side, lane, offsets):
                border.see(offset, key)
        return found

    def _places(self, checkpoints: Checkpoints, before: int) -> Iterator[tuple[bytes, int]]:
        """Where keys lie that were written under the old layout: (key, lane)."""
        for (side, lane), offsets in self.unread(checkpoints, before).items():
            extent = self.cluster.extents(self.inputs[side], before)[lane]
            raised = self.topics[self.inputs[side]].partitions > before
            end = offsets.start if raised else offsets.stop
            start = max(extent.start, end - SAMPLED)
            for _, key in self._keys(side, lane, range(start, max(start, end))):
                yield key, lane

    def _keys(self, side: Side, lane: int, offsets: range) -> Iterator[tuple[int, bytes]]:
        for batch in self.scanner.scan(self.inputs[side], lane, offsets.start, offsets.stop):
            yield from keyed(self.codec, self._limits, side, batch)
