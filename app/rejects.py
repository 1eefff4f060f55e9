"""`rejects`: what was not taken and why, from the rejects topic; and some of it once more.

Invariant: a reject is replayed at most once, whoever asks for it how often, and never changed but
for headers of ours. See `app.kafka.replays` for how.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.table import Table
from rich.text import Text

from app.console import console
from app.errors import UsageError
from app.formats import make_codec
from app.kafka.cluster import Cluster
from app.kafka.rejects import Reject, note_of, reject_of
from app.kafka.scan import Scanner
from app.progress import progress
from app.rows import JsonLines, Words, counted, moment, printable
from app.units import NANOSECONDS
from schemas.records import Reason, Side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config import Config
    from app.kafka.cluster import Extent
    from app.kafka.scan import Whole
    from schemas.codec import Codec

TABLE_ROWS: Final = 20
SHOWN_LENGTH_MAX: Final = 100
"""Characters of a key or a record in a table."""
DETAIL_LENGTH_MAX: Final = 500
_AGO: Final = re.compile(r"([0-9]+)\s*(ms|s|m|h|d)")
_PLACE: Final = re.compile(r"([0-9]+)/([0-9]+)")


class Choice(NamedTuple):
    """Which rejects are meant; None is any. Times are of the clock, in ms, when it was rejected."""

    reasons: frozenset[str] | None = None
    side: Side | None = None
    partition: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """The first moment that is not meant any more."""
    key: bytes | None = None
    place: tuple[int, int] | None = None

    def takes(self, reject: Reject, side: Side | None) -> bool:
        """Whether this reject, of an input of this side, is meant."""
        return (
            (self.reasons is None or reject.reason in self.reasons)
            and (self.side is None or side is self.side)
            and (self.partition is None or reject.origin[1] == self.partition)
            and (self.since_ms is None or reject.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or reject.timestamp_ms < self.until_ms)
            and (self.key is None or reject.key == self.key)
            and (self.place is None or reject.place == self.place)
        )


class Chosen(NamedTuple):
    """A reject that is meant, the side it came from (if that is one still), and its fate."""

    reject: Reject
    side: Side | None
    replayed: bool


def parse_reason(text: str) -> str:
    """A reason as it is written on the command line. Raises UsageError."""
    if text not in set(Reason):
        raise UsageError(f"--reason {text} is none of {', '.join(Reason)}")
    return text


def parse_place(text: str) -> tuple[int, int]:
    """Partition and offset in the rejects topic. Raises UsageError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"--at takes PARTITION/OFFSET as the list shows it, not {text!r}")
    return int(found[1]), int(found[2])


def parse_time(option: str, text: str, now_ms: int) -> int:
    """A moment in ms: a date with or without a time (UTC unless said), or how long ago.

    Raises UsageError.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(ago[1]) * NANOSECONDS[ago[2]] // NANOSECONDS["ms"]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} takes a time such as 2025-03-03T10:00, or how long ago, such as 2h; "
            f"not {text!r}"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


class RejectsTopic:
    """The rejects topic of a job as it is when it is first read; close it when done."""

    def __init__(self, config: Config) -> None:
        """Raises Unreachable, or UsageError where the topic does not exist."""
        self.topic = config.rejects_topic
        self.sides = {config.side(side).topic: side for side in Side}
        self._cluster = Cluster(config)
        self.topics = self._cluster.topics([self.topic, *self.sides])
        found = self.topics.get(self.topic)
        if found is None:
            raise UsageError(
                f'rejects topic "{self.topic}" does not exist: start a worker, or create it with '
                f"spanjoin topics -c {config.path}"
            )
        self._scanner = Scanner(config)
        self._extents: list[Extent] = []
        self._notes: frozenset[tuple[int, int]] | None = None

    def close(self) -> None:
        """Let the client go."""
        self._scanner.close()

    def chosen(self, choice: Choice) -> Iterator[Chosen]:
        """The rejects that are meant; those of a partition are in their order.

        All is read twice: the note that a reject was replayed stands behind it.
        """
        if self._notes is None:
            partitions = self.topics[self.topic].partitions
            self._extents = self._cluster.extents(self.topic, partitions)
            self._notes = frozenset(self._read_notes())
        for read in self._records():
            reject = reject_of(read)
            if reject is None:
                continue
            side = self.sides.get(reject.origin[0])
            if choice.takes(reject, side):
                yield Chosen(reject, side, reject.place in self._notes)

    def _read_notes(self) -> Iterator[tuple[int, int]]:
        for read in self._records():
            offset = note_of(read)
            if offset is not None:
                yield read.partition, offset

    def _records(self) -> Iterator[Whole]:
        spans = {lane: (start, end) for lane, (start, _, end) in enumerate(self._extents)}
        done = 0
        with progress(f"reading {self.topic}", sum(e - s for s, e in spans.values())) as advance:
            for batch in self._scanner.scan_whole(self.topic, spans):
                yield from batch
                done += len(batch)
                advance(done)


def list_rejects(config: Config, choice: Choice, form: str, limit: int | None) -> None:
    """Write the rejects that are meant: a table of the newest, or JSON lines of all."""
    codec = make_codec(config)
    topic = RejectsTopic(config)
    lines = JsonLines(sys.stdout)
    counting = _Counted(topic.chosen(choice))
    try:
        if form == "jsonl" and limit is None:
            for chosen in counting:
                lines.write(row_of(chosen, codec))
            return
        size = TABLE_ROWS if limit is None else limit
        newest = heapq.nlargest(max(size, 1), counting, key=_when)[:size]
    finally:
        topic.close()
    newest.reverse()
    if form == "jsonl":
        for chosen in newest:
            lines.write(row_of(chosen, codec))
    else:
        _show(config, topic.topic, newest, counting.count, codec)


class _Counted:
    """Counts what is iterated over."""

    def __init__(self, rejects: Iterator[Chosen]) -> None:
        self._rejects = rejects
        self.count = 0

    def __iter__(self) -> Iterator[Chosen]:
        for chosen in self._rejects:
            self.count += 1
            yield chosen


def _when(chosen: Chosen) -> tuple[int, tuple[int, int]]:
    """The order in which they were rejected, as nearly as clocks tell."""
    return chosen.reject.timestamp_ms, chosen.reject.place


def row_of(chosen: Chosen, codec: Codec) -> dict[str, Any]:
    """A reject for programs. Bytes that are no text are in hexadecimal, under another name."""
    reject, side, replayed = chosen
    topic, partition, offset = reject.origin
    row: dict[str, Any] = {
        "at": _place(reject),
        "time": reject.timestamp_ms,
        "reason": reject.reason,
        "side": None if side is None else side.name.lower(),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "detail": reject.detail,
        "replayed": replayed,
        "again": reject.again,
        **_as_text("key", reject.key),
    }
    record = _decoded(reject, codec)
    row |= _as_text("value", reject.value) if record is None else {"value": record}
    row["headers"] = [
        {"name": name, **_as_text("value", value if isinstance(value, bytes) else None)}
        for name, value in reject.headers
    ]
    return row


def _as_text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def _decoded(reject: Reject, codec: Codec) -> dict[str, Any] | None:
    """The input's record, None where it cannot be decoded, which may be why it was rejected."""
    if not reject.value:
        return None
    try:
        return codec.decode_event(reject.value)
    except ValueError:
        return None


