"""The comparison from the cluster's answers to what a person is told.

Compared is what is committed: the inputs up to the positions of each lane's last checkpoint, with
the output as it is. If a checkpoint has moved on meanwhile, nothing can be said.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from app.checking.tables import Tables
from app.comparison import compare, differences
from app.effects import MATCH_OVERHEAD
from app.errors import Crash, UsageError
from app.formats import make_codec
from app.kafka.cluster import Cluster
from app.kafka.rejects import reject_of
from app.kafka.scan import Scanner
from app.progress import progress
from app.rows import printable
from app.status import last_checkpoints
from app.topics import names
from rebalance.moving import since
from schemas.codec import UnknownSchema
from schemas.match_id import RESULT_KEYS
from schemas.records import Fault, JoinType, Side, event_of
from state.due import end_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.checking.tables import Expected
    from app.config import Config
    from app.kafka.cluster import Extent, Topic
    from app.kafka.scan import Read, Span
    from schemas.codec import Codec
    from schemas.records import Event
    from state.checkpoint import Checkpoint

T = TypeVar("T")

FAULTS: Final = ("missing", "stale", "extra", "twice")
"""Of `app.comparison`: what a person would call a difference. An output may have been compacted, so
of a match that has gone nothing need be left."""
WRONG: Final = "wrong"
_BYTES_MAX: Final = "max.message.bytes"
_POLICY: Final = "cleanup.policy"


@dataclass
class Verdict:
    """How the output compares: counts of matches, differences by name, what else is to be known."""

    expected: int = 0
    live: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    examples: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not any(self.faults.values())


def check_output(config: Config, limit: int) -> Verdict:
    """Compare; `limit` differences of each kind are named.

    Raises Unreachable, UsageError where a topic is missing, Crash where the job went on meanwhile.
    """
    cluster = Cluster(config)
    topics = cluster.topics(names(config).values())
    for what, name in names(config).items():
        if name not in topics:
            raise UsageError(f'{what} "{name}" does not exist: there is nothing to compare')
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="spanjoin-"))
        tables = Tables(Path(directory) / "check.duckdb")
        stack.callback(tables.close)
        scanner = Scanner(config)
        stack.callback(scanner.close)
        check = _Check(config, cluster, topics, scanner, tables)
        return check.run(limit)


@dataclass
class _Check:
    config: Config
    cluster: Cluster
    topics: dict[str, Topic]
    scanner: Scanner
    tables: Tables
    verdict: Verdict = field(default_factory=Verdict)
    whole: bool = True
    """Whether the inputs still hold all that the job may have read."""
    codec: Codec = field(init=False)

    def __post_init__(self) -> None:
        self.codec = make_codec(self.config)

    def run(self, limit: int) -> Verdict:
        """Read, join, compare."""
        before = self._checkpoints()
        for side in JoinType(self.config.join.type).preserved:
            decided = {lane: one.decided for lane, one in enumerate(before) if one and one.decided}
            self.tables.add_due(side, {lane: end_of(entry) for lane, entry in decided.items()})
        for side in Side:
            self._read_input(side, before)
        self._read_rejects()
        self._read_output()
        if _moving(self._checkpoints()) != _moving(before):
            raise Crash("the job went on while it was looked at: ask again when it has read all")
        output = self.topics[self.config.output.topic]
        room = int(output.settings[_BYTES_MAX]) - MATCH_OVERHEAD
        begun_late = self.config.start == "latest"
        self.tables.join(self.config.max_interval, room, begun_late=begun_late)
        self._compare(limit)
        self._compare_values(limit)
        self._note(
            self.tables.either(),
            "matches may stand or not: a retraction carries another interval than its row, an id "
            "was used again, or nobody can say if the job had begun",
        )
        self._note(
            self.tables.apart(),
            "keys are in other partitions on the left than on the right, so their rows never meet: "
            "see spanjoin doctor",
        )
        return self.verdict

    def _compare(self, limit: int) -> None:
        """Which matches are there, and which should be."""
        found = compare(self.tables.database)
        verdict = self.verdict
        verdict.expected, verdict.live = found.expected, found.live
        verdict.faults = {name: found.faults[name] for name in FAULTS}
        if not self.whole:
            known = self.tables.extra_of_known_rows()
            self._note(
                verdict.faults["extra"] - known,
                "live matches have rows that the inputs no longer hold: they were left out",
            )
            verdict.faults["extra"] = known
        named = [name for name, count in verdict.faults.items() if count]
        verdict.examples = [
            (name, _readable(match))
            for name, match in differences(self.tables.database, limit, named)
        ]

    def _compare_values(self, limit: int) -> None:
        """Whether the matches that are rightly there are what their rows make of them."""
        wrong = 0
        for match, candidates, value in self.tables.matches():
            try:
                right = any(self._value(one) == value for one in candidates)
            except UnknownSchema as error:
                raise UsageError(f"{error}: give the schemas that they were written with") from None
            if not right:
                wrong += 1
                if wrong <= limit:
                    self.verdict.examples.append((WRONG, _readable(match)))
        self.verdict.faults[WRONG] = wrong

    def _value(self, result: Expected) -> bytes:
        start, end, left, right = result
        if left is not None and right is not None:
            return self.codec.match_value(start, end, left, right)
        side, value = (Side.RIGHT, right) if left is None else (Side.LEFT, left)
        assert value is not None, "a result is of one row at least"
        return self.codec.unmatched_value(side, start, end, value)

    def _note(self, count: int, text: str) -> None:
        if count:
            self.verdict.notes.append(f"{count} {text}")

    def _checkpoints(self) -> list[Checkpoint | None]:
        return last_checkpoints(self.config, self._extents(self.config.changelog_topic))

    def _extents(self, topic: str) -> list[Extent]:
        return self.cluster.extents(topic, self.topics[topic].partitions)

    def _read_input(self, side: Side, checkpoints: list[Checkpoint | None]) -> None:
        topic = self.config.side(side).topic
        extents = self._extents(topic)
        compacted = "compact" in self.topics[topic].settings.get(_POLICY, "")
        if self.config.start == "latest" or compacted:
            self.whole = False
        self.whole = self.whole and not any(extent.start for extent in extents)
        for extent, checkpoint in zip(extents, checkpoints, strict=False):
            if checkpoint is not None and extent.start < since(checkpoint, side):
                raise UsageError(
                    f"{self.config.name} was resharded, and topic {topic} still holds records of "
                    f"before, whose keys are in other partitions than those of after: such a "
                    f"history cannot be compared"
                )
        positions = [0 if one is None else _of_side(one, side) for one in checkpoints]
        positions += [0] * (len(extents) - len(positions))
        # To the end, although not all of it counts: markers have offsets, too, so the number of
        # records that are still to be joined is known by reading them only.
        spans = {lane: (start, stable) for lane, (start, stable, _) in enumerate(extents)}
        behind = 0
        for batch in self._shown(topic, spans, self.scanner.scan_all):
            taken = [read for read in batch if read.offset < positions[read.partition]]
            behind += len(batch) - len(taken)
            self.tables.add_events(side, self._decoded(side, taken))
        self._note(behind, f"records of {side.name.lower()} are not joined yet: they were left out")

    def _decoded(self, side: Side, batch: list[Read]) -> list[tuple[int, Event]]:
        """The events, each with its lane, of the records that are some."""
        parts = self.codec.decode_batch(side, [read.value for read in batch])
        return [
            (read.partition, event_of(read.offset, read.key, found, None))
            for read, found in zip(batch, parts, strict=True)
            if not isinstance(found, Fault)
        ]

    def _read_rejects(self) -> None:
        topic = self.config.rejects_topic
        sides = {self.config.side(side).topic: side for side in Side}
        extents = self._extents(topic)
        for batch in self._shown(topic, _whole_of(extents), self.scanner.scan_whole):
            found = [reject for read in batch if (reject := reject_of(read)) is not None]
            known = [reject for reject in found if reject.origin[0] in sides]
            self.tables.add_rejects((sides[reject.origin[0]], reject) for reject in known)
        self._note(
            sum(extent.start for extent in extents),
            "rejects are no longer in their topic: what they were of counts as taken, and its "
            "matches as missing",
        )

    def _read_output(self) -> None:
        topic = self.config.output.topic
        spans = _whole_of(self._extents(topic))
        others = 0
        for batch in self._shown(topic, spans, self.scanner.scan_all):
            ours = [read for read in batch if read.key and read.key.startswith(RESULT_KEYS)]
            others += len(batch) - len(ours)
            self.tables.add_log(ours)
        self._note(others, f"records of {topic} have keys that no result has: they were left out")

    def _shown(
        self,
        topic: str,
        spans: Mapping[int, Span],
        scan: Callable[[str, Mapping[int, Span]], Iterator[list[T]]],
    ) -> Iterator[list[T]]:
        """The batches of a scan, with a progress bar."""
        done = 0
        with progress(f"reading {topic}", sum(e - s for s, e in spans.values())) as advance:
            for batch in scan(topic, spans):
                yield batch
                done += len(batch)
                advance(done)


def _whole_of(extents: list[Extent]) -> dict[int, Span]:
    return {lane: (extent.start, extent.end) for lane, extent in enumerate(extents)}


def _of_side(checkpoint: Checkpoint, side: Side) -> int:
    return (checkpoint.left_position, checkpoint.right_position)[side]


def _moving(checkpoints: list[Checkpoint | None]) -> list[object]:
    """What of the checkpoints moves when something is written, other than by a change of owners."""
    return [
        one and (one.left_position, one.right_position, one.watermarks, one.decided)
        for one in checkpoints
    ]


def _readable(match: bytes) -> str:
    return printable(match.decode("utf-8", "backslashreplace"))
