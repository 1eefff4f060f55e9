"""State and changelog stay flat over a long stream, and keys that never come back are cleaned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from app.join import LaneState, advance, join, settle
from rebalance.restore import Replay, directory_differences
from schemas.records import Record, Side
from state.checkpoint import decode_turn, encode_turn
from state.keys import parse_row_key
from state.resources import Resources
from state.store import LaneStore
from tests.lane import arrival, event, settings_of
from tests.unit.stored import CHECKPOINT, RECORD_BYTES_MAX, held_by, open_store

if TYPE_CHECKING:
    from pathlib import Path

LATENESS, MAX_INTERVAL = 10, 50
PAIRS_PER_TURN = 40
TURNS_PER_EVICTION = 5
DISK_BYTES_MAX = 800_000


class Figures(NamedTuple):
    """What must not grow."""

    rows: int
    buckets: int
    records: int
    """Changelog records that are not truncated."""
    windows: int
    notes: int
    """Bytes of the store's notes on which bucket holds which key."""


class Worker:
    """One lane's life without Kafka: joins, logs, stores, evicts and truncates."""

    def __init__(self, store: LaneStore) -> None:
        self.store = store
        self.settings = settings_of(LATENESS, MAX_INTERVAL)
        self.lane = LaneState(CHECKPOINT.watermarks, {}, store.windows, self.settings.span)
        self.lane.windows.probe = store.probe
        self.checkpoint = CHECKPOINT
        self.log: dict[int, bytes] = {}
        self.end = 0
        self.turns = 0
        self.disk: list[int] = []

    def turn(self, records: list[tuple[Side, Record]]) -> None:
        arrivals = [arrival(*record) for record in records]
        effects = join(self.lane, arrivals, self.settings, None, (True, True), self.end)
        directory = self.lane.buckets | effects.buckets
        self.checkpoint = replace(
            self.checkpoint,
            sequence=self.checkpoint.sequence + 1,
            watermarks=effects.watermarks,
            rows=sum(entry.rows for entry in directory.values()),
            size=sum(entry.size for entry in directory.values()),
        )
        first = self.end
        for value in encode_turn(self.checkpoint, effects.rows, effects.buckets, RECORD_BYTES_MAX):
            self.log[self.end] = value
            self.end += 1
        self.store.apply(effects.rows, effects.buckets, self.checkpoint, self.end)
        self.end += 1
        advance(self.lane, effects)
        settle(self.lane, effects)
        start = min([first, *(entry.first_offset for entry in self.lane.buckets.values())])
        self.log = {offset: value for offset, value in self.log.items() if offset >= start}
        self.turns += 1
        self.disk.append(self.store.bytes_on_disk())
        if self.turns % TURNS_PER_EVICTION == 0:
            self.lane.windows.evict(self.lane.windows.size)

    def figures(self) -> Figures:
        presence = self.store._presence
        return Figures(
            rows=len(list(self.store.scan())),
            buckets=len(self.store.buckets()),
            records=len(self.log),
            windows=self.lane.windows.size,
            notes=0 if presence is None else len(presence),
        )


def pair(i: int) -> list[tuple[Side, Record]]:
    """Two events that match, under a key that a few neighbours share and nobody afterwards."""
    key = b"key-%d" % (i // 7)
    return [
        (Side.RIGHT, event(f"r{i}", i - 5, i + 5, ts=i, key=key)),
        (Side.LEFT, event(f"l{i}", i - 3, i + 7, ts=i, key=key)),
    ]


def test_state_and_changelog_are_flat(tmp_path: Path) -> None:
    worker = Worker(LaneStore.open(tmp_path / "lane", Resources(1 << 20, 1 << 18)))
    worker.turn([(Side.LEFT, event("once", 0, 0, key=b"once")), *pair(0)])
    seen: list[Figures] = []
    for start in range(1, 12_000, PAIRS_PER_TURN):
        records = [record for i in range(start, start + PAIRS_PER_TURN) for record in pair(i)]
        worker.turn(records)
        if worker.turns % 10 == 0:
            seen.append(worker.figures())
        if worker.turns == 20:
            keys = {parse_row_key(name).key for name, _ in worker.store.scan()}
            assert b"once" not in keys
            assert b"key-0" not in keys

    early, late = seen[2:8], seen[-6:]
    for name in Figures._fields:
        most, now = (max(getattr(f, name) for f in half) for half in (early, late))
        assert now <= most * 1.25, f"{name} grew from {most} to {now}"
    # Files come and go in steps; all that was written is several times as much.
    assert max(worker.disk) < DISK_BYTES_MAX
    assert late[-1].rows < 4 * (2 * (LATENESS + MAX_INTERVAL))
    assert directory_differences(worker.store) == []

    # And what is left of the changelog is all of the state.
    restored = open_store(tmp_path / "restored")
    replay = Replay(restored)
    for offset, value in worker.log.items():
        replay.feed(offset, decode_turn(value))
    replay.flush()
    assert held_by(restored) == held_by(worker.store)
    assert directory_differences(restored) == []
