"""The checkers. They look at the broker's logs and at the stores, never at what a worker thinks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.records import Event, JoinType, Kind, Record, Side
from state.due import INDEX_END, entries_of, first_entry
from state.keys import PREFIX_SIZE, bucket_prefix
from tests.kafka.avro import decode_output
from tests.lane import record_of
from tests.oracle import Emitted, Oracle
from tests.simulation.fold import Changelog, Turn, Wrong, state_of
from tests.simulation.log import Fate
from tests.simulation.options import LATENESS, MAX_INTERVAL
from tests.simulation.workload import HORIZON, TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.codec import Codec
    from state.store import LaneStore
    from tests.simulation.broker import Broker


Counted = dict[tuple[int, str, int], tuple[bool, bool]]
"""By lane, writer and sequence of a turn: whether each side counted in its watermark."""


def check(condition: bool, text: str) -> None:
    """Raises Wrong unless the condition holds."""
    if not condition:
        raise Wrong(text)


class Asked(NamedTuple):
    """A question to a worker, and how many turns of the lane were committed when it was put."""

    lane: int
    key: bytes
    turns: int


class Checks:
    """All invariants of one run."""

    def __init__(self, broker: Broker, lanes: int, join: JoinType) -> None:
        self.counted: Counted = {}
        self._join = join
        self._broker = broker
        self._lanes = lanes
        self._names: set[str] = set()
        self.changelogs = [
            Changelog(log, broker.coordinator) for log in broker.topics["job-changelog"].logs
        ]

    def producer(self, name: str, client: str) -> None:
        """A transactional id is one producer's; others use it only to fence that one."""
        if client.endswith("-fence"):
            return
        check(name not in self._names, f"transactional id {name} is used by two producers")
        self._names.add(name)

    def store(self, store: LaneStore) -> None:
        """A store is the fold of the committed changelog up to its position."""
        if store._open_db is None:
            return
        lane = int(store.path.name.removeprefix("lane-"))
        turns = self.changelogs[lane].turns(0, store.position)
        expected = state_of(turns)
        where = f"store of lane {lane} of {store.path.parent.name} at {store.position}"
        same = store.checkpoint == expected.checkpoint
        check(same, f"{where}: {store.checkpoint} instead of {expected.checkpoint}")
        check(store.buckets() == expected.buckets, f"{where}: another directory")
        rows = dict(store.scan())
        whole = rows == expected.rows or {**self._cut(lane, turns), **rows} == expected.rows
        check(whole, f"{where}: other rows than were committed")
        entries = entries_of(rows, self._join.preserved)
        found = store.due(b"", INDEX_END, len(entries) + 1)
        check(found == entries, f"{where}: another index than its rows make")

    def _cut(self, lane: int, turns: list[Turn]) -> dict[bytes, bytes]:
        """The rows of these turns that a restore from what is left of the changelog begins without.

        It was cut because a later turn drops their buckets: a restore that has not come to that
        turn, and is killed, leaves a store without them.
        """
        later = self.turns(lane)[len(turns) :]
        dropped = {
            bucket_prefix(number)
            for turn in later
            for number, bucket in turn.buckets.items()
            if not bucket.rows
        }
        start = self.changelogs[lane].log.start
        before = state_of([turn for turn in turns if turn.first < start])
        return {key: row for key, row in before.rows.items() if key[:PREFIX_SIZE] in dropped}

    def answer(self, question: Asked, answer: Mapping[str, Any]) -> None:
        """A linearizable answer is the lane as it was at some moment since it was asked for."""
        turns = self.turns(question.lane)
        found = {row["id"] for rows in answer["rows"].values() for row in rows}
        moments = [
            {row.id for row in state_of(turns[:count]).live(question.key, HORIZON)}
            for count in range(question.turns, len(turns) + 1)
        ]
        text = f"lane {question.lane}: {question.key!r} has {found}, should be one of {moments}"
        check(found in moments, text)

    def turns(self, lane: int) -> list[Turn]:
        """What is committed by now."""
        return self.changelogs[lane].turns(0, self.changelogs[lane].log.high)

    def decided(self, lane: int) -> bool:
        """Whether every row that is due by now was decided about."""
        turns = self.turns(lane)
        checkpoint = turns[-1].checkpoint if turns else None
        if checkpoint is None or checkpoint.watermarks.lane is None:
            return True
        return checkpoint.decided == first_entry(checkpoint.watermarks.lane - HORIZON)

    def changelog(self, lane: int) -> list[Turn]:
        """Epochs, sequences, positions and watermarks of a lane only ever go forward."""
        changelog = self.changelogs[lane]
        epoch = 0
        for offset, _, record in changelog.committed(0, changelog.log.high):
            late = f"lane {lane} offset {offset}: of epoch {record.epoch} after {epoch} was claimed"
            check(record.epoch >= epoch, late)
            epoch = record.epoch
        turns = changelog.turns(0, changelog.log.high)
        for before, after in pairwise(turns):
            _check_step(before, after, f"lane {lane} offset {after.first} ({after.kind})")
        self._check_truncated(changelog, turns, lane)
        return turns

    def _check_truncated(self, changelog: Changelog, turns: list[Turn], lane: int) -> None:
        """What is left of the log is enough for a worker that has nothing."""
        start = changelog.log.start
        if not start or not turns:
            return
        rest, whole = state_of(changelog.turns(start, changelog.log.high)), state_of(turns)
        where = f"lane {lane}: the changelog from {start} on"
        check(rest.checkpoint == whole.checkpoint, f"{where} has no checkpoint any more")
        check(rest.buckets == whole.buckets, f"{where} lacks directory entries")
        check(rest.rows == whole.rows, f"{where} lacks rows")

    def results(self, codec: Codec, *, twice: bool, never_late: bool) -> None:
        """Output and rejects are what the plainest join of the same inputs gives.

        `twice`: a delayed EndTxn may have committed outputs that were then written again; only a
        producer that is used on although its connection broke is open to that.
        """
        emitted: list[Emitted] = []
        for lane in range(self._lanes):
            inputs = self._inputs(codec, lane)
            oracle = self._replayed(lane, inputs)
            emitted += oracle.emitted
            self._check_rejects(lane, oracle, twice=twice)
            if never_late:
                batch = self._oracle()
                for side in Side:
                    for record in inputs[side]:
                        batch.feed(side, record)
                check(
                    batch.live_matches() == oracle.live_matches(),
                    f"lane {lane}: not what a batch join of the inputs gives",
                )
        self._check_output(emitted, twice=twice)

    def _oracle(self) -> Oracle:
        return Oracle(LATENESS, MAX_INTERVAL, preserved=self._join.preserved)

    def _inputs(self, codec: Codec, lane: int) -> tuple[list[Record], list[Record]]:
        """What was committed to both sides of a lane."""
        left, right = (
            [
                record_of(offset, entry.key, codec.decode_batch(side, [entry.value])[0], None)
                for offset, entry in enumerate(self._broker.log(TOPICS[side], lane).entries)
                if entry.fate is Fate.COMMITTED
            ]
            for side in Side
        )
        return left, right

    def _replayed(self, lane: int, inputs: tuple[list[Record], list[Record]]) -> Oracle:
        """The oracle after the turns that were committed, each in the order of event time."""
        oracle = self._oracle()
        taken = [0, 0]
        changelog = self.changelogs[lane]
        for turn in changelog.turns(0, changelog.log.high):
            positions = (turn.checkpoint.left_position, turn.checkpoint.right_position)
            ranked = []
            for side in Side:
                batch = [
                    record
                    for record in inputs[side]
                    if taken[side] <= record.offset < positions[side]
                ]
                ranked.append(_ranked(oracle, side, batch))
                taken[side] = positions[side]
            place = (lane, turn.checkpoint.writer, turn.checkpoint.sequence)
            counting = self.counted.get(place, (True, True))
            for side, record in _merged(*ranked):
                oracle.feed(side, record, None, counting)
            if turn.kind == "turn":
                oracle.follow(counting)
            marks = turn.checkpoint.watermarks
            lane_mark = None if oracle.wm == float("-inf") else oracle.wm
            where = f"lane {lane} turn {turn.checkpoint.sequence}"
            check(marks.lane == lane_mark, f"{where}: watermark {marks}, should be {lane_mark}")
        for side in Side:
            check(
                all(record.offset < taken[side] for record in inputs[side]),
                f"lane {lane}: inputs were not read to the end",
            )
        return oracle

    def _check_output(self, emitted: list[Emitted], *, twice: bool) -> None:
        expected: dict[str, list[Emitted]] = {}
        for one in emitted:
            expected.setdefault(one.match_id, []).append(one)
        found: dict[str, list[bytes | None]] = {}
        for log in self._broker.topics["output"].logs:
            for entry in log.entries:
                if entry.fate is Fate.COMMITTED:
                    assert entry.key is not None, "a match has an id"
                    found.setdefault(entry.key.decode(), []).append(entry.value)
        check(
            found.keys() == expected.keys(),
            f"missing {sorted(expected.keys() - found.keys())}, "
            f"too many {sorted(found.keys() - expected.keys())}",
        )
        for name, values in found.items():
            wanted = expected[name]
            for value in values:
                if value is not None:
                    match = decode_output(value, self._join)
                    sides = [side for side in match[2:] if side is not None]
                    names = [side.id in name for side in sides]
                    check(all(names) and len(names) == name.count(":"), f"{name} is {match}")
                    right = (wanted[0].start, wanted[0].end) == (match.start, match.end)
                    check(right, f"{name} has another overlap")
            check(len({value for value in values if value}) <= 1, f"{name} has two values")
            shape = [value is not None for value in values]
            should = [one.start is not None for one in wanted]
            if twice:
                check(shape[-1] == should[-1], f"{name} ends as {shape}, should be {should}")
                check(set(shape) == set(should), f"{name} is {shape}, should be {should}")
            else:
                check(shape == should, f"{name} is {shape}, should be {should}")

    def _check_rejects(self, lane: int, oracle: Oracle, *, twice: bool) -> None:
        found: Counter[tuple[str, int, str]] = Counter()
        for entry in self._broker.log("job-rejects", lane).entries:
            if entry.fate is Fate.COMMITTED:
                told = {name: (text or b"").decode() for name, text in entry.headers}
                found[told["topic"], int(told["offset"]), told["reason"]] += 1
        expected = Counter(
            (TOPICS[side], offset, reason.value) for side, offset, reason in oracle.rejects
        )
        if twice:
            found, expected = Counter(set(found)), Counter(set(expected))
        where = f"lane {lane}: rejects"
        check(found == expected, f"{where} {found - expected} extra, {expected - found} missing")


