"""What is written of a reject always fits into its topic, and is read back as it was."""

from __future__ import annotations

from typing import Final

import pytest

from app.kafka.rejects import (
    DETAIL_BYTES_MIN,
    RECORD_BYTES_SPARE,
    Copied,
    Headers,
    Made,
    Reject,
    note_for,
    note_of,
    record_of,
    reject_of,
    replayed_headers,
)
from app.kafka.scan import Whole
from schemas.records import Reason, Rejected

PLENTY: Final = 1_000_000
LEAST: Final = RECORD_BYTES_SPARE + DETAIL_BYTES_MIN + 400
"""What the smallest record may take: spare, a cut detail, and the other headers of ours."""


def copied(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> Copied:
    return Copied(("left", 3, 17), key, value, headers or [])


def made(
    source: Copied, bytes_max: int = PLENTY, *, detail: str = "why", match_id: bytes | None = None
) -> Made:
    reject = Rejected(17, Reason.LATE, detail, source, match_id)
    return record_of(reject, source, bytes_max)


def read_back(record: Made) -> Whole:
    return Whole(3, 5, record.key, record.value, 1_000, record.headers)


OURS: Final[Headers] = [
    ("reason", b"late"), ("topic", b"left"), ("partition", b"3"), ("offset", b"17"),
    ("detail", b"why"),
]  # fmt: skip


def test_an_input_is_copied_whole_and_read_back() -> None:
    own: Headers = [("trace", b"\0\xff"), ("reason", b"the user's own"), ("empty", None)]
    record = made(copied(b"k", b"v", own))
    assert record[:2] == (b"k", b"v")
    assert record.headers == [*own, *OURS]
    reject = reject_of(read_back(record))
    assert reject == Reject(
        (3, 5), 1_000, "late", ("left", 3, 17), "why", b"k", b"v", own, again=False
    )


def test_a_replay_says_where_it_was_rejected_last() -> None:
    own: Headers = [("replayed-from", b"rejects/3/1"), ("trace", b"t")]
    reject = reject_of(read_back(made(copied(b"k", b"v", own))))
    assert reject is not None
    assert reject.again
    assert replayed_headers(reject, "rejects") == [
        ("trace", b"t"),
        ("replayed-from", b"rejects/3/5"),
    ]
    note = Whole(3, 9, None, None, 0, note_for(reject))
    assert note_of(note) == 5
    assert reject_of(note) is None


@pytest.mark.parametrize(
    "headers",
    [[], [("replayed", b"x")], [("replayed", b"1"), ("more", b"1")], OURS[:4], [*OURS, ("a", b"")]],
)
def test_what_others_write_is_neither_reject_nor_note(headers: Headers) -> None:
    read = Whole(0, 0, b"k", b"v", 0, headers)
    assert reject_of(read) is None
    assert note_of(read) is None


@pytest.mark.parametrize("over", [0, 1])
def test_the_value_is_given_up_at_the_very_edge(over: int) -> None:
    source = copied(b"k", b"v" * 5_000, [("trace", b"t")])
    whole = made(source)
    assert len(whole.value or b"") == 5_000
    record = made(source, whole.size - over)
    assert record == (whole if not over else (b"k", b"", OURS))


def test_what_was_null_stays_null() -> None:
    assert made(copied(b"k" * 5_000, None, [("trace", b"t" * 5_000)]), 8_000).value is None


def test_a_long_detail_keeps_its_ends() -> None:
    detail = "begin " + "ä" * 10_000 + " end"
    record = made(copied(b"k", b"v"), 4_000, detail=detail)
    text = dict(record.headers)["detail"]
    assert isinstance(text, bytes)
    assert text.decode().startswith("begin ä")
    assert text.decode().endswith("ä end")
    assert len(text) <= DETAIL_BYTES_MIN + len(" ... ")
    assert record.size <= 4_000


@pytest.mark.parametrize("match_id", [None, b"L:" + b"l" * 9_000])
def test_a_key_that_does_not_fit_is_given_up_last(match_id: bytes | None) -> None:
    source = copied(b"k" * 9_000, b"v" * 9_000, [("trace", b"t" * 9_000)])
    record = made(source, LEAST, detail="d" * 9_000, match_id=match_id)
    assert record.size <= LEAST
    assert record.key == (None if match_id is None else b"")
    assert record.value == b""
    reject = reject_of(read_back(record))
    assert reject is not None
    assert (reject.reason, reject.origin) == ("late", ("left", 3, 17))


def test_a_match_stands_under_its_id_without_a_value() -> None:
    record = made(copied(b"k", b"v", [("trace", b"t")]), match_id=b"L:a|R:b")
    assert record == (b"L:a|R:b", b"", [("trace", b"t"), *OURS])
