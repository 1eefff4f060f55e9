"""The rows, the bucket directory and the checkpoint of one lane, in a RocksDB of its own.

    00 'v'             version of this layout
    00 'c'             checkpoint
    00 'p'             position: the next changelog offset
    00 'd' bucket (8)  directory entry of a live bucket
    01 ...             rows, see state/keys.py
    02 ...             of an outer join, its index of them, see state/due.py

Invariant: all of it is what one committed turn left, never half of one. A change is a single
WriteBatch of rows, drops, directory, checkpoint and position, and RocksDB's log makes a batch all
or nothing. A process that is killed loses no batch whose write returned, for the page cache has
it, and leaves no part of another. A host that goes down loses a suffix of whole batches, which a
replay from the position brings back. Hence no sync and no "clean shutdown" to look for. The log
stays on during a restore, too: it costs 0.2 us a row there, and without it the first logged write
after unlogged ones could survive a crash that they do not.
"""

from __future__ import annotations

import shutil
from collections import deque
from contextlib import suppress
from itertools import islice, starmap, takewhile
from struct import Struct
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from traceback import clear_frames
from typing import TYPE_CHECKING, Final

from rocksdict import Rdict, RdictIter, WriteBatch, WriteOptions

from state.checkpoint import (
    Bucket,
    Checkpoint,
    decode_bucket,
    decode_checkpoint,
    encode_bucket,
    encode_checkpoint,
)
from state.cursor import run, runs, some
from state.disk import StoreDamaged, StoreError, bytes_of_data, store_error
from state.due import DUE, entries_of, entry_range, indexed_sides
from state.keys import ROW, RUN_TAIL, bucket_range, parse_rows
from state.presence import Presence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from schemas.records import Arrival
    from state.checkpoint import Layout
    from state.keys import StoredRow
    from state.resources import Resources

SCAN_ROWS: Final = 4096
"""Read at once: about 3 ms."""
LEARNT_PER_KEY: Final = 32
"""Rows that the store looks at for a key that is looked up, while it does not know them all."""

_VERSION: Final = b"1"
_META: Final = b"\x00"
_VERSION_KEY: Final = _META + b"v"
_CHECKPOINT_KEY: Final = _META + b"c"
_POSITION_KEY: Final = _META + b"p"
_DIRECTORY: Final = _META + b"d"
_OFFSET: Final = Struct(">q")


