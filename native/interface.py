"""What `compiled` offers. Each function is a second version of a Python one, named with it.

Where one of them is in doubt it asks that Python version, its argument `doubtful`, or returns None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Program(NamedTuple):
    """How to read the values of one schema, see `schemas.program`.

    `steps`: one field after the other. `kinds`: by the number of a symbol, what it stands for.
    `sources`: which of the noted times are end, start and ts; `scales`: what they are multiplied
    by.
    """

    header: bytes
    steps: bytes
    kinds: bytes
    sources: tuple[int, int, int]
    scales: tuple[int, int, int]


class Pieces(NamedTuple):
    """What the matches of a job are put together from, see `schemas.concatenation`.

    `headers`: the headers of both inputs, one after the other -> the match's. `header_size`: of
    an input's. `left`, `right`: what stands before the body of each side.
    """

    headers: dict[bytes, bytes]
    header_size: int
    left: bytes
    right: bytes


class Deciding(NamedTuple):
    """What plain INSERTs of a turn are decided with, see `app.decide`.

    `table`: windows by key; `open`: makes that of a key that is not there. `pairs`, `inserted`:
    what is decided is added here. `bounds`: those of `app.validity.Limits`, then the lateness, the
    most bytes of key and value, the most pairs.
    """

    table: dict[bytes, Any]
    open: Callable[[bytes], Any]
    pairs: list[Any]
    inserted: list[Any]
    bounds: tuple[int, int, int, int, int, int, int]


class Loops(Protocol):
    """The compiled module."""

    def decode(
        self,
        programs: tuple[Program, ...],
        values: Iterable[bytes | None],
        doubtful: Callable[[bytes | None], Any],
    ) -> list[Any]:
        """`schemas.extractor`: the parts of each value, or what `doubtful(value)` says."""

    def arrive(
        self,
        waiting: list[Any],
        side: int,
        records: Iterable[Any],
        top: int,
        limits: tuple[int, int, int, int],
        doubtful: Callable[..., int],
    ) -> int:
        """`app.merge.Inbox.push`: appends records with their rank; the rank of the last."""

    def decide(
        self,
        records: list[Any],
        deciding: Deciding,
        watermarks: tuple[int | None, int | None, int | None],
        counting: tuple[bool, bool],
        doubtful: Callable[[Any, int | None], bool],
    ) -> tuple[int, int | None, int | None, int | None]:
        """`app.decide.decide`: (records taken, watermarks of lane, left and right)."""

    def matches(
        self,
        pairs: list[Any],
        pieces: Pieces,
        room: int,
        doubtful: Callable[[Any], Any],
    ) -> list[Any]:
        """`app.effects.emitted`: the match of each pair, or what `doubtful(pair)` says if any."""

    def groups(
        self, added: list[Any], span: int
    ) -> list[tuple[int, int, dict[bytes, bytes], int, int, int]] | None:
        """`app.effects.stored_rows`: (bucket, side, rows, bytes of keys, of values, longest)."""

    def pack(self, rows: dict[bytes, bytes]) -> bytes | None:
        """`state.packing.pack_rows`."""

    def unpack(self, packed: bytes) -> list[tuple[bytes, bytes]] | None:
        """`state.packing.unpack_rows`."""

    def tally(
        self, entries: list[tuple[bytes, bytes]]
    ) -> list[tuple[int, int, list[bytes]]] | None:
        """`state.keys.tally`: (bucket, bytes, what is hashed)."""

    def mark(
        self, names: list[bytes], at: int, cells: bytearray, patterns: bytes, room: int
    ) -> tuple[int, int]:
        """`state.presence.Presence.add`, of one bucket, side and length of keys."""

    def screen(
        self,
        records: list[Any],
        filters: list[tuple[int, bytearray | None]],
        patterns: tuple[bytes, bytes],
        span: int,
    ) -> tuple[list[bytes], list[bytes]]:
        """`state.presence.Presence.screen`."""

    def parse(self, entries: list[tuple[bytes, bytes]]) -> list[Any] | None:
        """`state.keys.parse_rows`."""

    def place(
        self,
        rows: list[Any],
        table: dict[bytes, Any],
        row_cost: int,
        make: Callable[[], Any],
        doubtful: Callable[[Any, Any], None],
    ) -> dict[int, int]:
        """`state.window.place`: what the rows cost, by bucket."""

    def prefixes(
        self,
        keys: list[bytes],
        filters: list[tuple[int, bytearray | None]],
        left: bytes,
        right: bytes,
    ) -> list[bytes]:
        """`state.presence.Presence.find`."""

    def expire(
        self,
        table: dict[bytes, Any],
        keys: list[bytes],
        bound: int,
        budget: int,
        costs: tuple[int, int],
        doubtful: Callable[[Any, int], int],
    ) -> int:
        """`state.window.expire`: the bytes freed; `costs` are those of a row and of a window."""

    def remove_windows(
        self,
        keys: list[bytes],
        table: dict[bytes, Any],
        costs: dict[int, int],
        span: int,
        row_cost: int,
        window_cost: int,
    ) -> int:
        """`state.window.remove`: the bytes freed."""

    def sweep(
        self,
        bytes_to_free: int,
        table: dict[bytes, Any],
        costs: dict[int, int],
        span: int,
        row_cost: int,
        window_cost: int,
    ) -> int:
        """`state.window.sweep`: the bytes freed."""
