"""`reshard`: give a job more lanes, and its state with them.

The lane of a key is a hash modulo the number of partitions, so more partitions send the records of
most keys elsewhere than where their rows are. The steps, each of which can be done twice:

1. drain: a worker of the command's own takes what was written under the old layout, brings lanes
   whose keys will share one to the same watermark, and releases them all (`app.drain`).
2. hold: as a reset does, with an offset of its own; then former owners are fenced.
3. look: the state is read from the changelog and audited; each key must be where the partitioner
   puts it.
4. raise the inputs' partitions. Did more come under the old layout meanwhile: back to step 1.
5. mark every lane in the changelog. No worker goes on from a marked lane, whatever becomes of the
   hold.
6. raise changelog and rejects, and write the new lanes (`app.moving`). What is written is marked,
   too, and the first record of each drops whatever was in that partition before.
7. check what was written; then one transaction over all lanes takes the marks away: the switch.
8. let go: the group is deleted, with the offsets of step 2.

Killed before step 5, the next reshard begins at step 1. Killed after it, it begins at step 6, with
the state of before the marks, which is in the changelog still; after the switch, at step 8.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from app.drain import drain
from app.errors import UsageError
from app.kafka.reshard import Mover
from app.layouts import Job, Request
from app.moving import Former, Move, former_of, read_states, scratch
from app.reset import alive
from app.steps import Reached, nobody
from app.verify import Changelog
from app.writes import RECORD_SPARE_BYTES
from rebalance.lanes import RESHARDING
from rebalance.moving import marked
from state.checkpoint import Watermarks, encode_turn

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from app.config import Config
    from app.layouts import Checkpoints
    from app.leftovers import Border, Placing
    from app.moving import State
    from schemas.records import Side

__all__ = ["Request", "reshard"]

DRAINS_MAX: Final = 3
"""How often what came meanwhile is taken, before a person is told to stop the producers."""


def reshard(
    config: Config, request: Request, *, dry_run: bool, reached: Reached = nobody
) -> Iterator[str]:
    """Do it, or only look; yields a line for each thing that was done, or would be.

    `reached` is told of every step. Raises UsageError where workers are alive or something stands
    in the way, Crash where running it again may help.
    """
    with ExitStack() as stack:
        job = Job(config, request, reached)
        stack.callback(job.scanner.close)
        members = job.cluster.members(config.name)
        if members and not dry_run:
            raise UsageError(alive(config, members))
        job.check_topics()
        # Whoever is at it still is thrown out now, and what it had open is decided.
        mover = None if dry_run else Mover(config, job.record_bytes_max + RECORD_SPARE_BYTES)
        checkpoints = job.checkpoints()
        job.check(checkpoints)
        begun = any(one is not None and one.resharding for one in checkpoints)
        if mover is None:
            yield from _told(job, checkpoints, begun=begun)
            yield "nothing was changed: this was a dry run"
            if members:
                yield f"without --dry-run: {alive(config, members)}"
        elif job.lanes == request.partitions and not begun:
            yield from _ended(job)
        else:
            directory = stack.enter_context(scratch(config.state.dir))
            steps = _resumed if begun else _begun
            yield from steps(job, checkpoints, mover, directory)


def _ended(job: Job) -> Iterator[str]:
    """The job has that many lanes; all that may be missing is step 8."""
    if job.cluster.held():
        job.cluster.let_go()
        yield f"a reshard to {job.lanes} partitions had only its last step to do; it is done"
        yield from _rest(job)
    else:
        yield f"{job.config.name} has {job.lanes} lanes already: nothing to do"


def _told(job: Job, checkpoints: Checkpoints, *, begun: bool) -> Iterator[str]:
    """What would be done."""
    wanted = job.request.partitions
    if begun:
        yield f"a reshard to {wanted} partitions was begun, and would go on"
        return
    if job.lanes == wanted:
        yield f"{job.config.name} has {wanted} lanes already"
        return
    placing, said = job.placing(checkpoints, job.lanes)
    yield said
    unread = job.unread(checkpoints, job.lanes)
    for (side, lane), border in job.borders(placing, checkpoints).items():
        _refuse_mixed(job, side, border)
        start = unread[side, lane].start
        yield f"{job.inputs[side]} partition {lane}: take offsets {start} to {border.cut}"
    for topic in job.lanewise:
        if job.topics[topic].partitions < wanted:
            yield f"topic {topic}: {job.topics[topic].partitions} to {wanted} partitions"
    rows = sum(one.rows for one in checkpoints if one is not None)
    yield f"state: {rows:,} rows, and those to come, from {job.lanes} to {wanted} lanes"
    if jumped := job.jumps(
        [Watermarks() if one is None else one.watermarks for one in checkpoints]
    ):
        yield f"{jumped}: unless the lanes catch up, --accept-late is needed"


def _begun(job: Job, checkpoints: Checkpoints, mover: Mover, directory: Path) -> Iterator[str]:
    """All steps."""
    placing, said = job.placing(checkpoints, job.lanes)
    yield said
    states = yield from _prepared(job, placing, mover, directory)
    epoch = 1 + max(state.checkpoint.epoch for state in states)
    marks = [
        marked(state.checkpoint, epoch, mover.writer, job.request.partitions) for state in states
    ]
    mover.write(
        {lane: encode_turn(mark, {}, {}, job.record_bytes_max) for lane, mark in enumerate(marks)}
    )
    job.reached("marked")
    move = Move(states, mover, placing, job.record_bytes_max)
    yield from _moved(job, move, [], epoch + 1, directory)


def _resumed(job: Job, checkpoints: Checkpoints, mover: Mover, directory: Path) -> Iterator[str]:
    """Steps 6 to 8, after a reshard that did not come to its end."""
    yield f"a reshard to {job.request.partitions} partitions was begun: it goes on"
    changelog = Changelog(job.config)
    try:
        formers = [former_of(changelog, lane) for lane in range(job.lanes)]
        before = sum(not former.empty for former in formers)
        placing, said = job.placing(checkpoints[:before], before)
        yield said
        states = read_states(changelog, directory, formers, placing)
    finally:
        changelog.close()
    move = Move(states, mover, placing, job.record_bytes_max)
    yield from _moved(job, move, formers, 1 + max(former.epoch for former in formers), directory)


def _prepared(
    job: Job, placing: Placing, mover: Mover, directory: Path
) -> Generator[str, None, list[State]]:
    """Steps 1 to 4; returns the lanes' states, which nobody changes any more."""
    cluster = job.cluster
    if cluster.held():
        cluster.let_go()  # Whoever held it has not come as far as to mark a lane.
    for _ in range(DRAINS_MAX):
        found = job.borders(placing, job.checkpoints())
        for (side, _lane), border in found.items():
            _refuse_mixed(job, side, border)
        drain(job.config, {place: one.cut for place, one in found.items()}, job.level, job.reached)
        job.reached("drained")
        _hold(job)
        cluster.fence(range(placing.before), own=mover.writer)
        job.reached("held")
        states = _read(job, placing, directory)
        for topic in job.inputs:
            if cluster.raise_to(topic, job.request.partitions):
                yield f"topic {topic}: {job.request.partitions} partitions"
        _hold(job)
        job.reached("raised")
        left = job.borders(placing, [state.checkpoint for state in states])
        if not any(border.old for border in left.values()):
            yield f"everything that was written to {placing.before} partitions is taken"
            return states
        cluster.let_go()
    raise UsageError(
        f"records are still written to {' and '.join(job.inputs)} as if there were "
        f"{placing.before} partitions: stop their producers, then run the reshard again"
    )


