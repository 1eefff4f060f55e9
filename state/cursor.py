"""Runs of a store's entries in the order of their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def run(reader: Cursor, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries from `first` on, as long as they begin with `prefix`.

    RocksDB's iterators end at a damaged block as they do at the last key; only the status tells
    the two apart. (So do `items`, `keys` and `values`, which drop it: none of them is used here.)
    """
    reader.seek(first)
    while reader.valid():
        key = reader.key()
        if not key.startswith(prefix):
            return
        yield key, reader.value()
        reader.next()
    reader.status()
