"""Bugs to plant: each breaks one rule of the design, in the production code itself.

A mutation replaces pieces of functions' sources, compiles them, and swaps the functions' code, so
every module that has imported a function gets it. A piece that is not there any more is an error:
the table cannot rot in silence.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import app.join
import app.ownership
import app.process
import app.unmatched
import rebalance.fence
import state.watermark
from app.kafka.inputs import Inputs
from app.kafka.transactions import Transactions
from app.starvation import Starvation
from app.worker import Worker
from schemas.records import JoinType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

    from tests.simulation.options import Options


@dataclass(frozen=True)
class Edit:
    """One piece of a function's source and what stands there instead."""

    function: Callable[..., Any]
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """A planted bug."""

    name: str
    edits: tuple[Edit, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the seeds must have in common, where it would take thousands of them to show it."""

    def change(self, options: Options) -> None:
        """Set the options."""
        for name, value in self.options.items():
            setattr(options, name, value)

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Until the patch is undone."""
        for function in {id(edit.function): edit.function for edit in self.edits}.values():
            edits = [edit for edit in self.edits if edit.function is function]
            patch.setattr(function, "__code__", mutated(function, edits))


LATE_ENDS: Final[Mapping[str, Any]] = {
    "late_end": 0.7,
    "twice": True,
    "disorder": 5,
    "idle": False,
    "lose_end": 0.0,
    "trouble_s": 10.0,
    "faults": ("crash", "bump", "expel", "expel"),
}
LATE_AND_SLOW: Final[Mapping[str, Any]] = {
    **LATE_ENDS,
    "late_end": 0.9,
    "faults": ("bump",),
    "fault_every_s": 0.3,
    "slow_every": 0.1,
    "slow_s": 0.3,
    "lanes": 2,
    "workers": 2,
    "events": 22,
    "max_records": 1,
}
MOVES: Final[Mapping[str, Any]] = {
    "faults": ("bump", "expel", "stop"),
    "fault_every_s": 0.8,
    "trouble_s": 10.0,
    "lanes": 2,
    "workers": 2,
    "events": 22,
    "max_records": 1,
}
SLOW_MOVES: Final[Mapping[str, Any]] = {
    **MOVES,
    "slow_every": 0.3,
    "slow_s": 1.0,
}
FULL_DISKS: Final[Mapping[str, Any]] = {
    "faults": ("full", "stop", "stop"),
    "fault_every_s": 0.8,
    "trouble_s": 8.0,
    "workers": 2,
}


def asleep(moment: str, **more: Any) -> Mapping[str, Any]:
    """Workers sleep at this moment for longer than a session."""
    return {
        "sleep_at": moment,
        "faults": ("sleep", "sleep", "expel"),
        "fault_every_s": 0.8,
        "trouble_s": 10.0,
        "workers": 2,
        "questions": True,
        **more,
    }


def mutated(function: Callable[..., Any], edits: list[Edit]) -> Any:
    """The code of a function with these pieces of its source replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        found = source.count(edit.old)
        assert found == 1, f"{function.__qualname__} has {found} times {edit.old!r}"
        source = source.replace(edit.old, edit.new)
    filename = inspect.getsourcefile(function) or "mutated"
    flags = __future__.annotations.compiler_flag
    namespace: dict[str, Any] = {}
    exec(compile(source, filename, "exec", flags=flags), function.__globals__, namespace)
    return namespace[function.__name__].__code__


NEW_NAME: Final = 'f"{self._name}-{uuid.uuid4()}"'
STORED: Final = "    stored = authority.stored(survey.lane)\n"
BOUND: Final = "    changelog = authority.changelog(survey.lane)\n"
OUTPUTS: Final = "        for write in writes:\n"
EARLY: Final = """\
        records = {write.lane: write.changelog() for write in writes}
        self.early = self._changelog(live, kind, records, time.monotonic() + ENDS_WITHIN_S)
"""
FLUSH: Final = "            _flush(producer, until)\n"
CHANGELOG: Final = "        written = self._changelog(live, kind, records, until)\n"
OFFSETS: Final = '        self._passed(live, f"{kind}.offsets")\n'

READ_AGAIN: Final = """\
from app.process import resumed
from schemas.records import Side
store = self.lanes[running.lane].opened
running.state = resumed(None, store, self.layout)
running.drained, running.held = [False] * 2, [False] * 2
running.__post_init__()
for side in Side:
    self.inputs.flow(side, running.lane, running.positions[side])
"""

OUTER_AS_INNER: Final = "reached(lone.decided, horizon), 1"

EXPECTED: Final = "        self._expect_end(live, writes, written)\n"
ANYWHERE: Final = Edit(Transactions._expect_end, "if write.after is not None and", "if False and")

UNDOUBTING: Final = (
    Edit(Transactions.begin, "if self.doubt is not None:", "if False:"),
    Edit(Worker._round, "self._renew or self.transactions.doubt", "self._renew"),
)
"""A producer is used again although its connection broke: only then a late EndTxn finds anything.

Where rows are never late that does no harm but to write some outputs twice.
"""

MUTATIONS: Final = (
    Mutation(
        "restore ends at the last stable offset, nobody is fenced, a claim counts anywhere",
        (
            ANYWHERE,
            Edit(rebalance.fence._suspects, "frozenset(suspects) - survey.own", "frozenset()"),
            Edit(rebalance.fence.fence_tail, "if stamps and not", "if False and not"),
            Edit(
                rebalance.fence.establish,
                BOUND,
                BOUND.replace(
                    "authority.changelog(survey.lane)", "Extent(0, authority.stable(survey.lane))"
                ),
            ),
        ),
        options=asleep("turn.offsets"),
    ),
    Mutation(
        # Alone it does no harm: the changelog is flushed before the offsets are sent, so whatever
        # may still be committed is below the high watermark already.
        "high watermark is read before the stored offsets, and the changelog follows the offsets",
        (
            Edit(Transactions.end, CHANGELOG, ""),
            Edit(Transactions.end, EXPECTED, ""),
            Edit(Transactions.end, OFFSETS, OFFSETS + CHANGELOG),
            Edit(rebalance.fence.establish, STORED + BOUND, BOUND + STORED),
        ),
        options=asleep("claim.offsets"),
    ),
    Mutation(
        "store is written before the commit",
        (
            Edit(
                Worker.commit,
                "    written = self._write(",
                "    for plan in plans:\n"
                "        store = self.lanes[plan.lane].opened\n"
                "        store.apply(plan.rows, plan.buckets, plan.checkpoint, store.position)\n"
                "    written = self._write(",
            ),
        ),
    ),
    Mutation(
        "changelog is written before the outputs",
        (
            *UNDOUBTING,
            Edit(Transactions.begin, OUTPUTS, EARLY + OUTPUTS),
            Edit(Transactions.end, CHANGELOG, "        written = self.early\n"),
        ),
        options=LATE_ENDS,
    ),
    Mutation(
        "outputs are not flushed before the changelog",
        (*UNDOUBTING, Edit(Transactions.end, FLUSH, "")),
        options=LATE_AND_SLOW,
    ),
    Mutation(
        "new producer without a new takeover",
        (
            Edit(
                Worker._start_over,
                "for number in list(self.running):",
                "for running in self.running.values():\n"
                + textwrap.indent(READ_AGAIN, " " * 8)
                + "    for number in ():",
            ),
            Edit(Worker._start_over, "for lane in self.lanes.values():", "for lane in ():"),
        ),
    ),
    Mutation(
        "a producer is used again after an abort",
        (
            *UNDOUBTING,
            Edit(Transactions._counts_for_nothing, " and not live.listener.heard", ""),
        ),
        options=LATE_ENDS,
    ),
    Mutation(
        "memory is used on although the turn was committed after all",
        (
            Edit(
                app.process.resumed,
                "if kept is not None and kept.checkpoint == checkpoint:",
                "if kept is not None:",
            ),
        ),
    ),
    Mutation(
        "a turn that failed stays in memory",
        (Edit(app.process.abandon_turn, "abandon(state, plan.effects)", "pass"),),
    ),
    Mutation(
        "one transactional id for all workers",
        (Edit(Transactions.prepare, NEW_NAME, "self._name"),),
    ),
    Mutation(
        "a worker's transactional id is used again",
        (Edit(Transactions.prepare, NEW_NAME, f"{NEW_NAME}[:6]"),),
    ),
    Mutation(
        "group metadata is read once and kept",
        (
            Edit(
                Inputs.metadata,
                "return bytes(metadata)",
                "self._topics = (*self._topics, bytes(metadata))\n    return self._topics[2]",
            ),
        ),
    ),
    Mutation(
        "retention does not count the turn's own rows",
        (
            Edit(
                app.join.join,
                "dropped = droppable(directory,",
                "dropped = droppable({number: entry._replace(longest=lane.buckets[number].longest "
                "if number in lane.buckets else 0) for number, entry in directory.items()},",
            ),
        ),
        options={"edges": True, "max_records": 8},
    ),
    Mutation(
        "an outer join keeps rows no longer than an inner one",
        (Edit(app.join.join, "reached(lone.decided, horizon), OUTER_REACH", OUTER_AS_INNER),),
        options={"edges": True, "join": JoinType.FULL},
    ),
    Mutation(
        "a row is written as unmatched while something can still match it",
        (Edit(app.unmatched.unmatched, "watermark - settings.lateness -", "watermark -"),),
        options={"join": JoinType.FULL},
    ),
    Mutation(
        "what was decided about is not remembered over a renewal",
        (Edit(app.process.resumed, ", store.due, decided)", ', store.due, b"")'),),
        options={"join": JoinType.FULL},
    ),
    Mutation(
        "a row that is still to be decided about is written when it loses its match",
        (
            Edit(app.unmatched._bereft, "if row[0] > edge:", "if False:"),
            Edit(app.unmatched._bereft, "entry < lane.decided and not", "not"),
        ),
        options={"join": JoinType.FULL},
    ),
    Mutation(
        "a watermark may fall",
        (
            Edit(
                app.ownership.claim,
                "released=False,\n        layout=replace(",
                "released=False,\n        watermarks=Watermarks(),\n        layout=replace(",
            ),
        ),
    ),
    Mutation(
        "the last checkpoint is truncated",
        (
            Edit(
                app.process.truncation_point,
                "return min([*firsts, running.changelog_first])",
                "return min(firsts, default=running.changelog_position)",
            ),
        ),
    ),
    Mutation(
        "rows are truncated",
        (
            Edit(
                app.process.truncation_point,
                "return min([*firsts, running.changelog_first])",
                "return running.changelog_first",
            ),
        ),
    ),
    Mutation(
        "a pause is not lifted when a lane goes",
        (
            Edit(Inputs.stop, "self._consumers[Side.RIGHT].resume(right)", "pass"),
            # It would be noticed, and mended, a quarter of a minute later.
            Edit(Starvation._judge, "before, self._silent", "return\n    before, self._silent"),
        ),
        options=MOVES,
    ),
    Mutation(
        "left partitions are assigned at their end",
        (Edit(Inputs._on_assign, "p.partition, _NOWHERE)", "p.partition, -1)"),),
        options=SLOW_MOVES,
    ),
    Mutation(
        "a lane's watermark follows an idle side that returns",
        (Edit(state.watermark.watermarks_of, "lane = max(lane, lower)", "lane = lower"),),
    ),
    # What the simulator has found, planted again.
    Mutation(
        "a fence during a flush is not understood",
        (Edit(Transactions.end, "except TROUBLES as", "except (KafkaException, BufferError) as"),),
        options=asleep("turn.flushed"),
    ),
    Mutation(
        "lanes are released although a store could not be written",
        (Edit(Worker.close, "self.running.clear()", "pass"),),
        options=FULL_DISKS,
    ),
    Mutation(
        "a producer is used again although its connection broke in a commit",
        UNDOUBTING,
        options={**LATE_ENDS, "twice": False},
    ),
)
