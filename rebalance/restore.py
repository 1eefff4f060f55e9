"""Replay of a lane's changelog into its store, and the proof that the store is what it says.

Invariant: the store is what the newest complete turn left that was written by the lane's owner of
its time. So, in log order,

* a record below the store's position is passed over: its turn is in the store already. A replay
  that begins too early, or a second one, changes nothing.
* a record of an epoch below the highest claim is passed over: somebody took the lane over before
  it was committed, and went on from a state without it.
* the parts of a turn count once the last one is there. Parts without their last one are what was
  left of a turn whose transaction was cut in two; its inputs were read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from typing import TYPE_CHECKING, Final, NamedTuple

from state.due import INDEX_END, entries_of, indexed_sides
from state.keys import DIGEST_MODULUS, LIVE, rows_digest, tally
from state.packing import count_rows, unpack_rows
from state.store import SCAN_ROWS
from state.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.checkpoint import Bucket, TurnRecord
    from state.presence import Presence
    from state.store import LaneStore

BATCH_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of one store write, about 20 ms; a turn is not divided. Small turns share one: a write costs as
much as 50 rows."""
BATCH_TURNS_MAX: Final = 500
AUDIT_ROWS: Final = 12_000
"""Rows that an audit looks at in one step: about 50 ms where they are put into windows, too."""
DIFFERENCES_MAX: Final = 20
"""Lines an audit reports; the first ones tell as much as all."""


@dataclass(slots=True)
class Figures:
    """What a replay did so far."""

    records: int = 0
    turns: int = 0
    rows: int = 0
    """Rows of those turns, and of one whose last part is still to come."""
    known: int = 0
    """Records below the store's position."""
    outdated: int = 0
    """Records of an epoch below the highest claim."""
    incomplete: int = 0
    """Records of turns whose last part never came."""


class Found(NamedTuple):
    """What is stored in one bucket: rows, bytes of keys and values, and their digest."""

    rows: int = 0
    size: int = 0
    digest: int = 0

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.size} bytes (digest {self.digest:016x})"


class Account:
    """Rows by bucket, added up: all that were put into a store, or all that are stored there."""

    def __init__(self) -> None:
        self.found: dict[int, Found] = {}

    def add(self, rows: list[tuple[bytes, bytes]], buckets: Mapping[int, Bucket]) -> bool:
        """The rows of a turn, sorted, and its directory entries; whether they are rows at all.

        A row that takes the place of another counts twice, so the account is right only of stores
        without any: of others it differs from the directory, and says nothing.
        """
        try:
            self.count(rows)
        except (LookupError, ValueError, StructError):
            return False
        for bucket, entry in buckets.items():
            if not entry.rows:
                self.found.pop(bucket, None)
        return True

    def count(self, rows: list[tuple[bytes, bytes]]) -> None:
        """More rows, sorted. Raises LookupError, ValueError, struct.error for what are no rows."""
        for bucket, count, size, digest in tally(rows):
            found = self.found.get(bucket, Found())
            self.found[bucket] = Found(
                found.rows + count, found.size + size, (found.digest + digest) % DIGEST_MODULUS
            )

    def differences(self, store: LaneStore) -> list[str]:
        """What this and the store's directory disagree in, a line a bucket."""
        lines = []
        told = store.buckets()
        for bucket in sorted(told.keys() | self.found.keys()):
            entry = told.get(bucket)
            says = Found() if entry is None else Found(entry.rows, entry.size, entry.digest)
            has = self.found.get(bucket, Found())
            if says != has:
                lines.append(f"bucket {bucket} holds {has}, the directory says {says}")
        rows, size = sum(e.rows for e in told.values()), sum(e.size for e in told.values())
        checkpoint = store.checkpoint
        if checkpoint is not None and (checkpoint.rows, checkpoint.size) != (rows, size):
            lines.append(
                f"the directory has {rows} rows of {size} bytes, the checkpoint says "
                f"{checkpoint.rows} of {checkpoint.size}"
            )
        return lines


