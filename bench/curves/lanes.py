"""Lanes without Kafka: what a worker does with a batch of polled records, but the client's part.

Decoding, merging, joining, the changelog record, the store's write (RocksDB), windows: by the same
functions as in `app.worker`, in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from app.join import JoinSettings, LaneState
from app.process import (
    Moment,
    Plan,
    Running,
    bound_windows,
    plan_turn,
    settle_turn,
    timestamped,
    trim_windows,
)
from app.run import WRITE_BUFFER_BYTES
from app.settings import BLOCK_CACHE_PART
from bench.avro import EVENT_SCHEMA
from schemas.avro_codec import AvroCodec
from schemas.fields import Fields
from state.checkpoint import Checkpoint, Layout, Watermarks, encode_turn
from state.resources import Resources
from state.retention import span_of
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from bench.curves.events import Incoming, Setting
    from schemas.records import Arrival, Side
    from state.keys import StoredRow

MESSAGE_BYTES_MAX: Final = 1_000_000
MEGABYTE: Final = 1024 * 1024


class Batch(NamedTuple):
    """What was polled of one side of a lane."""

    offsets: list[int]
    keys: list[bytes]
    values: list[bytes]


@dataclass
class Lanes:
    """All lanes of one worker."""

    setting: Setting
    directory: Path
    matches: int = 0
    loads: int = 0
    """Windows that were read from a store."""
    dropped: int = 0
    """Buckets that came to their end."""
    running: list[Running] = field(default_factory=list)
    _stores: list[LaneStore] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._codec = AvroCodec(([EVENT_SCHEMA], [EVENT_SCHEMA]), (Fields(), Fields()))
        memory = self.setting.cache_mb * MEGABYTE
        block_cache = memory // BLOCK_CACHE_PART
        self._windows_bytes = memory - block_cache
        resources = Resources(block_cache, WRITE_BUFFER_BYTES)
        self._offsets = [[0, 0] for _ in range(self.setting.lanes)]
        for number in range(self.setting.lanes):
            store = LaneStore.open(self.directory / f"lane-{number}", resources)
            self._stores.append(store)
            self.running.append(self._lane(number, store))

    def _lane(self, number: int, store: LaneStore) -> Running:
        setting = self.setting
        lateness, longest = setting.lateness, setting.max_interval
        span = span_of(lateness, longest)
        layout = Layout("ms", lateness, longest, span, "changelog", "left", "right")
        nothing = Watermarks()
        checkpoint = Checkpoint(
            epoch=1, sequence=0, writer="bench", owner="bench", address="", released=False,
            left_position=0, right_position=0, watermarks=nothing, rows=0, size=0, layout=layout,
        )  # fmt: skip

        def load(buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
            self.loads += len(keys)
            return store.windows(buckets, keys)

        def probe(
            buckets: Sequence[int], records: list[Arrival], span: int
        ) -> tuple[list[StoredRow], list[bytes]]:
            rows, doubtful = store.probe(buckets, records, span)
            self.loads += len(records) - len(doubtful)
            return rows, doubtful

        state = LaneState(nothing, {}, load, span)
        state.windows.probe = probe
        return Running(
            lane=number,
            checkpoint=checkpoint,
            settings=JoinSettings(
                lateness=lateness,
                max_interval=longest,
                span=span,
                max_future=None,
                match_bytes_max=MESSAGE_BYTES_MAX,
                row_bytes_max=MESSAGE_BYTES_MAX,
                match_value=self._codec.match_value,
            ),
            state=state,
            changelog_position=0,
            changelog_first=0,
        )

    @property
    def rows(self) -> int:
        """Stored rows of all lanes."""
        return sum(running.checkpoint.rows for running in self.running)

    def polled(self, incoming: Sequence[Incoming]) -> dict[tuple[Side, int], Batch]:
        """The records as the client would give them; no part of what is measured."""
        batches: defaultdict[tuple[Side, int], Batch] = defaultdict(lambda: Batch([], [], []))
        for side, lane, key, value in incoming:
            batch = batches[side, lane]
            batch.offsets.append(self._offsets[lane][side])
            batch.keys.append(key)
            batch.values.append(value)
            self._offsets[lane][side] += 1
        return batches

    def step(self, polled: dict[tuple[Side, int], Batch]) -> None:
        """One turn of all lanes."""
        for (side, lane), batch in polled.items():
            parts = self._codec.decode_batch(side, batch.values)
            records = zip(batch.offsets, batch.keys, parts, repeat(None), strict=False)
            self.running[lane].inbox.push(side, records)
        moment = Moment(
            now=None, writer="bench", owner="bench", address="", limit=self.setting.turn, max_skew=0
        )
        for running in self.running:
            plan = plan_turn(running, moment, (True, True))
            if plan is not None:
                self._commit(running, plan)
        trim_windows(self.running)
        bound_windows(self.running, self._windows_bytes)

    def _commit(self, running: Running, plan: Plan) -> None:
        first = running.changelog_position
        written = encode_turn(plan.checkpoint, plan.rows, plan.buckets, MESSAGE_BYTES_MAX)
        position = first + len(list(written))
        if plan.effects is not None:
            matches = timestamped(plan.effects.matches, 1, plan.checkpoint.watermarks.left or 1)
            self.matches += len(matches)
            self.dropped += len(plan.effects.dropped)
        store = self._stores[running.lane]
        store.apply(plan.rows, plan.buckets, plan.checkpoint, position)
        settle_turn(running, plan, first, position)

    def close(self) -> None:
        """Close the stores."""
        for store in self._stores:
            store.close()
