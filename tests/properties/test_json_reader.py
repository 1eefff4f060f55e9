"""The quick way to a JSON event's parts against the general one, over all kinds of texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.fields import Fields, TimeUnits
from schemas.json_reader import DOUBTS, JsonReader
from schemas.varint import Malformed

if TYPE_CHECKING:
    from schemas.records import Parts

NAMES = ["id", "ts", "start", "end", "kind"]
FIELDS = Fields(kind_may_miss=True)
numbers = (
    st.integers(-(2**70), 2**70)
    | st.sampled_from([2**53 + 1, 2**63, 2**64, -0.0, 1.0, 1e3, 2.5, 1e22, 2.0**53])
    | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = numbers | st.text(max_size=5) | st.booleans() | st.none() | numbers.map(str)
leaves = scalars | st.sampled_from(["INSERT", "RETRACT", "kind", '"ts"', "\\u0074s"])
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """An object with the event's fields, mostly, in any spelling, and perhaps damaged."""
    members: list[tuple[str, Any]] = [("id", draw(st.text(max_size=5) | anything))]
    members += [(name, draw(numbers | anything)) for name in ("ts", "start", "end")]
    members += draw(st.lists(st.tuples(st.sampled_from([*NAMES, "x", "y"]), anything), max_size=3))
    members = draw(st.permutations(members))[draw(st.integers(0, 5)) // 5 :]
    ascii_only = draw(st.booleans())
    space = draw(st.sampled_from(["", " ", "\n"]))

    def dumped(item: object) -> str:
        return json.dumps(item, ensure_ascii=ascii_only)

    def name_of(name: str) -> str:
        spelt = f"\\u{ord(name[0]):04x}{name[1:]}"
        return f'"{spelt}"' if draw(st.integers(0, 20)) == 0 else dumped(name)

    pairs = [f"{name_of(name)}{space}:{dumped(item)}" for name, item in members]
    text = bytearray(f"{{{','.join(pairs)}}}".encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(text)


def general(reader: JsonReader, value: bytes) -> Parts | None:
    try:
        return reader.read(value)
    except Malformed:
        return None


@given(texts(), st.sampled_from([None, "s", "rfc3339"]))
@settings(deadline=None, max_examples=300)
def test_finds_what_the_general_reader_finds_or_is_in_doubt(value: bytes, unit: str | None) -> None:
    reader = JsonReader(FIELDS._replace(units=TimeUnits(unit, None, "ms")), "ms")
    try:
        found = reader.extract(value)
    except DOUBTS:
        return
    assert found == general(reader, value)


@given(st.text(max_size=10), st.integers(-(2**63), 2**63 - 1), st.text(max_size=20))
@settings(deadline=None)
def test_is_in_no_doubt_about_usual_values(row_id: str, ts: int, payload: str) -> None:
    record = {"id": row_id, "ts": ts, "start": ts, "end": ts + 1, "payload": payload}
    try:
        value = json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    reader = JsonReader(FIELDS, "ms")
    if b"\\u" in value or any(
        f'"{name}"'.encode() in json.dumps(payload).encode() for name in NAMES
    ):
        return
    if row_id in NAMES or payload in NAMES:
        return
    assert reader.extract(value) == (ts + 1, ts, row_id, ts, 0, value)
