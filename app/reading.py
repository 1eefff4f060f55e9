"""`read`: the matches that are live, from the output topic as it is committed.

Of an outer join, the unmatched rows, too. Invariant: a match is shown iff the last committed record
of its key, up to the topic's end as it was at the start, is not a tombstone. Matches of one key are
in one partition, so each partition is settled by itself and only one is held in memory at a time.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from rich.table import Table
from rich.text import Text

from app.console import console
from app.datafiles import named_format
from app.errors import UsageError
from app.formats import make_codec
from app.kafka.cluster import Cluster, Extent
from app.kafka.scan import Scanner
from app.outputs import complete, complete_text
from app.progress import progress
from app.rows import CHANGE, Csv, JsonLines, Parquet, Row, Sink, Words, counted
from schemas.match_id import is_match_id
from schemas.records import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.config import Config
    from app.kafka.scan import Read
    from schemas.codec import Codec

TABLE_ROWS: Final = 20


class Request(NamedTuple):
    """What is to be read: format, whether to go on, how many rows at most, and where to."""

    form: str
    follow: bool
    limit: int | None
    output: Path | None


def form_for(asked: str | None, output: Path | None) -> str:
    """How results are written: as was asked for, or as their file's name says, or as a table."""
    named = None if output is None else named_format(output)
    return str(asked or named or "table")


class Source:
    """The output topic of a job."""

    def __init__(self, config: Config) -> None:
        """Raises Unreachable, or UsageError where the topic does not exist."""
        self.topic = config.output.topic
        self.codec: Codec = make_codec(config)
        self.outer = bool(JoinType(config.join.type).preserved)
        cluster = Cluster(config)
        found = cluster.topics([self.topic]).get(self.topic)
        if found is None:
            raise UsageError(
                f'output topic "{self.topic}" does not exist: start a worker, or create it with '
                f"spanjoin topics -c {config.path}"
            )
        self.extents: list[Extent] = cluster.extents(self.topic, found.partitions)
        self.scanner = Scanner(config)

    def live(self) -> Iterator[dict[bytes, bytes]]:
        """The live matches of one partition after the other, match id -> value."""
        total = sum(extent.end - extent.start for extent in self.extents)
        done = 0
        with progress(f"reading {self.topic}", total) as advance:
            for partition, extent in enumerate(self.extents):
                found: dict[bytes, bytes] = {}
                for batch in self.scanner.scan(self.topic, partition, extent.start, extent.end):
                    for record in batch:
                        apply(found, record)
                    if batch:
                        advance(done + batch[-1].offset - extent.start)
                done += extent.end - extent.start
                yield found

    def changes(self) -> Iterator[list[Read]]:
        """What is committed after the ends that `live` reads to, for ever."""
        starts = {lane: extent.end for lane, extent in enumerate(self.extents)}
        return self.scanner.follow(self.topic, starts)

    def row(self, key: bytes, value: bytes) -> Row:
        """A match as a row. Raises UsageError where it was written with other schemas."""
        match_id = key.decode("utf-8", "backslashreplace")
        try:
            return {"id": match_id, **self.codec.decode_match(value)}
        except ValueError as error:
            raise UsageError(
                f"match {match_id} of {self.topic} cannot be decoded ({error}): give the schemas "
                "that it was written with"
            ) from None


def apply(live: dict[bytes, bytes], record: Read) -> bool:
    """Let a record decide about its match; False if it says what was known already."""
    if record.key is None:
        return False
    if record.value is None:
        return live.pop(record.key, None) is not None
    if live.get(record.key) == record.value:
        return False
    live[record.key] = record.value
    return True


def read_matches(config: Config, request: Request) -> None:
    """Write the live matches, and with `follow` each change after them, until interrupted."""
    if request.form == "parquet":
        if request.follow:
            raise UsageError(
                "--format parquet has no --follow: a Parquet file is readable when it is complete; "
                "say --format jsonl or csv"
            )
        if request.output is None and sys.stdout.isatty():
            raise UsageError("--format parquet is not for a terminal: give --output FILE")
    source = Source(config)
    try:
        if request.follow:
            _follow(config, request, source)
        elif request.form == "table":
            _show_table(config, request, source)
        else:
            _write_all(request, source)
    finally:
        source.scanner.close()