def _hold(job: Job) -> None:
    """Keep workers from every partition that the inputs have now."""
    topics = job.cluster.topics(job.inputs)
    places = [(name, lane) for name in job.inputs for lane in range(topics[name].partitions)]
    job.cluster.hold(places, RESHARDING)


def _read(job: Job, placing: Placing, directory: Path) -> list[State]:
    """Step 3. Where a person must decide the job is as it was before."""
    changelog = Changelog(job.config)
    try:
        ends = [changelog.extent(lane).end for lane in range(placing.before)]
        formers = [Former(end, frozenset(), empty=False, epoch=0) for end in ends]
        return read_states(changelog, directory, formers, placing)
    except UsageError:
        job.cluster.let_go()
        raise
    finally:
        changelog.close()


def _refuse_mixed(job: Job, side: Side, border: Border) -> None:
    if border.mixed:
        raise UsageError(
            f"{job.inputs[side]} partition {border.partition} has records of both numbers of "
            f"partitions, mixed from offset {border.first_new} to {border.cut - 1}: its producers "
            f"learnt of the new partitions at different times, and rows of one key are in two "
            f"lanes. Copy both inputs by key into new topics, and start a new job there"
        )


def _moved(
    job: Job, move: Move, formers: Sequence[Former], epoch: int, directory: Path
) -> Iterator[str]:
    """Steps 6 to 8, of this epoch; `formers` are those of lanes that have seen an attempt."""
    config, wanted = job.config, job.request.partitions
    for topic in job.lanewise:
        if job.cluster.raise_to(topic, wanted):
            yield f"topic {topic}: {wanted} partitions"
    job.reached("grown")
    move.mover.await_partitions(wanted)
    move.open(_positions(job, move), formers, epoch)
    job.reached("opened")
    changelog = Changelog(config)
    try:
        rows = move.rows(changelog, job.reached)
        job.reached("written")
        extents = job.cluster.extents(config.changelog_topic, wanted)
        move.check(changelog, directory, [extent.end for extent in extents])
    finally:
        changelog.close()
    job.reached("checked")
    yield from _stranded(job, move)
    move.close()
    job.reached("switched")
    yield (
        f"state: {rows:,} rows moved from {len(move.states)} to {wanted} lanes; counts and digests "
        f"agree"
    )
    job.cluster.let_go()
    job.reached("let go")
    yield from _rest(job)


def _positions(job: Job, move: Move) -> list[tuple[int, int]]:
    """Where the new lanes go on in the inputs: new partitions from their beginning."""
    lefts, rights = (job.cluster.extents(topic, job.request.partitions) for topic in job.inputs)
    positions = [(left.start, right.start) for left, right in zip(lefts, rights, strict=True)]
    for lane, state in enumerate(move.states):
        positions[lane] = state.checkpoint.left_position, state.checkpoint.right_position
    return positions


def _stranded(job: Job, move: Move) -> Iterator[str]:
    """What came under the old layout after the last look: nobody can join it with its key's."""
    checkpoints = [state.checkpoint for state in move.states]
    for (side, lane), border in job.borders(move.placing, checkpoints).items():
        if border.old:
            yield (
                f"warning: {job.inputs[side]} partition {lane}: {border.old} records up to offset "
                f"{border.cut - 1} were still placed by the old number of partitions; they will "
                f"not meet the rows of their keys: send them again"
            )


def _rest(job: Job) -> Iterator[str]:
    """What else must be done."""
    yield (
        f"now restart the producers of {' and '.join(job.inputs)}, unless they were stopped: until "
        f"they look at the topics again (metadata.max.age.ms, 5 min by default) they place keys by "
        f"the old number of partitions"
    )
    yield "then start the workers: `spanjoin run`; up to one for each lane finds work"
    yield (
        "readers of the output need nothing; whatever else counts on the inputs' partitions must "
        "be told"
    )