def _place(reject: Reject) -> str:
    partition, offset = reject.place
    return f"{partition}/{offset}"


def _show(config: Config, topic: str, newest: list[Chosen], count: int, codec: Codec) -> None:
    table = Table()
    for heading in ("at", "rejected", "reason", "from", "key", "detail", "record"):
        table.add_column(heading, overflow="fold")  # Cut off, a detail would lack what decided.
    words = Words(config)
    for chosen in newest:
        reject, side, replayed = chosen
        name, partition, offset = reject.origin
        record = _decoded(reject, codec)
        shown = "" if side is None or record is None else words.record(side.name.lower(), record)
        cells = (
            _place(reject) + (" (replayed)" if replayed else ""),
            moment(reject.timestamp_ms, "ms"),
            reject.reason,
            f"{name} {partition}/{offset}",
            _short(reject.key.decode("utf-8", "backslashreplace")) if reject.key else "",
            _short(reject.detail, DETAIL_LENGTH_MAX),
            _short(shown),
        )
        table.add_row(*map(Text, cells))
    if table.row_count:
        console().print(table)
    shown = f", the newest {table.row_count} shown (--limit N for more)"
    more = shown if table.row_count < count else ""
    sys.stdout.write(f"{counted(count, 'reject')} in {topic}{more}\n")


def _short(text: str, length_max: int = SHOWN_LENGTH_MAX) -> str:
    text = printable(text)
    return text if len(text) <= length_max else f"{text[:length_max]}..."


def count_rejects(config: Config, choice: Choice, form: str) -> None:
    """Write how many rejects there are of each reason and input."""
    topic = RejectsTopic(config)
    counts: Counter[tuple[str, str]] = Counter()
    again: Counter[tuple[str, str]] = Counter()
    try:
        for reject, _, replayed in topic.chosen(choice):
            kind = reject.reason, reject.origin[0]
            counts[kind] += 1
            again[kind] += replayed
    finally:
        topic.close()
    order = {str(reason): place for place, reason in enumerate(Reason)}
    kinds = sorted(counts, key=lambda kind: (order.get(kind[0], len(order)), kind))
    table = Table("reason", "topic")
    for heading in ("rejects", "replayed"):
        table.add_column(heading, justify="right")
    lines = JsonLines(sys.stdout)
    for kind in kinds:
        if form == "jsonl":
            names = ("reason", "topic", "rejects", "replayed")
            lines.write(dict(zip(names, (*kind, counts[kind], again[kind]), strict=True)))
        else:
            table.add_row(*kind, f"{counts[kind]:,}", f"{again[kind]:,}")
    if form == "jsonl":
        return
    if kinds:
        console().print(table)
    sys.stdout.write(f"{counted(counts.total(), 'reject')} in {topic.topic}\n")
