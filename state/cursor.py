"""Runs of a store's entries in the order of their keys."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Cursor(Protocol):
    """An iterator as RocksDB has it: a place among the keys, that may be past the last one."""

    def seek(self, key: bytes) -> None:
        """Go to the first entry whose key is not less."""

    def valid(self) -> bool:
        """Whether there is an entry here."""

    def key(self) -> bytes:
        """Its key."""

    def value(self) -> bytes:
        """Its value."""

    def next(self) -> None:
        """Go to the next entry."""

    def status(self) -> None:
        """Raises what has ended the iteration, if it was not the last key."""


class Entries(Protocol):
    """All entries of a store."""

    def items(self, *, from_key: bytes) -> Iterable[Any]:
        """(key, value) of each that is not less, read in one go."""

    def iter(self) -> Cursor:
        """A cursor over them."""


def run(reader: Cursor, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries from `first` on, as long as they begin with `prefix`.

    RocksDB's iterators end at a damaged block as they do at the last key; only the status tells
    the two apart. (So do `items`, `keys` and `values`, which drop it.)
    """
    reader.seek(first)
    while reader.valid():
        key = reader.key()
        if not key.startswith(prefix):
            return
        yield key, reader.value()
        reader.next()
    reader.status()


def some(db: Entries, first: bytes, prefix: bytes, count_max: int) -> list[tuple[bytes, bytes]]:
    """The first entries of a `run`, at once: a third of the time of one by one."""
    entries: list[tuple[bytes, bytes]] = list(islice(db.items(from_key=first), count_max))
    if len(entries) < count_max:
        # `items` ends at a damaged block, too, and drops the status: so the end is looked at.
        after = entries[-1][0] + b"\x00" if entries else first
        entries += islice(run(db.iter(), after, prefix), count_max - len(entries))
    # They are in order: if the first and the last begin with it, all do.
    if entries and not (entries[0][0].startswith(prefix) and entries[-1][0].startswith(prefix)):
        beyond = [key.startswith(prefix) for key, _ in entries].index(False)
        del entries[beyond:]
    return entries


def runs(reader: Cursor, firsts: Iterable[bytes], tail: int = 0) -> list[tuple[bytes, bytes]]:
    """The entries of a run from each of these keys on, one run after the other.

    A run's entries begin with all but the last `tail` bytes of its first key.
    """
    entries: list[tuple[bytes, bytes]] = []
    seek, valid, key_here, value_here, on = (
        reader.seek, reader.valid, reader.key, reader.value, reader.next,
    )  # fmt: skip
    for first in firsts:
        seek(first)
        prefix = first[:-tail] if tail else first
        while True:
            if not valid():
                reader.status()
                break
            key = key_here()
            if not key.startswith(prefix):
                break
            entries.append((key, value_here()))
            on()
    return entries
