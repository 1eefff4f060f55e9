"""`reset`: take a job back to where it has read nothing, and its output to where it holds nothing.

What stands in the output must be what a run has found, at any time; so the matches of the old run
are retracted before the new one begins, and the new run writes those again that it finds again.

The steps, each of which can be done twice; until the last one `spanjoin run` refuses to start:

1. hold: offsets beyond every position are committed for the group. The broker takes them only
   while the group has no members. Whoever joins later finds them before it may claim a lane.
2. fence: transactions that former owners left open are ended. One that slept through its session
   after it had sent its offsets could otherwise commit a turn behind our back.
3. empty: the changelog loses every record. Stores on any disk are below its start from then on,
   and the next owner wipes such a store.
4. retract: each live match of the output gets a tombstone, so many in a transaction.
5. clear: the rejects go, and the stores on this machine.
6. let go: the group is deleted, with the offsets of step 1.

Killed anywhere, the next reset begins at step 1 and finds less to do.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from app.copies import lane_stores, stopped, worker_directories
from app.errors import Crash, Unreachable, UsageError
from app.kafka.reset import Clearing, Retractions
from app.kafka.scan import Scanner
from app.progress import progress
from app.rights import missing, missing_on_group, to_reset
from app.rows import counted
from app.status import last_checkpoints
from app.steps import Reached, nobody
from app.topics import missing_input, names, unequal
from rebalance.moving import since
from schemas.match_id import RESULT_KEYS
from schemas.records import Side
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from app.config import Config
    from app.kafka.cluster import Extent, Member, Topic
    from app.kafka.reset import Retraction
    from app.kafka.scan import Read

RETRACTIONS_MAX: Final = 10_000
"""Tombstones of one transaction."""


class Scope(NamedTuple):
    """What a reset is about, as it was found."""

    topics: Mapping[str, Topic]
    """Those of the job's topics that exist, by name."""
    lanes: int
    stores: Sequence[Path]
    """The lane stores on this machine."""


def reset(config: Config, *, dry_run: bool, reached: Reached = nobody) -> Iterator[str]:
    """Take everything away, or only look; yields a line for each thing that went, or would go.

    `reached` is told of every step. Raises UsageError where workers are alive or the topics stand
    in the way; then nothing was changed, unless the line says otherwise.
    """
    with ExitStack() as stack:
        cluster = Clearing(config)
        members = cluster.members(config.name)
        if members and not dry_run:
            raise UsageError(alive(config, members))
        scope = Scope(*_topics(config, cluster), _stores(config, stack, dry_run=dry_run))
        _refuse_resharded(config, cluster, scope)
        scanner = Scanner(config)
        stack.callback(scanner.close)
        if dry_run:
            yield from _told(config, cluster, scanner, scope)
            yield "nothing was changed: this was a dry run"
            if members:
                yield f"without --dry-run: {alive(config, members)}"
            return
        yield from _done(config, cluster, scanner, scope, reached)


def alive(config: Config, members: Sequence[Member]) -> str:
    """What is said of a group that has members."""
    names = ", ".join(sorted(f"{member.client_id} ({member.host})" for member in members))
    return (
        f"workers of {config.name} are alive: {names}; stop them first (one that was killed counts "
        f"until its session ends)"
    )


def problems(config: Config, topics: Mapping[str, Topic]) -> list[str]:
    """What a person must mend before a reset can do any good. Pure."""
    inputs = [config.side(side).topic for side in Side]
    missing = [missing_input(config, side) for side in Side if inputs[side] not in topics]
    if missing:
        return missing
    left, right = (topics[topic].partitions for topic in inputs)
    if left != right:
        return [unequal(config, left, right)]
    found = []
    for topic in (config.changelog_topic, config.rejects_topic):
        if topic not in topics:
            continue
        if topics[topic].partitions > left:
            found.append(
                f"topic {topic} has {topics[topic].partitions} partitions, but the inputs have "
                f"{left}, and none can be taken away: delete that topic, then run the reset again"
            )
        if "delete" not in topics[topic].settings.get("cleanup.policy", "delete"):
            found.append(
                f"topic {topic} is compacted, so its records cannot be deleted: set its "
                f"cleanup.policy to delete"
            )
    return found


def _topics(config: Config, cluster: Clearing) -> tuple[dict[str, Topic], int]:
    topics = cluster.topics(names(config).values())
    if found := problems(config, topics):
        raise UsageError("; ".join(found))
    lanes = topics[config.left.topic].partitions
    lacking = missing(names(config), topics, to_reset(names(config), topics, lanes))
    if lacking := [*lacking, *missing_on_group(config.name, cluster.group_rights(config.name))]:
        raise UsageError("; ".join(lacking))
    return topics, lanes


