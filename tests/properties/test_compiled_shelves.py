"""The compiled loop that decides records, where the rows of a side stand on shelves."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native import loops
from schemas.records import INT64_MAX
from state.overlap import overlapping
from state.side import FEW, Rows, put
from tests.properties.test_compiled_join import FREE, Given, full, insert, shelves
from tests.properties.test_join import GENE

pytestmark = pytest.mark.skipif(loops is None, reason="the loops are not compiled here")

LENGTHS = [0, 1, 2, 3, 9, 60, 700]
ODD_SHELVES = [
    {"rows": []},
    {"rows": ()},
    {"rows": [(1, 2)]},
    {"rows": [(2**70, 1, "x", 9, 0, b"")]},
    {"rows": [(9, 2**70, "x", 9, 0, b"")]},
    {"rows": [(9, 1, "x", 9, None, b"")]},
    {"longest": 2**70},
    {"longest": INT64_MAX},
    {"longest": None},
]


def shelved(**parts: Any) -> Rows:
    """A side with one shelf, of lengths of four bits; a part of the shelf is as given."""
    side = full(FEW + 1)
    (shelf,) = side.shelves or []
    for name, part in parts.items():
        setattr(shelf, name, part)
    return side


@pytest.mark.parametrize("parts", ODD_SHELVES, ids=str)
def test_an_unusual_shelf_is_a_doubt(parts: dict[str, Any]) -> None:
    call = Given((Rows(), shelved(**parts)))
    call.decide(insert(0, "a"))
    assert len(call.doubts) == 1
    assert (call.deciding.pairs, call.deciding.inserted) == ([], [])


@pytest.mark.parametrize("parts", [*ODD_SHELVES[:4], {"bits": None}, {"bits": 5}], ids=str)
def test_an_unusual_shelf_is_not_added_to(parts: dict[str, Any]) -> None:
    side = shelved(**parts)
    call = Given((side, Rows()))
    assert side.shelves is not None
    before = list(side.shelves[0].rows)
    call.decide(insert(0, "a", 9, 2))
    assert len(call.doubts) == 1
    assert "a" not in side
    assert list(side.shelves[0].rows) == before


@given(GENE, st.integers(0, 900), st.sampled_from([0, 5, 3000]))
@settings(deadline=None, max_examples=60)
def test_many_rows_stand_and_are_found_as_in_python(gene: int, count: int, disorder: int) -> None:
    """In order, nearly in order, and in none."""
    chance = Random(gene)
    window, call = (Rows(), Rows()), Given((Rows(), Rows()), (*FREE[:2], 10**6, *FREE[3:]))
    doubts = 0

    def doubtful(record: Any, _watermark: int | None) -> bool:
        """The first of many, and a length that has no shelf yet."""
        nonlocal doubts
        doubts += 1
        call.deciding.pairs.extend(taken(call.table[b"k"], record))
        return True

    call.doubtful = doubtful  # type: ignore[assignment, method-assign]
    expected = []
    for number in range(count):
        end = 3 * number + chance.randint(-disorder, disorder)
        start = end - chance.choice(LENGTHS)
        record = insert(chance.choice([0, 0, 1]), f"r{number}", end, start)
        call.decide(record)
        expected += taken(window, record)
    assert call.deciding.pairs == expected
    for one, other in zip(window, call.table[b"k"], strict=True):
        assert (list(one.items()), shelves(one)) == (list(other.items()), shelves(other))
    # Among few each one that does not come last, then each class of lengths once a side.
    assert doubts <= 2 * (FEW + 1 + len(LENGTHS))


def taken(window: Any, record: Any) -> list[Any]:
    """What Python makes of a plain insert: its pairs; the row is in the window then."""
    _, side, _, _, row, _ = record
    found = overlapping(window[1 - side], row[1], row[0])
    put(window[side], row)
    return [(other, row, record) if side else (row, other, record) for other in found]
