"""Runs of entries: where they end, and that damage is not taken for an end."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from state.cursor import run, runs, some

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = [b"a1", b"b1", b"b2", b"b3", b"c1"]


class Reader:
    """An iterator over KEYS, which may meet a damaged block."""

    def __init__(self, damaged_at: int | None = None) -> None:
        self.at = 0
        self.damaged_at = damaged_at

    def seek(self, key: bytes) -> None:
        self.at = bisect_left(KEYS, key)

    def valid(self) -> bool:
        return self.at < len(KEYS) and self.at != self.damaged_at

    def key(self) -> bytes:
        return KEYS[self.at]

    def value(self) -> bytes:
        return b"of " + KEYS[self.at]

    def next(self) -> None:
        self.at += 1

    def status(self) -> None:
        if self.at == self.damaged_at:
            raise OSError("damaged")


class Store:
    """KEYS as a store has them, perhaps with a damaged block."""

    def __init__(self, damaged_at: int | None = None) -> None:
        self.damaged_at = damaged_at

    def iter(self) -> Reader:
        return Reader(self.damaged_at)

    def items(self, *, from_key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Ends at the damage, without a word."""
        reader = self.iter()
        reader.seek(from_key)
        while reader.valid():
            yield reader.key(), reader.value()
            reader.next()


@pytest.mark.parametrize("first", [b"a", b"b", b"b2", b"b4", b"c", b"d"])
@pytest.mark.parametrize("prefix", [b"", b"b", b"c", b"x"])
@pytest.mark.parametrize("count_max", [0, 1, 2, 9])
def test_some_are_the_first_of_a_run(first: bytes, prefix: bytes, count_max: int) -> None:
    expected = list(islice(run(Reader(), first, prefix), count_max))
    assert some(Store(), first, prefix, count_max) == expected


def test_damage_is_no_end() -> None:
    assert some(Store(3), b"b", b"b", 2) == [(b"b1", b"of b1"), (b"b2", b"of b2")]
    with pytest.raises(OSError, match="damaged"):
        some(Store(3), b"b", b"b", 3)
    with pytest.raises(OSError, match="damaged"):
        some(Store(1), b"b", b"b", 1)


def test_runs_are_those_of_each_prefix() -> None:
    assert [key for key, _ in runs(Reader(), [b"a", b"b2", b"b9", b"c"])] == [b"a1", b"b2", b"c1"]
    with pytest.raises(OSError, match="damaged"):
        runs(Reader(4), [b"a", b"b"])
