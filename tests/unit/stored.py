"""A lane on paper: what its store must hold after each turn, worked out in the plainest way."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from schemas.records import Side
from state.checkpoint import Bucket, Checkpoint, Layout, Watermarks, encode_turn
from state.keys import parse_row_key, parse_row_value, row_key, row_value, rows_digest
from state.resources import Resources
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LAYOUT = Layout("ms", 10, 50, 15, "changelog-id", "left-id", "right-id")
CHECKPOINT = Checkpoint(
    epoch=1,
    sequence=0,
    writer="job-6b1d",
    owner="worker-1",
    address="127.0.0.1:8080",
    released=False,
    left_position=0,
    right_position=0,
    watermarks=Watermarks(),
    rows=0,
    size=0,
    layout=LAYOUT,
)
RECORD_BYTES_MAX = 1_000_000


class Turn(NamedTuple):
    """What a turn hands to the changelog and, committed, to the store."""

    rows: dict[bytes, bytes]
    buckets: dict[int, Bucket]
    checkpoint: Checkpoint

    def encode(self, bytes_max: int = RECORD_BYTES_MAX) -> list[bytes]:
        """The turn's changelog records."""
        return encode_turn(self.checkpoint, self.rows, self.buckets, bytes_max)


@dataclass
class Paper:
    """Rows by bucket, directory and checkpoint after the turns so far."""

    stored: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    buckets: dict[int, Bucket] = field(default_factory=dict)
    checkpoint: Checkpoint = CHECKPOINT

    def turn(self, rows: Mapping[bytes, bytes], dropped: Iterable[int] = ()) -> Turn:
        """The next turn: writes these rows, then drops these buckets."""
        changed = set(dropped)
        for key, value in rows.items():
            bucket = parse_row_key(key).bucket
            changed.add(bucket)
            self.stored.setdefault(bucket, {})[key] = value
        for bucket in dropped:
            self.stored.pop(bucket, None)
        entries = {number: entry_of(self.stored.get(number, {})) for number in sorted(changed)}
        self.buckets = {
            number: entry for number, entry in (self.buckets | entries).items() if entry.rows
        }
        self.checkpoint = replace(
            self.checkpoint,
            sequence=self.checkpoint.sequence + 1,
            left_position=self.checkpoint.left_position + len(rows),
            rows=sum(entry.rows for entry in self.buckets.values()),
            size=sum(entry.size for entry in self.buckets.values()),
        )
        return Turn(dict(rows), entries, self.checkpoint)

    @property
    def rows(self) -> dict[bytes, bytes]:
        """All rows."""
        return {key: value for rows in self.stored.values() for key, value in rows.items()}

    def branch(self) -> Paper:
        """A copy that goes its own way, as a worker does that lost its lane unknowingly."""
        return deepcopy(self)

    @property
    def held(self) -> Held:
        """What a store must hold now."""
        return self.rows, self.buckets, self.checkpoint

    def claim(self, writer: str = "job-next") -> Turn:
        """Somebody takes the lane over: an epoch more, nothing else."""
        self.checkpoint = replace(self.checkpoint, epoch=self.checkpoint.epoch + 1, writer=writer)
        return Turn({}, {}, self.checkpoint)


def entry_of(rows: Mapping[bytes, bytes]) -> Bucket:
    """The directory entry that these rows of one bucket make."""
    parsed = [parse_row_key(key) for key in rows]
    return Bucket(
        rows=len(rows),
        size=sum(len(key) + len(value) for key, value in rows.items()),
        digest=sum(rows_digest([key], value[0]) for key, value in rows.items()) % 2**64,
        longest=max((row.end - row.start for row in parsed), default=0),
        remembered=0,
        first_offset=0,
    )


def row(
    number: int, *, bucket: int = 0, key: bytes = b"key", flags: int = 0, body: bytes = b"body"
) -> tuple[bytes, bytes]:
    """A row key and value; the side alternates with the number."""
    start = bucket * LAYOUT.span
    name = row_key(bucket, Side(number % 2), key, start + number % 5, start, f"id-{number}")
    return name, row_value(flags, start, body)


def open_store(path: Path) -> LaneStore:
    """A store with resources of its own."""
    return LaneStore.open(path, Resources(8 << 20, 8 << 20))


Held = tuple[dict[bytes, bytes], dict[int, Bucket], Checkpoint | None]


def held_by(store: LaneStore) -> Held:
    """Everything a store holds, to be compared with a `Paper`."""
    return dict(store.scan()), store.buckets(), store.checkpoint


def seen_in(rows: Mapping[bytes, bytes], buckets: Iterable[int], key: bytes) -> set[object]:
    """What `LaneStore.windows` must find, as a set."""
    wanted = set(buckets)
    found: set[object] = set()
    for row_key_, value in rows.items():
        bucket, side, join_key, end, start, row_id = parse_row_key(row_key_)
        if bucket in wanted and join_key == key:
            found.add((bucket, side, key, (end, start, row_id, *parse_row_value(value))))
    return found
