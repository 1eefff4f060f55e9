"""The id of a match: `L:<left id>|R:<right id>`, the same whichever side came last.

An unmatched row of an outer join has the half of its side, `L:<id>` or `R:<id>`. Invariant:
injective. `|` parts the two ids and `%` escapes, so both are percent-encoded inside an id; no
other character is touched, and an id without them stands in the match id as it is.
"""

from __future__ import annotations

from typing import Final

RESULT_KEYS: Final = (b"L:", b"R:")
"""How the keys of results begin; whatever else stands in the output is not ours."""
_SIDES: Final = ("L", "R")
_BAR: Final = b"|"


def match_id(left_id: str, right_id: str) -> bytes:
    """The output key of the match of these two rows, in UTF-8.

    Raises UnicodeEncodeError for an id with a lone surrogate; no codec lets such an id in.
    """
    if "%" in left_id or "|" in left_id:
        left_id = _escape(left_id)
    if "%" in right_id or "|" in right_id:
        right_id = _escape(right_id)
    return f"L:{left_id}|R:{right_id}".encode()


def unmatched_id(side: int, row_id: str) -> bytes:
    """The output key of a row of this side that nothing matches; otherwise as `match_id`."""
    return f"{_SIDES[side]}:{_escape(row_id)}".encode()


def is_match_id(name: bytes) -> bool:
    """Whether an output key names a match, and not an unmatched row."""
    return _BAR in name


def split_match_id(name: bytes) -> tuple[str, str]:
    """The (left id, right id) of a match id. Raises ValueError for anything else."""
    left, bar, right = name.decode().partition("|")
    if not (bar and left.startswith("L:") and right.startswith("R:") and "|" not in right):
        raise ValueError(f"not a match id: {name!r}")
    return _unescape(left[2:]), _unescape(right[2:])


def _escape(text: str) -> str:
    # `%` first: its own escape must not be escaped again.
    return text.replace("%", "%25").replace("|", "%7C")


def _unescape(text: str) -> str:
    return text.replace("%7C", "|").replace("%25", "%")