def _refuse_resharded(config: Config, cluster: Clearing, scope: Scope) -> None:
    """Raise UsageError where a run from the inputs' beginning would find keys in two lanes."""
    changelog = scope.topics.get(config.changelog_topic)
    if changelog is None:
        return
    try:
        extents = cluster.extents(config.changelog_topic, changelog.partitions)
        checkpoints = last_checkpoints(config, extents)
    except Unreachable:
        raise
    except Crash:
        return  # A record that cannot be read: a reset is what mends it.
    if any(one is not None and one.resharding for one in checkpoints):
        raise UsageError(
            "a reshard of this job was begun and did not end: run `spanjoin reshard` again first"
        )
    for side in Side if config.start == "earliest" else ():
        topic = config.side(side).topic
        inputs = cluster.extents(topic, scope.lanes)
        for lane, one in enumerate(checkpoints[: scope.lanes]):
            if one is not None and inputs[lane].start < since(one, side):
                raise UsageError(
                    f"{config.name} was resharded, and topic {topic} still holds records of "
                    f"before: a run from the beginning would find keys in two lanes; start with "
                    f'start = "latest", or copy both inputs by key into new topics'
                )


def _stores(config: Config, stack: ExitStack, *, dry_run: bool) -> list[Path]:
    """The lane stores on this machine, whose directories no worker may take until the end."""
    found = []
    for directory in worker_directories(config.state.dir):
        if not dry_run:
            stack.enter_context(stopped(directory))
        found += [path for _, path in lane_stores(directory)]
    return found


def _told(config: Config, cluster: Clearing, scanner: Scanner, scope: Scope) -> Iterator[str]:
    """What would go."""
    yield _group_line(config, scope)
    for topic in (config.changelog_topic, config.rejects_topic):
        if topic in scope.topics:
            yield _records_line(topic, cluster.extents(topic, scope.topics[topic].partitions))
    if config.output.topic in scope.topics:
        extents = cluster.extents(config.output.topic, scope.topics[config.output.topic].partitions)
        live = sum(len(found) for found in live_matches(config, scanner, extents))
        yield _matches_line(config, live)
    yield from (f"store {path}" for path in scope.stores)


def _done(
    config: Config, cluster: Clearing, scanner: Scanner, scope: Scope, reached: Reached
) -> Iterator[str]:
    """Do it, step by step."""
    retractions = Retractions(config)
    cluster.hold((config.side(side).topic, lane) for side in Side for lane in range(scope.lanes))
    reached("held")
    changelog = scope.topics.get(config.changelog_topic)
    if changelog is not None:
        cluster.fence(range(changelog.partitions))
        reached("fenced")
    yield from _emptied(config.changelog_topic, cluster, scope)
    reached("emptied")
    if config.output.topic in scope.topics:
        extents = cluster.extents(config.output.topic, scope.topics[config.output.topic].partitions)
        count = 0
        for partition, live in enumerate(live_matches(config, scanner, extents)):
            for some in _portions(live):
                retractions.send(partition, some)
                reached("sent")
                retractions.commit()
                reached("retracted")
            count += len(live)
        yield _matches_line(config, count)
    yield from _emptied(config.rejects_topic, cluster, scope)
    for path in scope.stores:
        LaneStore.destroy(path)
        yield f"store {path}"
    reached("cleared")
    cluster.let_go()
    yield _group_line(config, scope)
    yield f"the next run begins at the {config.start} records of the inputs"


def _emptied(topic: str, cluster: Clearing, scope: Scope) -> Iterator[str]:
    """Delete all records of a topic of ours, and give it as many partitions as there are lanes."""
    found = scope.topics.get(topic)
    if found is None:
        return
    extents = cluster.extents(topic, found.partitions)
    cluster.empty(topic, {lane: extent.end for lane, extent in enumerate(extents)})
    if found.partitions < scope.lanes:
        cluster.grow(topic, scope.lanes)
    yield _records_line(topic, extents)


def live_matches(
    config: Config, scanner: Scanner, extents: Sequence[Extent]
) -> Iterator[dict[bytes, int]]:
    """The live matches of one output partition after the other: match id -> timestamp in ms."""
    topic = config.output.topic
    total = sum(extent.end - extent.start for extent in extents)
    done = 0
    with progress(f"reading {topic}", total) as advance:
        for partition, extent in enumerate(extents):
            live: dict[bytes, int] = {}
            for batch in scanner.scan(topic, partition, extent.start, extent.end):
                for record in batch:
                    _apply(live, record)
                if batch:
                    advance(done + batch[-1].offset - extent.start)
            done += extent.end - extent.start
            yield live


def _apply(live: dict[bytes, int], record: Read) -> None:
    if record.key is None or not record.key.startswith(RESULT_KEYS):
        return
    if record.value is None:
        live.pop(record.key, None)
    else:
        live[record.key] = record.timestamp_ms


def _portions(live: Mapping[bytes, int]) -> Iterator[list[Retraction]]:
    waiting = list(live.items())
    for start in range(0, len(waiting), RETRACTIONS_MAX):
        yield waiting[start : start + RETRACTIONS_MAX]


def _group_line(config: Config, scope: Scope) -> str:
    return f"group {config.name}: the offsets of {scope.lanes} lanes"


def _records_line(topic: str, extents: Sequence[Extent]) -> str:
    return f"topic {topic}: {sum(one.end - one.start for one in extents):,} offsets of records"


def _matches_line(config: Config, count: int) -> str:
    return f"topic {config.output.topic}: {counted(count, 'live match')}, a tombstone for each"
