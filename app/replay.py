"""`replay`: the join over two files, without any broker, through the code that a worker runs.

Rows are encoded as `load` would, and decoded, merged, joined and stored as in a worker; only the
edge to Kafka is missing. Invariant: for the same rows in the same partitions, the live matches are
those of a job that reads both topics from their beginnings.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.conversion import Unfit
from app.datafiles import open_data
from app.formats import make_codec
from app.kafka.limits import TOPIC_BYTES_DEFAULT, Limits
from app.loading import encoded, row_conversion
from app.outputs import check_apart, complete_text
from app.process import (
    Moment,
    Running,
    bound_windows,
    plan_turn,
    resumed,
    settle_turn,
    trim_windows,
)
from app.rows import JsonLines
from app.suspicion import Suspicion
from app.topics import SPARE_BYTES
from app.writes import join_settings
from schemas.partition import lane_of
from schemas.records import Fault, Kind, Reason, Side
from state.checkpoint import Checkpoint, Layout, Watermarks
from state.resources import Resources
from state.retention import span_of
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.config import Config
    from app.datafiles import DataFile
    from app.effects import Effects
    from app.loading import Conversion
    from schemas.codec import Codec
    from schemas.records import Parts, Rejected

CHUNK_RECORDS: Final = 1_000
HELD_RECORDS_MAX: Final = 20_000
"""Records of a side that may wait for the other one, as long as that comes forward."""
STORE_BYTES: Final = 64 << 20


class Request(NamedTuple):
    """What to run: the two files, the column of the key, the format where names do not say it."""

    files: tuple[Path, Path]
    key: str
    form: str | None
    partitions: int
    changes: bool
    """Whether each match and retraction is told as it happens, instead of what is live at last."""
    output: Path | None
    rejects: Path | None


class Input(NamedTuple):
    """A row of a file as the record it would be: its place in the file, its key and value."""

    side: Side
    place: int
    key: bytes | None
    value: bytes


def replay_files(config: Config, request: Request) -> str:
    """Run the join over the files and write what comes out; returns what is to be said of rejects.

    Both files appear when they are complete. Raises UsageError.
    """
    check_apart({"--output": request.output, "--rejects": request.rejects}, request.files)
    codec = make_codec(config)
    rejected: Counter[str] = Counter()
    live: dict[bytes, bytes] = {}
    with ExitStack() as stack:
        lines = JsonLines(stack.enter_context(complete_text(request.output)))
        refused = stack.enter_context(complete_text(request.rejects)) if request.rejects else None
        inputs = [
            _records(
                row_conversion(config, side, codec, request.key),
                stack.enter_context(open_data(path, request.form)),
                request.key,
                side,
                codec,
            )
            for side, path in zip(Side, request.files, strict=True)
        ]
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spanjoin-")))
        replay = Replay(config, codec, request.partitions, directory)
        stack.callback(replay.close)
        for effects in replay.run(inputs):
            for name, value, _ in effects.matches:
                before = live.pop(name, None)
                if value is not None:
                    live[name] = value
                if request.changes and (shown := value or before) is not None:
                    change = "insert" if value is not None else "retract"
                    lines.write({"change": change, **_match_row(codec, name, shown)})
            for reject in effects.rejects:
                rejected[reject.reason] += 1
                if refused is not None:
                    JsonLines(refused).write(_reject_row(config, request, codec, reject))
        if not request.changes:
            for name, value in live.items():
                lines.write(_match_row(codec, name, value))
    return _said_of(rejected)


def _records(
    conversion: Conversion, data: DataFile, key: str, side: Side, codec: Codec
) -> Iterator[Input]:
    """The rows of a file as records. Raises UsageError that names the line that is none."""
    for row in data.rows():
        try:
            name, value = encoded(row, key, conversion, lambda r: codec.encode_event(side, r))
        except Unfit as error:
            raise data.wrong(row.place, str(error)) from None
        yield Input(side, row.place, name, value)


def _match_row(codec: Codec, name: bytes, value: bytes) -> dict[str, Any]:
    return {"id": name.decode(), **codec.decode_match(value)}


def _reject_row(config: Config, request: Request, codec: Codec, reject: Rejected) -> dict[str, Any]:
    source = reject.source
    assert isinstance(source, Input), "every record is of a file"
    key = source.key if reject.match_id is None else reject.match_id
    return {
        "reason": str(reject.reason),
        "side": source.side.name.lower(),
        "topic": config.side(source.side).topic,
        "file": str(request.files[source.side]),
        "line": source.place,
        "detail": reject.detail,
        "key": None if key is None else key.decode("utf-8", "backslashreplace"),
        "value": _decoded(codec, source.value) if reject.match_id is None else None,
    }


def _decoded(codec: Codec, value: bytes) -> dict[str, Any] | None:
    """The record, None where it cannot be decoded, which is why it was rejected then."""
    try:
        return codec.decode_event(value)
    except ValueError:
        return None


def _said_of(rejected: Counter[str]) -> str:
    counts = [f"{rejected[reason]} {reason}" for reason in Reason if rejected[reason]]
    return f"{rejected.total()} rejected: {', '.join(counts)}" if counts else ""


@dataclass
class Replay:
    """Lanes that are fed from memory, each with a store of its own in `directory`."""

    config: Config
    codec: Codec
    partitions: int
    directory: Path
    lanes: list[Running] = field(init=False)
    stores: list[LaneStore] = field(init=False)
    offsets: list[list[int]] = field(init=False)
    """By side and lane, the offset that the next record gets."""
    suspicion: Suspicion = field(init=False)

    def __post_init__(self) -> None:
        self.suspicion = Suspicion(self.config)
        resources = Resources(STORE_BYTES, STORE_BYTES)
        self.stores = [
            LaneStore.open(self.directory / f"lane-{lane}", resources)
            for lane in range(self.partitions)
        ]
        self.lanes = [self._running(lane, store) for lane, store in enumerate(self.stores)]
        self.offsets = [[0] * self.partitions for _ in Side]

    def close(self) -> None:
        """Close the stores; their directory is whoever's made it."""
        for store in self.stores:
            store.close()

    def run(self, inputs: list[Iterator[Input]]) -> Iterator[Effects]:
        """Feed both sides and join, until nothing is left; the effects of each turn of a lane."""
        ended = [False, False]
        joined = True
        while True:
            for side in Side:
                # Where nothing could be joined, one side waits for what the other still has.
                if not ended[side] and (not joined or self._waiting(side) < HELD_RECORDS_MAX):
                    chunk = list(islice(inputs[side], CHUNK_RECORDS))
                    self._push(side, chunk)
                    if len(chunk) < CHUNK_RECORDS:
                        ended[side] = True
                        for lane in self.lanes:
                            lane.drained[side] = True
            turns = [effects for lane in self.lanes if (effects := self._turn(lane))]
            yield from turns
            trim_windows(self.lanes)
            bound_windows(self.lanes, self.config.state.windows_bytes)
            joined = bool(turns)
            if all(ended) and not joined:
                return

    def _waiting(self, side: Side) -> int:
        return sum(lane.inbox.waiting(side) for lane in self.lanes)

    def _push(self, side: Side, chunk: list[Input]) -> None:
        now = self._now()
        parts = self.codec.decode_batch(side, [record.value for record in chunk])
        records: defaultdict[int, list[tuple[int, bytes | None, Parts | Fault, object]]]
        records = defaultdict(list)
        if parts:
            self.suspicion.look(side, parts[-1])
        for record, found in zip(chunk, parts, strict=True):
            for lane in self._lanes_of(record, found):
                records[lane].append((self.offsets[side][lane], record.key, found, record))
                self.offsets[side][lane] += 1
        for lane, batch in records.items():
            self.lanes[lane].inbox.push(side, batch, now)

    def _lanes_of(self, record: Input, parts: Parts | Fault) -> Iterable[int]:
        """A WATERMARK without a key speaks for every partition: nobody said which one is meant."""
        if record.key is not None:
            return (lane_of(record.key, self.partitions),)
        watermark = not isinstance(parts, Fault) and parts[4] == Kind.WATERMARK
        return range(self.partitions) if watermark else (0,)

    def _turn(self, running: Running) -> Effects | None:
        moment = Moment(
            now=self._now(),
            writer="",
            owner="",
            address="",
            limit=self.config.turn.max_records,
            max_skew=self.config.max_skew,
        )
        plan = plan_turn(running, moment, (True, True))
        if plan is None:
            return None
        position = running.changelog_position + 1
        self.stores[running.lane].apply(plan.rows, plan.buckets, plan.checkpoint, position)
        settle_turn(running, plan, running.changelog_position, position)
        return plan.effects

    def _now(self) -> int | None:
        return self.config.now_in_unit(time.time() * 1000)

    def _running(self, lane: int, store: LaneStore) -> Running:
        config = self.config
        span = span_of(config.lateness, config.max_interval)
        layout = Layout(
            config.unit, config.lateness, config.max_interval, span, "", "", "", config.join.type
        )
        checkpoint = Checkpoint(
            epoch=1, sequence=0, writer="", owner="", address="", released=False,
            left_position=0, right_position=0, watermarks=Watermarks(), rows=0, size=0,
            layout=layout,
        )  # fmt: skip
        # As with topics that were created with the broker's defaults.
        larger = TOPIC_BYTES_DEFAULT + SPARE_BYTES
        limits = Limits(TOPIC_BYTES_DEFAULT, larger, larger)
        settings = join_settings(config, self.codec, limits, layout)
        return Running(
            lane=lane,
            checkpoint=checkpoint,
            settings=settings,
            state=resumed(None, store, layout),
            changelog_position=0,
            changelog_first=0,
        )