def _show_table(config: Config, request: Request, source: Source) -> None:
    limit = TABLE_ROWS if request.limit is None else request.limit
    words = Words(config)
    table = Table("overlap", "left", "right", title=None)
    count = matches = 0
    with complete_text(request.output) as stream:
        for live in source.live():
            for key in list(live)[: max(limit - count, 0)]:
                table.add_row(*map(Text, words.cells(source.row(key, live[key]))))
            count += len(live)
            matches += sum(map(is_match_id, live))
        if table.row_count:
            console(stream).print(table)
        shown = f", the first {table.row_count} shown (--limit N for more)"
        more = shown if table.row_count < count else ""
        rows = f" and {counted(count - matches, 'unmatched row')}" if source.outer else ""
        print(f"{counted(matches, 'live match')}{rows} in {source.topic}{more}", file=stream)


def _write_all(request: Request, source: Source) -> None:
    limit = sys.maxsize if request.limit is None else request.limit
    with _sink(request, source) as sink:
        left = limit
        for live in source.live():
            for key in list(live)[:left]:
                sink.write(source.row(key, live[key]))
                left -= 1
            if left == 0:
                return


def _follow(config: Config, request: Request, source: Source) -> None:
    """Every live match, then every change; the matches are kept to tell what is news."""
    with _growing(request.output) as stream, _change_sink(config, request, source, stream) as sink:
        live: dict[bytes, bytes] = {}
        for found in source.live():
            live |= found
        limit = TABLE_ROWS if request.limit is None and request.form == "table" else request.limit
        shown = list(live)[-limit if limit else 0 :] if limit != 0 else []
        if request.form == "table" and len(shown) < len(live):
            what = "matches and unmatched rows" if source.outer else "matches"
            first = f"the last {len(shown)} of {len(live)} live {what} come first"
            sys.stderr.write(f"{first} (--limit N for more), then each change\n")
        for key in shown:
            sink.write({CHANGE: "insert", **source.row(key, live[key])})
        stream.flush()
        for batch in source.changes():
            for record in batch:
                before = live.get(record.key or b"")
                if not apply(live, record):
                    continue
                assert record.key is not None, "a record without a key changes nothing"
                value = record.value if record.value is not None else before
                assert value is not None, "only what was live can be retracted"
                change = "insert" if record.value is not None else "retract"
                sink.write({CHANGE: change, **source.row(record.key, value)})
            if batch:
                stream.flush()


class _ChangeLines:
    """A line for each change, for people."""

    def __init__(self, words: Words, stream: TextIO) -> None:
        self._words = words
        self._stream = stream

    def write(self, row: Row) -> None:
        sign = "+" if row[CHANGE] == "insert" else "-"
        self._stream.write(f"{sign} {' | '.join(self._words.cells(row))}\n")

    def close(self) -> None:
        """Nothing is held back."""


@contextmanager
def _change_sink(
    config: Config, request: Request, source: Source, stream: TextIO
) -> Iterator[Sink]:
    names = [CHANGE, *(name for name, _ in source.codec.match_columns())]
    sink: Sink
    match request.form:
        case "table":
            sink = _ChangeLines(Words(config), stream)
        case "csv":
            sink = Csv(stream, names)
        case _:
            sink = JsonLines(stream)
    try:
        yield sink
    except KeyboardInterrupt:
        # The usual end of following.
        return
    finally:
        sink.close()


@contextmanager
def _sink(request: Request, source: Source) -> Iterator[Sink]:
    """Where rows go; a file appears under its name only when it is complete."""
    columns = source.codec.match_columns()
    path = request.output
    sink: Sink
    if path is None:
        if request.form == "parquet":
            sink = Parquet(sys.stdout.buffer, columns)
        else:
            sink = _text_sink(request.form, sys.stdout, columns)
        yield sink
        sink.close()
        return
    if request.form == "parquet":
        with complete(path) as name:
            sink = Parquet(name, columns)
            yield sink
            sink.close()
    else:
        with complete_text(path) as stream:
            yield _text_sink(request.form, stream, columns)


def _text_sink(form: str, stream: TextIO, columns: list[tuple[str, object]]) -> Sink:
    return Csv(stream, [name for name, _ in columns]) if form == "csv" else JsonLines(stream)


@contextmanager
def _growing(path: Path | None) -> Iterator[TextIO]:
    """A file that is never complete: each change is there for who reads it as it happens."""
    if path is None:
        yield sys.stdout
        return
    try:
        stream = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    with stream:
        yield stream