class LaneStore:
    """The store of one lane; one thread at a time, not always the same.

    `checkpoint` is None and `position` 0 until something was applied. Once an operation raised
    StoreError every other raises it again, but for `close` and `wipe`: what is in memory here may
    be ahead of what is on disk.
    """

    checkpoint: Checkpoint | None
    position: int

    _batch: WriteBatch
    _directory: dict[int, Bucket]
    _failed: StoreError | None
    _open_db: Rdict | None
    _presence: Presence | None
    _reader: RdictIter | None
    _staged_entries: dict[int, Bucket]

    def __init__(self, path: Path, resources: Resources) -> None:
        self.path = path
        self._resources = resources
        self._write_options = WriteOptions()
        self._open()

    @classmethod
    def open(cls, path: Path, resources: Resources) -> LaneStore:
        """Open the store in a directory, or make it.

        Raises StoreLocked (it is open elsewhere), StoreDamaged (`destroy` it and replay),
        StoreFull, StoreError.
        """
        return cls(path, resources)

    @staticmethod
    def destroy(path: Path) -> None:
        """Remove a store that is not open, whatever its condition; fine if there is none."""
        # First what makes it a store: one that is half removed must never be opened as an older
        # state of itself, which is what it would be without its log alone.
        (path / "CURRENT").unlink(missing_ok=True)
        if path.exists():
            shutil.rmtree(path)

    def buckets(self) -> dict[int, Bucket]:
        """The directory: an entry for every live bucket."""
        return dict(self._directory)

    def apply(
        self,
        rows: Mapping[bytes, bytes],
        buckets: Mapping[int, Bucket],
        checkpoint: Checkpoint | None,
        position: int,
    ) -> None:
        """Write what one committed turn did, all of it or nothing. Raises StoreError.

        `rows` are row values by row key. `buckets` are the directory entries that changed; one
        without rows drops its bucket, this turn's rows included. `position` is the changelog
        offset after the turn.
        """
        # In order, RocksDB finds the place of a row next to that of the one before: half the cost.
        keys = sorted(rows)
        newest = checkpoint or self.checkpoint
        layout = None if newest is None else newest.layout
        self.stage(zip(keys, map(rows.__getitem__, keys), strict=True), buckets, layout)
        self.commit(checkpoint, position)

    def stage(
        self,
        rows: Iterable[tuple[bytes, bytes]],
        buckets: Mapping[int, Bucket],
        layout: Layout | None,
    ) -> None:
        """Add a committed turn to what `commit` will write; until then nothing reads it.

        Turns are staged in their order. Rows are cheapest when sorted. `layout` says what is
        indexed; it never changes.
        """
        put, presence = self._batch.put, self._presence
        sides = indexed_sides(layout)
        if presence is not None or sides:
            rows = list(rows)
            keys = [key for key, _ in rows]
            for name in entries_of(keys, sides):
                put(name, b"")
            if presence is not None:
                presence.add(keys)
        deque(starmap(put, rows), maxlen=0)
        for bucket, entry in buckets.items():
            if not entry.rows:
                self._batch.delete_range(*bucket_range(bucket))
                if layout is not None and sides:
                    self._batch.delete_range(*entry_range(bucket, layout.span))
                if presence is not None:
                    presence.drop(bucket)
            self._staged_entries[bucket] = entry

    @property
    def staged(self) -> int:
        """Bytes that wait for `commit`."""
        return self._batch.size_in_bytes()

    def commit(self, checkpoint: Checkpoint | None, position: int) -> None:
        """Write what was staged, and where the lane is after it, at once. Raises StoreError.

        On another thread it would hold up this one as well: the binding keeps the interpreter.
        """
        assert position >= self.position, f"{position} is behind position {self.position}"
        batch, entries = self._batch, self._staged_entries
        for bucket, entry in entries.items():
            key = _DIRECTORY + _OFFSET.pack(bucket)
            if entry.rows:
                batch.put(key, encode_bucket(entry))
            else:
                batch.delete(key)
        if checkpoint is not None:
            batch.put(_CHECKPOINT_KEY, encode_checkpoint(checkpoint))
        batch.put(_POSITION_KEY, _OFFSET.pack(position))
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise self._failure(error) from error
        for bucket, entry in entries.items():
            if entry.rows:
                self._directory[bucket] = entry
            else:
                self._directory.pop(bucket, None)
        self.checkpoint = checkpoint or self.checkpoint
        self.position = position
        self._unstage()

    def discard(self) -> None:
        """Forget what was staged."""
        if self._staged_entries and self._presence is not None:
            self.track()  # A drop that will not happen was noted already.
        self._unstage()

    def windows(self, buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
        """Every stored row of these join keys in these buckets, of both sides, in their order.

        Raises StoreError.
        """
        return self._read(self._informed(len(keys)).find(buckets, keys))

    def probe(
        self, buckets: Sequence[int], records: list[Arrival], span: int
    ) -> tuple[list[StoredRow], list[bytes]]:
        """What these buckets, of that span, hold that these records may match, in its order.

        That is, for INSERTs of ids that are certainly not there, the rows of the other side that
        end no sooner than they start. The second are the keys of all other records; of these no
        rows were read. Raises StoreError.
        """
        firsts, doubtful = self._informed(len(records)).screen(buckets, records, span)
        return self._read(firsts, RUN_TAIL), doubtful

    def _read(self, firsts: list[bytes], tail: int = 0) -> list[StoredRow]:
        """The rows of these `runs`."""
        if not firsts:
            return []
        # In the order of the store what is near is read once: blocks are decompressed for many.
        firsts.sort()
        try:
            return parse_rows(runs(self._cursor(), firsts, tail))
        except Exception as error:
            raise self._failure(error) from error

    def _informed(self, keys: int) -> Presence:
        """The notes on what is here; some more of it is noted for every key that is looked up."""
        presence = self._presence or self.track()
        if presence.unknown and keys:
            rows = self.rows_after(presence.learnt, LEARNT_PER_KEY * keys)
            try:
                presence.learn([name for name, _ in rows])
            except Exception as error:
                raise self._failure(error) from error
        return presence

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Every stored row, sorted by key, read in chunks. Raises StoreError."""
        chunk = self.rows_after(b"", SCAN_ROWS)
        while chunk:
            yield from chunk
            chunk = self.rows_after(chunk[-1][0], SCAN_ROWS)

    def rows_after(self, row_key: bytes, count_max: int) -> list[tuple[bytes, bytes]]:
        """The first rows whose key is greater, sorted by key. Raises StoreError."""
        try:
            first = max(row_key + b"\x00", ROW)
            return some(self._db, first, ROW, count_max)
        except Exception as error:
            raise self._failure(error) from error

    def due(self, first: bytes, after: bytes, count_max: int) -> list[bytes]:
        """The first entries of the index (`state.due`) in [first, after). Raises StoreError."""
        try:
            entries = (entry for entry, _ in run(self._cursor(), max(first, DUE), DUE))
            return list(islice(takewhile(after.__gt__, entries), count_max))
        except Exception as error:
            raise self._failure(error) from error

    def track(self) -> Presence:
        """Begin to note which buckets hold which keys and ids, so as not to seek in all of them.

        Not from the start: as long as a lane has all its windows in memory nothing is looked up
        here, and the notes would cost 0.2 us a row for nothing. Rows of the buckets that live now
        are unknown to it until the caller adds them, or enough was looked up.
        """
        self._presence = Presence(self._directory)
        self._presence.expect(max((entry.rows for entry in self._directory.values()), default=0))
        return self._presence

    def bytes_on_disk(self) -> int:
        """What the rows take there now, with dropped ones that are not compacted away yet."""
        return bytes_of_data(self.path)

    def wipe(self) -> None:
        """Start over with an empty store in the same directory. Raises StoreError."""
        self._abandon()
        self.destroy(self.path)
        self._open()

    def close(self) -> None:
        """Flush and close: up to a second; the second time nothing. Raises StoreError.

        Nothing is lost if it raises, or is never called.
        """
        self._reader = None  # An open iterator would keep the files open, and the lock.
        db, self._open_db = self._open_db, None
        if db is None:
            return
        try:
            db.close()
        except Exception as error:
            raise store_error(self.path, error) from error

    def _cursor(self) -> RdictIter:
        # It sees the store as it was when it was made, so one serves until the next write; making
        # one costs as much as a seek.
        if self._reader is None:
            self._reader = self._db.iter()
        return self._reader

    @property
    def _db(self) -> Rdict:
        if self._failed is not None:
            raise self._failed
        if self._open_db is None:
            raise StoreError(f"store {self.path} is closed")
        return self._open_db

    def _open(self) -> None:
        self.checkpoint = None
        self.position = 0
        self._directory = {}
        self._presence = None
        self._failed = None
        self._open_db = None
        self._unstage()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._open_db = Rdict(str(self.path), self._resources.options())
            self._load(self._open_db)
        except Exception as error:
            self._abandon()
            raise self._failure(error) from error

    def _load(self, db: Rdict) -> None:
        """Read what the newest batch left, and look whether its parts agree."""
        version = db.get(_VERSION_KEY)
        if version is None and next(run(db.iter(), b"", b""), None) is None:
            db.put(_VERSION_KEY, _VERSION)
        elif version != _VERSION:
            raise StoreDamaged(f"store {self.path}: its layout is {version!r}, not {_VERSION!r}")
        encoded, position = db.get(_CHECKPOINT_KEY), db.get(_POSITION_KEY)
        self.checkpoint = None if encoded is None else decode_checkpoint(encoded)
        self.position = 0 if position is None else _OFFSET.unpack(position)[0]
        for key, value in run(db.iter(), _DIRECTORY, _DIRECTORY):
            (bucket,) = _OFFSET.unpack(key[len(_DIRECTORY) :])
            self._directory[bucket] = decode_bucket(value)
        if self.checkpoint is None and self._directory:
            raise StoreDamaged(f"store {self.path}: it has a directory and no checkpoint")

    def _unstage(self) -> None:
        self._batch = WriteBatch(raw_mode=True)
        self._staged_entries = {}
        self._reader = None

    def _failure(self, error: Exception) -> StoreError:
        """The typed error, which is what every later call gets, too."""
        # The traceback would keep iterators alive in its frames, and they the files and the lock.
        clear_frames(error.__traceback__)
        if isinstance(error, StoreError):
            self._failed = error
        elif isinstance(error, ValueError | StructError):
            self._failed = StoreDamaged(f"store {self.path}: {error}")
        else:
            self._failed = store_error(self.path, error)
        return self._failed

    def _abandon(self) -> None:
        """Close, whatever the vendor says to it."""
        with suppress(StoreError):
            self.close()
