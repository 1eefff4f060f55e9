"""Which rejects are meant, and how one is written for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from app.errors import UsageError
from app.kafka.rejects import Reject
from app.rejects import Choice, Chosen, _show, parse_place, parse_reason, parse_time, row_of
from schemas.records import Side
from tests.unit.jobs import job

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS: Final = 1_741_000_000_000
REJECT: Final = Reject((2, 7), NOW_MS, "late", ("l", 3, 17), "why", b"k", b"v", [("h", b"1")])


class NoCodec:
    """Decodes nothing."""

    def decode_event(self, value: bytes) -> dict[str, Any]:
        raise ValueError(value)


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        (Choice(), True),
        (Choice(reasons=frozenset({"late", "null_key"})), True),
        (Choice(reasons=frozenset({"null_key"})), False),
        (Choice(side=Side.LEFT), True),
        (Choice(side=Side.RIGHT), False),
        (Choice(partition=3), True),
        (Choice(partition=2), False),
        (Choice(since_ms=NOW_MS), True),
        (Choice(since_ms=NOW_MS + 1), False),
        (Choice(until_ms=NOW_MS + 1), True),
        (Choice(until_ms=NOW_MS), False),
        (Choice(key=b"k"), True),
        (Choice(key=b""), False),
        (Choice(place=(2, 7)), True),
        (Choice(place=(3, 17)), False),
        (Choice(side=Side.LEFT, partition=3, key=b"other"), False),
    ],
)
def test_every_condition_has_to_hold(choice: Choice, *, meant: bool) -> None:
    assert choice.takes(REJECT, Side.LEFT) is meant


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("90 s", NOW_MS - 90_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1970-01-01T01:00+01:00", 0),
    ],
)
def test_times_are_moments_or_ago(text: str, ms: int) -> None:
    assert parse_time("--since", text, NOW_MS) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "2 weeks", "-2h", "2025-13-01"])
def test_other_times_are_refused_by_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--since takes a time"):
        parse_time("--since", text, NOW_MS)


def test_places_and_reasons() -> None:
    assert parse_place("2/17") == (2, 17)
    for wrong in ("2", "2/", "a/1", "2/17/3", "-1/2"):
        with pytest.raises(UsageError, match="PARTITION/OFFSET"):
            parse_place(wrong)
    assert parse_reason("late") == "late"
    with pytest.raises(UsageError, match="none of null_value, undecodable"):
        parse_reason("Late")


def test_bytes_that_are_no_text_are_in_hexadecimal() -> None:
    reject = REJECT._replace(key=b"\xff", headers=[("a", None), ("b", b"\xfe"), ("c", b"text")])
    row = row_of(Chosen(reject, None, replayed=True), NoCodec())  # type: ignore[arg-type]
    assert row == {
        "at": "2/7", "time": NOW_MS, "reason": "late", "side": None, "topic": "l",
        "partition": 3, "offset": 17, "detail": "why", "replayed": True, "again": False,
        "key_hex": "ff", "value": "v",
        "headers": [
            {"name": "a", "value": None}, {"name": "b", "value_hex": "fe"},
            {"name": "c", "value": "text"},
        ],
    }  # fmt: skip


def test_a_detail_is_wrapped_and_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = "field 'from' is '2025-12-01T00:00:00.000000000Z', no whole number of ms; " * 2
    chosen = Chosen(REJECT._replace(detail=detail.strip()), Side.LEFT, replayed=False)
    monkeypatch.setenv("COLUMNS", "100")
    _show(job(tmp_path), "rejects", [chosen], 1, NoCodec())  # type: ignore[arg-type]
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    told = "".join(cells[6].strip() for cells in rows)
    assert told.replace(" ", "") == detail.replace(" ", "")
