from __future__ import annotations

import pytest

from schemas.match_id import is_match_id, match_id, split_match_id, unmatched_id
from schemas.records import Side


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("l1", "r1", b"L:l1|R:r1"),
        ("", "", b"L:|R:"),
        ("a|R:b", "c", b"L:a%7CR:b|R:c"),
        ("100%", "%7C", b"L:100%25|R:%257C"),
        ("L:x", "\N{EURO SIGN}", b"L:L:x|R:\xe2\x82\xac"),
    ],
)
def test_escapes_only_what_it_must(left: str, right: str, expected: bytes) -> None:
    assert match_id(left, right) == expected
    assert split_match_id(expected) == (left, right)
    # Each half of it names a row that nothing matches.
    halves = unmatched_id(Side.LEFT, left), unmatched_id(Side.RIGHT, right)
    assert b"|".join(halves) == expected
    assert [is_match_id(name) for name in (expected, *halves)] == [True, False, False]


@pytest.mark.parametrize("name", [b"", b"L:a", b"L:a|r:b", b"a|R:b", b"L:a|R:b|R:c", b"L:\xff|R:b"])
def test_refuses_what_is_no_match_id(name: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a match id|utf-8"):
        split_match_id(name)