class Replay:
    """Folds committed changelog records into a store."""

    def __init__(self, store: LaneStore) -> None:
        store.discard()  # Of another replay, that did not come to its end.
        self.figures = Figures()
        self._store = store
        self._position = store.position
        """Changelog offset after the last turn staged."""
        self._newest = store.checkpoint
        self._turns = 0
        self._parts: list[TurnRecord] = []
        self._account = Account() if store.checkpoint is None else None
        """None where rows are stored that this replay knows nothing of."""

    @property
    def position(self) -> int:
        """Changelog offset after the newest complete turn, written to the store or not yet."""
        return self._position

    def feed(self, offset: int, record: TurnRecord) -> None:
        """Take the next committed record, in log order. Raises StoreError, Unreadable."""
        self.figures.records += 1
        if offset < self._position:
            self.figures.known += 1
            return
        if self._newest is not None and record.epoch < self._newest.epoch:
            self.figures.outdated += 1
            return
        if not self._continues(record):
            self._forget_parts()
            if record.part:
                self.figures.incomplete += 1
                return
        # Now, not when it is staged: damage must not leave half a turn there.
        self.figures.rows += count_rows(record.rows)
        self._parts.append(record)
        if record.checkpoint is not None:
            self._complete(offset + 1)

    @property
    def proven(self) -> bool:
        """Whether all that the store holds came by here, and is what its directory says.

        Certain where it is true; what it is otherwise only an `Audit` can tell. After `finish`.
        """
        return self._account is not None and not self._account.differences(self._store)

    def flush(self) -> None:
        """Write every complete turn. Parts of an incomplete one wait. Raises StoreError."""
        if self._turns:
            self._store.commit(self._newest, self._position)
            self._turns = 0

    def finish(self, position: int) -> Figures:
        """Write everything, and that the changelog was read up to `position`.

        For when nothing older can be committed any more: an incomplete turn is dropped. Raises
        StoreError.
        """
        self._forget_parts()
        if position > self._position:
            self._position = position
            self._store.commit(self._newest, position)
            self._turns = 0
        self.flush()
        return self.figures

    def _continues(self, record: TurnRecord) -> bool:
        """Whether this is the next part of the turn that is being collected."""
        if not self._parts:
            return record.part == 0
        last = self._parts[-1]
        return record[:3] == last[:3] and record.part == last.part + 1

    def _forget_parts(self) -> None:
        self.figures.incomplete += len(self._parts)
        self.figures.rows -= sum(count_rows(part.rows) for part in self._parts)
        self._parts.clear()

    def _complete(self, position: int) -> None:
        self._newest = self._parts[-1].checkpoint
        assert self._newest is not None, "the last part of a turn has its checkpoint"
        for part in self._parts:
            rows = unpack_rows(part.rows)
            self._store.stage(rows, part.buckets, self._newest.layout)
            if self._account is not None and not self._account.add(rows, part.buckets):
                self._account = None
        self._parts.clear()
        self._position = position
        self._turns += 1
        self.figures.turns += 1
        if self._store.staged >= BATCH_BYTES_MAX or self._turns >= BATCH_TURNS_MAX:
            self.flush()


class Audit:
    """Recomputes the bucket directory and the index from the stored rows, in bounded steps.

    The lane must not be written meanwhile. By the way the rows are put into windows, if `warm`, or
    else the store learns which buckets hold which keys, which makes its first read of a key cheap.
    """

    def __init__(self, store: LaneStore, *, warm: bool = False) -> None:
        self.warm = Warm() if warm else None
        self._store = store
        self._last = b""
        self._presence: Presence | None = None
        self._account = Account()
        self._faults: list[str] = []
        layout = None if store.checkpoint is None else store.checkpoint.layout
        self._sides = indexed_sides(layout)
        self._entry = b""
        self._made, self._indexed = [0, 0], [0, 0]
        """Entries of the index by end, and their digest: as the rows make them; as they are."""

    @property
    def rows(self) -> int:
        """Rows looked at so far, but for damaged ones."""
        return sum(found.rows for found in self._account.found.values())

    def step(self) -> bool:
        """Look at the next AUDIT_ROWS rows; returns whether that was all. Raises StoreError."""
        for _ in range(0, AUDIT_ROWS, SCAN_ROWS):
            if not (self._look_at_rows() or self._look_at_index()):
                if self._presence is not None:
                    self._presence.unknown.clear()
                return True
        return False

    def _look_at_rows(self) -> bool:
        """The next rows; whether there were any."""
        rows = self._store.rows_after(self._last, SCAN_ROWS)
        if not rows:
            return False
        self._last = rows[-1][0]
        try:
            self._add(rows)
        except (LookupError, ValueError, StructError) as error:
            self._faults.append(f"a row up to {self._last.hex()} is damaged: {error!r}")
        return True

    def _look_at_index(self) -> bool:
        """The next entries of the index; whether there were any."""
        entries = self._store.due(self._entry, INDEX_END, SCAN_ROWS)
        if not entries:
            return False
        self._entry = entries[-1] + b"\x00"
        _count(entries, self._indexed)
        return True

    def differences(self) -> list[str]:
        """What the stored rows, the directory and the index disagree in, a line each."""
        lines = self._faults[:DIFFERENCES_MAX]
        lines += self._account.differences(self._store)[: DIFFERENCES_MAX - len(lines)]
        if self._made != self._indexed:
            (count, digest), (made, other) = self._indexed, self._made
            lines.append(
                f"the index by end has {count} entries (digest {digest:016x}), the rows make "
                f"{made} ({other:016x})"
            )
        return lines

    def _add(self, rows: list[tuple[bytes, bytes]]) -> None:
        names = [row_key for row_key, _ in rows]
        if self.warm is not None:
            self.warm.add(rows)
        else:
            self._presence = self._presence or self._store.track()
            self._presence.add(names)
        _count(entries_of(names, self._sides), self._made)
        self._account.count(rows)


def _count(entries: list[bytes], into: list[int]) -> None:
    into[0] += len(entries)
    into[1] = (into[1] + rows_digest(entries, LIVE)) % DIGEST_MODULUS


def directory_differences(store: LaneStore) -> list[str]:
    """What a store's rows and directory disagree in: all of an `Audit` at once, 2 us a row."""
    audit = Audit(store)
    while not audit.step():
        pass
    return audit.differences()
