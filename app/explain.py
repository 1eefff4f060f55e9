"""`explain`: why two rows did match, or did not, from the state and from the topics.

The owner of the lane is asked for what its state has. What it has no more is looked for in the
input and in the rejects, as far back from their ends as was asked for. Without a worker, the last
checkpoint has the watermark and the positions, and the topics have the rows. Where that does not
settle it, the output is asked whether it has the match.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.errors import Crash, UsageError
from app.explanation import Explanation, Why, explain, in_output
from app.formats import make_codec
from app.kafka.rejects import reject_of
from app.progress import progress
from app.query import Query, Search, patiently
from app.rows import SIDES
from app.sought import Refusal, Sighting, Sought, Terms
from app.status import last_checkpoint
from app.timeline import sought_in, terms_in
from app.topics import missing_input
from rebalance.moving import since
from schemas.match_id import match_id
from schemas.partition import lane_of
from schemas.records import Fault, Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from app.config import Config
    from app.kafka.cluster import Extent
    from app.kafka.rejects import Reject
    from app.kafka.scan import Read
    from schemas.codec import Codec
    from state.checkpoint import Checkpoint


_DOUBTFUL: Final = {Why.UNKNOWN, Why.OTHER_LANE}
"""What the output may contradict."""
_DOUBTFUL_IN_PART: Final = {Why.UNREAD, Why.REJECTED}
"""The same where not all was looked at: a record of the same id that was taken may be older."""


class Asked(NamedTuple):
    """Two rows of a key; `scan` is how many of the newest offsets of a partition are looked at."""

    key: bytes
    left: str
    right: str
    lane: int | None
    scan: int

    @property
    def pair(self) -> tuple[str, str]:
        """Both ids."""
        return self.left, self.right


class Looked(NamedTuple):
    """A part of a partition that was read, [start, end), and where the partition begins."""

    topic: str
    partition: int
    start: int
    end: int
    first: int


class State(NamedTuple):
    """What the lane says of the two rows: by its owner, or (`owner` None) its last checkpoint."""

    sought: tuple[Sought, Sought]
    terms: Terms
    positions: tuple[int, int]
    owner: str | None
    reason: str = ""
    """Why no owner was asked."""


class Explained(NamedTuple):
    """What is told: the explanation, whose state it is of, and what was read."""

    explanation: Explanation
    state: State
    looked: list[Looked]


def explain_pair(config: Config, asked: Asked) -> Explained:
    """Find out why. Raises UsageError, Crash."""
    topics = _Topics(config, asked)
    try:
        state = topics.state()
        if not all(sought.stored for sought in state.sought):
            topics.look_for_reshards()
        rejects, too_large = topics.rejects()
        for sought in state.sought:
            topics.look(sought, rejects, state.positions[sought.side])
        explanation = explain(*state.sought, state.terms, too_large)
        partly = any(sought.older or sought.gone for sought in state.sought)
        if explanation.why in _DOUBTFUL or (explanation.why in _DOUBTFUL_IN_PART and partly):
            explanation = topics.asked_of_output(explanation)
        return Explained(explanation, state, topics.looked)
    finally:
        topics.close()


@dataclass(slots=True)
class _Topics:
    """The topics of a job.

    Their ends are found in an order in which no record can be taken for accepted that was rejected
    meanwhile: the inputs', then the position of the join, then the rejects'.
    1. A record is in the input. The rejects are read to their end.
    2. The join rejects it; that and the position behind it are one transaction.
    3. The position is read: it was taken, and nothing says that it was rejected.
    """

    config: Config
    asked: Asked
    looked: list[Looked] = field(default_factory=list)
    _search: Search = field(init=False)
    _codec: Codec = field(init=False)
    _extents: dict[str, list[Extent]] = field(init=False)
    _checkpoints: list[Checkpoint | None] = field(default_factory=list)
    """Of each lane, where it matters whether the job was resharded."""

    def __post_init__(self) -> None:
        config, asked = self.config, self.asked
        self._codec = make_codec(config)
        query = Query(asked.key, linearizable=False, lane=asked.lane, pair=asked.pair)
        self._search = Search(config, query)
        cluster = self._search.cluster
        topics = [config.left.topic, config.right.topic]
        found = cluster.topics([*topics, config.changelog_topic])
        if config.right.topic not in found:
            raise UsageError(missing_input(config, Side.RIGHT))
        self._extents = {
            name: cluster.extents(name, topic.partitions) for name, topic in found.items()
        }

    @property
    def lane(self) -> int:
        """The key's."""
        return self._search.lane

    def close(self) -> None:
        """Let the client go."""
        self._search.close()

    def state(self) -> State:
        """What the lane's owner says; where nobody does, what its last checkpoint says."""
        asked = self.asked
        try:
            found = patiently(self._search)
        except (Crash, UsageError) as error:
            return self._committed(error.line)
        left, right = (found["positions"][name] for name in SIDES)
        sought = sought_in(found, asked.key, asked.pair)
        return State(sought, terms_in(found), (left, right), found["owner"])

    def _committed(self, reason: str) -> State:
        config, key, topic = self.config, self.asked.key, self.config.changelog_topic
        extents = self._extents.get(topic, [])
        checkpoint = None
        if self.lane < len(extents):
            checkpoint = last_checkpoint(self._search.scanner, topic, self.lane, extents[self.lane])
        left, right = (
            Sought(side, row_id, (key, self.lane))
            for side, row_id in zip(Side, self.asked.pair, strict=True)
        )
        if checkpoint is None:
            terms = Terms(config.lateness, config.max_interval, None, config.unit)
            return State((left, right), terms, (0, 0), None, reason)
        layout = checkpoint.layout
        mark = checkpoint.watermarks.lane
        terms = Terms(layout.lateness, layout.max_interval, mark, layout.unit)
        positions = checkpoint.left_position, checkpoint.right_position
        return State((left, right), terms, positions, None, reason)

    def look_for_reshards(self) -> None:
        """Learn which records are of before one: the key had another lane then."""
        scanner, topic = self._search.scanner, self.config.changelog_topic
        self._checkpoints = [
            last_checkpoint(scanner, topic, lane, extent)
            for lane, extent in enumerate(self._extents.get(topic, []))
        ]

    def _since(self, side: Side, lane: int) -> int:
        """The offset of an input from which on it was written for today's number of lanes."""
        found = self._checkpoints[lane] if lane < len(self._checkpoints) else None
        return 0 if found is None else since(found, side)

    @property
    def _resharded(self) -> bool:
        return any(one and since(one, side) for one in self._checkpoints for side in Side)

    def rejects(self) -> tuple[list[Reject], Refusal | None]:
        """The lane's rejects, and that of the match of the two rows, if it was too large.

        Those of before a reshard are in any lane.
        """
        found: list[Reject] = []
        too_large: Refusal | None = None
        name = match_id(*self.asked.pair)
        topic, cluster = self.config.rejects_topic, self._search.cluster
        for described in cluster.topics([topic]).values():
            self._extents[topic] = cluster.extents(topic, described.partitions)
        lanes = range(len(self._extents.get(topic, []))) if self._resharded else [self.lane]
        for partition, span in self._spans(topic, lanes):
            for batch in self._search.scanner.scan_whole(topic, {partition: span}):
                for reject in filter(None, map(reject_of, batch)):
                    if reject.key == name and not reject.value:
                        too_large = Refusal(reject.reason, reject.detail)
                    else:
                        found.append(reject)
        return found, too_large

    def look(self, sought: Sought, rejects: Sequence[Reject], position: int) -> None:
        """Look for a row in its input: first in its lane, then, if it is not there, elsewhere."""
        topic, side = self.config.side(sought.side).topic, sought.side
        refusals = {one.origin[1:]: one for one in rejects if one.origin[0] == topic}
        rest = [lane for lane in range(len(self._extents[topic])) if lane != self.lane]
        everywhere = self._resharded and not sought.stored
        seen: dict[tuple[int, int], Sighting] = {}
        others: list[Sighting] = []
        for one in self._sightings(side, sought.id, [self.lane, *(rest if everywhere else [])]):
            place = one.partition, one.offset
            if one.key != self.asked.key or not self._is_here(side, *place):
                others.append(one)
                continue
            refused = refusals.get(place)
            refusal = refused and Refusal(refused.reason, refused.detail)
            before = self._is_before(side, *place)
            taken = before or one.offset < position
            seen[place] = one._replace(taken=taken, refusal=refusal, resharded=before)
        # The input may keep less than the rejects do.
        for place, refused in refusals.items():
            if place in seen or refused.key != self.asked.key or not self._is_here(side, *place):
                continue
            refusal, before = Refusal(refused.reason, refused.detail), self._is_before(side, *place)
            for one in self._decoded(side, sought.id, [(*place, refused.key, refused.value)]):
                seen[place] = one._replace(refusal=refusal, resharded=before)
        sought.sightings = [seen[at] for at in sorted(seen, key=lambda at: self._order(side, *at))]
        sought.searched = True
        sought.rejects_from = self._rejects_from()
        if not sought.sightings and not sought.stored:
            further = [] if everywhere else self._sightings(side, sought.id, rest)
            sought.elsewhere = [*others, *further]
        looked = [one for one in self.looked if one.topic == topic]
        sought.older = sum(one.start - one.first for one in looked)
        sought.gone = sum(one.first for one in looked)

    def _is_before(self, side: Side, partition: int, offset: int) -> bool:
        """Whether a record is of before a reshard; then it was taken, or rejected."""
        return offset < self._since(side, partition)

    def _is_here(self, side: Side, partition: int, offset: int) -> bool:
        """Whether a record of the key was in the lane that the key had at that time."""
        return partition == self.lane or self._is_before(side, partition, offset)

    def _order(self, side: Side, partition: int, offset: int) -> tuple[bool, int, int]:
        return not self._is_before(side, partition, offset), partition, offset

    def asked_of_output(self, said: Explanation) -> Explanation:
        """The same, unless the output has their match."""
        name, topic = match_id(*self.asked.pair), self.config.output.topic
        found = self._search.cluster.topics([topic]).get(topic)
        if found is None:
            return said
        self._extents[topic] = self._search.cluster.extents(topic, found.partitions)
        spans = dict(self._spans(topic, range(found.partitions)))
        last: dict[int, Read] = {}
        for batch in self._search.scanner.scan_all(topic, spans):
            last |= {one.partition: one for one in batch if one.key == name}
        # Should partitions have been added to it, older records are in others.
        newest = last.get(lane_of(name, found.partitions)) or next(iter(last.values()), None)
        if newest is not None and newest.value is not None:
            place = f"offset {newest.offset} of partition {newest.partition} of {topic}"
            return in_output(said, name.decode(), place)
        moving = any(one and one.resharding for one in self._checkpoints)
        if said.why is Why.OTHER_LANE and not any(start for start, _ in spans.values()):
            return said._replace(certain=True)  # All of the output was looked at.
        return said._replace(certain=said.certain and not moving)

    def _rejects_from(self) -> int:
        """The offset from which the lane's rejects were read."""
        topic = self.config.rejects_topic
        return max([one.start for one in self.looked if one.topic == topic], default=0)

    def _sightings(self, side: Side, row_id: str, lanes: Iterable[int]) -> Iterator[Sighting]:
        topic = self.config.side(side).topic
        for partition, span in self._spans(topic, lanes):
            with progress(f"reading {topic}", span[1] - span[0]) as advance:
                for batch in self._search.scanner.scan(topic, partition, *span):
                    records = [(one.partition, one.offset, one.key, one.value) for one in batch]
                    yield from self._decoded(side, row_id, records)
                    if batch:
                        advance(batch[-1].offset - span[0])

    def _decoded(
        self,
        side: Side,
        row_id: str,
        records: Sequence[tuple[int, int, bytes | None, bytes | None]],
    ) -> Iterator[Sighting]:
        """Those of the records (partition, offset, key, value) that have this id."""
        parts = self._codec.decode_batch(side, [value for _, _, _, value in records])
        for (partition, offset, key, _), part in zip(records, parts, strict=True):
            if not isinstance(part, Fault) and part[2] == row_id:
                end, start, _, ts, kind, _ = part
                yield Sighting(partition, offset, key, kind, ts, start, end)

    def _spans(self, topic: str, lanes: Iterable[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        """The newest part of each partition, which is noted as looked at."""
        extents = self._extents.get(topic, [])
        for lane in lanes:
            if lane < len(extents):
                first, stable, _ = extents[lane]
                start = max(first, stable - self.asked.scan)
                self.looked.append(Looked(topic, lane, start, stable, first))
                yield lane, (start, stable)


def as_json(explained: Explained) -> dict[str, Any]:
    """The same for programs."""
    explanation, state, looked = explained
    return {
        "matches": explanation.matches,
        "why": explanation.why,
        "lines": explanation.lines,
        "owner": state.owner,
        "watermark": state.terms.watermark,
        "looked_at": [one._asdict() for one in looked],
    }


_SAID: Final = {
    True: "They match.",
    False: "They do not match.",
    None: "It is not known whether they match.",
}


def show(explained: Explained) -> None:
    """Print it as sentences."""
    explanation, state, looked = explained
    lines = [_SAID[explanation.matches]]
    lines += [f"- {line}" for line in explanation.lines]
    if state.owner is None:
        lines.append(f"No worker was asked, so this is from the topics alone: {state.reason}")
    lines.append("Looked at " + ", ".join(map(_span, looked)) + ".")
    if any(one.start > one.first for one in looked):
        lines.append("Older records were not looked at: --scan N looks at so many offsets.")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _span(looked: Looked) -> str:
    where = f"partition {looked.partition} of {looked.topic}"
    if looked.start == looked.end:
        return f"{where} (empty)"
    return f"{where} (offsets {looked.start} to {looked.end - 1})"
