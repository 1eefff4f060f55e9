"""Each compiled loop against the Python function that says what is right."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import app.effects
import app.merge
import state.checkpoint
import state.keys
import state.packing
import state.window
from app.effects import Decisions, emitted, stored_rows
from app.merge import Inbox
from native import loops
from schemas.concatenation import Concatenation
from schemas.extractor import Wanted
from schemas.program import program_of
from schemas.reader import fields_of
from schemas.records import INT64_MAX, INT64_MIN, Fault, Kind, Reason, Side
from schemas.varint import encode_long
from state.checkpoint import Unreadable
from state.keys import parse_rows, rows_digest, tally
from state.packing import pack_rows, unpack_rows
from state.window import Windows
from tests.lane import settings_of
from tests.properties.test_extractor import EVENT_FIELDS, HEAD, WANTED, general, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from native.interface import Program
    from tests.properties.test_reader import Json

pytestmark = pytest.mark.skipif(loops is None, reason="the loops are not compiled here")

DOUBT = object()
TS = 1_700_000_000_000
TOO_LARGE = st.sampled_from([INT64_MAX + 1, INT64_MIN - 1, 2**80])
usual = st.one_of(st.integers(-5, 5), st.integers(TS, TS + 9))
times = st.one_of(usual, st.integers(INT64_MIN, INT64_MAX), TOO_LARGE)
ids = st.one_of(st.text("a|%é€😀", max_size=4), st.text(max_size=3), st.just("x" * 200))


@contextmanager
def in_python(module: ModuleType) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "loops", None)
        yield


def program_for(schema: Json, wanted: Wanted = WANTED) -> Program | None:
    parsed: Any = fastavro.parse_schema(schema)
    named = parsed["__named_schemas"]
    program = program_of(fields_of(parsed, named), named, wanted)
    return program and program._replace(header=HEAD)


def decode(program: Program | None, *given: bytes | None) -> list[Any]:
    assert loops is not None
    assert program is not None
    return loops.decode((program,), given, lambda _: DOUBT)


@given(values())
@settings(deadline=None, max_examples=500)
def test_a_value_is_what_the_general_reader_finds_or_a_doubt(drawn: tuple[Json, bytes]) -> None:
    schema, body = drawn
    program = program_for(schema)
    if program is not None:
        (found,) = decode(program, HEAD + body)
        assert found is DOUBT or found == general(schema, HEAD + body)


def record(*fields: tuple[str, Json]) -> Json:
    kinds = [{"name": name, "type": kind} for name, kind in (*EVENT_FIELDS.items(), *fields)]
    return {"type": "record", "name": "E", "fields": kinds}


def sized(raw: bytes) -> bytes:
    return encode_long(len(raw)) + raw


@given(st.integers(INT64_MIN, INT64_MAX), st.text(max_size=100), st.binary(max_size=200))
@example(TS, "x" * 63, b"")
@settings(deadline=None, max_examples=100)
def test_is_in_no_doubt_about_usual_values(ts: int, row_id: str, payload: bytes) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "double"}]}
    program = program_for(record(("payload", ["null", "bytes"]), ("inner", inner)))
    start = encode_long(max(INT64_MIN, ts - 5))
    body = sized(row_id.encode()) + encode_long(ts) + start + encode_long(ts) + b"\x04"
    value = HEAD + body + b"\x02" + sized(payload) + b"12345678"
    parts = ts, max(INT64_MIN, ts - 5), row_id, ts, int(Kind.INSERT), value
    assert decode(program, value, value[:-1], value + b"\x00", b"", None) == [parts] + [DOUBT] * 4


ENUM = {"type": "enum", "name": "N", "symbols": ["a", "b"]}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("boolean", b"\x01", b"\x02"),
        ("int", encode_long(2**31 - 1), encode_long(2**31)),
        ("int", encode_long(-(2**31)), encode_long(-(2**31) - 1)),
        ("long", encode_long(INT64_MIN), b"\xff" * 9 + b"\x02"),
        ("bytes", b"\x02x", b"\x01"),
        ("string", sized("é".encode()), sized(b"\xff")),
        (ENUM, b"\x02", b"\x04"),
        (ENUM, b"\x00", b"\x01"),
        (["null", "boolean"], b"\x02\x01", b"\x04"),
        (["null", "boolean"], b"\x00", b"\x01"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", b"ab"),
    ],
)
def test_doubts_what_is_no_datum(kind: Json, good: bytes, bad: bytes) -> None:
    head = HEAD + sized(b"a") + 3 * encode_long(TS) + b"\x04"
    parts = TS, TS, "a", TS, int(Kind.INSERT), head + good
    assert decode(program_for(record(("x", kind))), head + good, head + bad) == [parts, DOUBT]


def test_times_are_multiplied_or_a_doubt() -> None:
    """Fields may be the same, and what is larger than 64 bits is for Python."""
    wanted = Wanted("id", "ts", "ts", "end", None, scales=(1000, 1000, 3))
    fields = [{"name": "id", "type": "string"}]
    fields += [{"name": name, "type": "long"} for name in ("end", "ts")]
    program = program_for({"type": "record", "name": "E", "fields": fields}, wanted)
    one, two = (HEAD + sized(b"a") + encode_long(end) + encode_long(7) for end in (5, 2**62))
    assert decode(program, one, two) == [(15, 7000, "a", 7000, 0, one), DOUBT]


@pytest.mark.parametrize(
    "kind", [{"type": "array", "items": "int"}, ["null", {"type": "map", "values": "int"}]]
)
def test_has_no_program_for_lists(kind: Json) -> None:
    assert program_for(record(("x", kind))) is None


inserts = st.integers(0, 20).flatmap(
    lambda ts: st.tuples(
        st.just(ts + 9), st.just(ts - 9), ids, st.just(ts), st.just(int(Kind.INSERT)), st.just(b"")
    )
)
odd = st.tuples(times, times, ids, times, st.integers(0, 2), st.just(b"v"))
fault = st.just(Fault(Reason.UNDECODABLE, ""))
pushes = st.lists(
    st.tuples(st.sampled_from([b"k", b"k", b"k", None]), st.one_of(inserts, inserts, odd, fault)),
    max_size=6,
)


@given(pushes, st.one_of(st.none(), st.integers(0, 20)), st.booleans())
@settings(deadline=None, max_examples=300)
def test_records_get_the_same_ranks(drawn: list[Any], now: int | None, bounded: bool) -> None:
    rules = settings_of(10, 50, max_future=3) if bounded else None
    records = [(at, *each, object()) for at, each in enumerate(drawn)]

    def pushed() -> tuple[Any, Any]:
        inbox = Inbox(rules)
        inbox.push(Side.RIGHT, iter(records), now)
        inbox.push(Side.RIGHT, records, now)
        return inbox._waiting, inbox._tops

    compiled = pushed()
    with in_python(app.merge):
        assert compiled == pushed()


HEADERS = {b"aaaa": b"one", b"aabb": b"another", b"bbaa": b"", b"bbbb": b"four"}
bodies = st.tuples(st.sampled_from([b"aa", b"bb"]), st.binary(max_size=20)).map(b"".join)
usual_rows = st.tuples(usual, usual, ids, usual, st.just(0), bodies)
rows = st.one_of(
    usual_rows,
    usual_rows,
    usual_rows,
    st.tuples(times, times, ids, times, st.integers(0, 3), st.one_of(bodies, st.binary())),
)
arrival = (1, 0, 2, b"k", None, "source")


@given(
    st.lists(st.tuples(rows, rows, st.sampled_from([arrival, arrival, None])), max_size=3),
    st.sampled_from([[b"", b""], [b"\x02", b""], [b"\x02", b"\x02"]]),
    st.one_of(st.integers(-1, 60), st.sampled_from([10**6, 2**40])),
)
@settings(deadline=None, max_examples=300)
def test_pairs_become_the_same_matches(pairs: list[Any], marks: list[bytes], room: int) -> None:
    value = Concatenation(HEADERS, 2, marks, LookupError)

    def outcome() -> object:
        try:
            return emitted(pairs, value, app.effects.MATCH_OVERHEAD + room)
        except (LookupError, UnicodeEncodeError) as error:
            return type(error), error.args

    compiled = outcome()
    with in_python(app.effects):
        assert compiled == outcome()


added = st.lists(
    st.tuples(
        st.sampled_from([0, 1]), st.binary(max_size=3),
        st.sampled_from([-41, 0, TS, INT64_MAX, 2**64]),
        st.sampled_from([0, 5, 17, 2**63]), ids, st.integers(-5, 5), st.binary(max_size=5),
    ),
    max_size=12, unique_by=lambda one: one[4],
)  # fmt: skip


@given(added, added, st.sampled_from([1, 7, 1000, 2**40]))
@settings(deadline=None, max_examples=300)
def test_rows_become_the_same_bytes(inserted: list[Any], kept: list[Any], span: int) -> None:
    def records(drawn: list[Any]) -> list[Any]:
        return [
            (0, side, 0, key, (end, end - length, row_id, ts, 0, value), None)
            for side, key, end, length, row_id, ts, value in drawn
        ]

    decisions = Decisions(inserted=records(inserted), remembered=records(kept))

    def stored() -> object:
        windows = Windows(lambda _buckets, _key: (), {}, span)
        try:
            found, figures = stored_rows(decisions, windows)
        except Exception as error:  # noqa: BLE001 - a number that does not fit
            return type(error)
        figured = [
            (bucket, figure.on_top_of(state.checkpoint.Bucket(*[0] * 6)))
            for bucket, figure in figures.items()
        ]
        return list(found.items()), figured, windows.size, windows._costs

    compiled = stored()
    with in_python(app.effects):
        assert compiled == stored()


@given(st.dictionaries(st.binary(max_size=4), st.binary(max_size=300), max_size=20))
@settings(deadline=None, max_examples=200)
def test_rows_are_packed_the_same(stored: dict[bytes, bytes]) -> None:
    compiled = pack_rows(stored)
    with in_python(state.packing):
        assert compiled == pack_rows(stored)


names = st.tuples(
    st.sampled_from([-41, 0, TS, INT64_MIN, INT64_MAX]), st.sampled_from(list(Side)),
    st.binary(max_size=3), st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([-5, 0, 5]),
    st.sampled_from([0, INT64_MIN, INT64_MAX]), ids,
)  # fmt: skip
entries = st.tuples(
    names.map(lambda one: state.keys.row_key(*one)),
    st.tuples(st.integers(0, 3), st.integers(INT64_MIN, INT64_MAX), st.binary(max_size=5)).map(
        lambda one: state.keys.row_value(*one)
    ),
)


@given(st.lists(entries, max_size=20), st.lists(st.binary(max_size=40), max_size=2), st.data())
@settings(deadline=None, max_examples=300)
def test_entries_become_the_same_rows(
    stored: list[tuple[bytes, bytes]], strange: list[bytes], data: st.DataObject
) -> None:
    for damage in strange:
        if not stored:
            break
        name, value = stored[-1]
        cut = data.draw(st.integers(0, len(name)))
        damaged = name[:cut] + damage + name[cut + len(damage) :]
        stored.insert(0, data.draw(st.sampled_from([(damaged, value), (name, damage)])))

    def parsed() -> object:
        try:
            return parse_rows(stored)
        except Exception as error:  # noqa: BLE001 - what is no row
            return type(error)

    compiled = parsed()
    with in_python(state.keys):
        assert compiled == parsed()


@given(st.lists(entries, max_size=20), st.data())
@settings(deadline=None, max_examples=300)
def test_entries_come_to_the_same(stored: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stored.sort()
    if stored and data.draw(st.sampled_from([False, True])):
        strange = st.sampled_from([b"", b"\x01", b"\x04", b"\x02" * 30])
        stored[data.draw(st.integers(0, len(stored) - 1))] = (
            data.draw(strange | st.just(stored[0][0])), data.draw(strange)
        )  # fmt: skip

    def tallied() -> object:
        try:
            return list(tally(stored))
        except Exception as error:  # noqa: BLE001 - what is no row
            return type(error)

    compiled = tallied()
    with in_python(state.keys):
        assert compiled == tallied()
    digests = [
        rows_digest([name for name, value in stored if value[:1] == bytes([flags])], flags)
        for flags in range(4)
    ]
    if isinstance(compiled, list):
        assert sum(digest for *_, digest in compiled) == sum(digests)
        assert sum(rows for _, rows, _, _ in compiled) == len(stored)


@given(
    st.dictionaries(st.binary(max_size=4), st.binary(max_size=300), min_size=1, max_size=20),
    st.integers(-3, 3), st.integers(0, 40), st.binary(max_size=4),
)  # fmt: skip
@settings(deadline=None, max_examples=300)
def test_rows_are_unpacked_the_same(
    stored: dict[bytes, bytes], longer: int, at: int, damage: bytes
) -> None:
    packed = pack_rows(stored)
    assert unpack_rows(packed) == sorted(stored.items())
    packed = packed[:at] + damage + packed[at + len(damage) :]
    packed = packed[:longer] if longer < 0 else packed + bytes(longer)

    def unpacked() -> object:
        try:
            return unpack_rows(packed)
        except Unreadable as error:
            return str(error)

    compiled = unpacked()
    with in_python(state.packing):
        assert compiled == unpacked()


def test_a_match_may_take_all_the_room_there_is() -> None:
    one, two = (TS, TS, "a", TS, 0, b"aa1"), (TS, TS, "b|%", TS, 0, b"bb22")
    value = Concatenation(HEADERS, 2, [b"", b""], LookupError)
    pairs: list[Any] = [(one, one, arrival), (one, two, arrival), (two, one, arrival)]
    found, _ = emitted(pairs, value, 10**6)
    assert [name for name, _, _ in found] == [b"L:a|R:a", b"L:a|R:b%7C%25", b"L:b%7C%25|R:a"]
    size = len(found[0][0]) + len(found[0][1] or b"")
    for room, count in ((size, 1), (size - 1, 0)):
        matches, rejects = emitted(pairs[:1], value, app.effects.MATCH_OVERHEAD + room)
        assert (len(matches), len(rejects)) == (count, 1 - count)