def _check_step(before: Turn, after: Turn, where: str) -> None:
    """One turn after the other."""
    old, new = before.checkpoint, after.checkpoint
    if after.kind == "claim":
        check(new.epoch == old.epoch + 1, f"{where}: epoch {old.epoch} -> {new.epoch}")
        unchanged = (
            old.left_position, old.right_position, old.watermarks, old.rows, old.decided
        ) == (
            new.left_position, new.right_position, new.watermarks, new.rows, new.decided
        )  # fmt: skip
        check(unchanged, f"{where}: a claim that changes more than the owner")
    else:
        check(new.epoch == old.epoch, f"{where}: epoch {old.epoch} -> {new.epoch} without a claim")
        check(new.writer == old.writer, f"{where}: {old.writer} and {new.writer} in one epoch")
    check(new.sequence == old.sequence + 1, f"{where}: sequence {old.sequence} -> {new.sequence}")
    for name in ("left_position", "right_position"):
        was, now = getattr(old, name), getattr(new, name)
        check(now >= was, f"{where}: {name} {was} -> {now}")
    decided = f"{where}: decided {old.decided.hex()} -> {new.decided.hex()}"
    check(new.decided >= old.decided, decided)
    for was, now in zip(old.watermarks, new.watermarks, strict=True):
        fine = was is None or (now is not None and now >= was)
        check(fine, f"{where}: watermarks {old.watermarks} -> {new.watermarks}")


def _ranked(oracle: Oracle, side: Side, records: list[Record]) -> list[tuple[float, Side, Record]]:
    """Each record with the event time that orders it: the largest that its side has shown."""
    rank = oracle.sides[side]
    ranked = []
    for record in records:
        if isinstance(record, Event) and record.kind != Kind.RETRACT:
            rank = rank if oracle._invalid(record, None) else max(rank, record.ts)
        ranked.append((rank, side, record))
    return ranked


def _merged(
    left: list[tuple[float, Side, Record]], right: list[tuple[float, Side, Record]]
) -> list[tuple[Side, Record]]:
    """Both sides by rank, left first where they are equal."""
    both = sorted([*left, *right], key=lambda one: (one[0], one[1]))
    return [(side, record) for _, side, record in both]
