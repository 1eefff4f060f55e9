from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import moment_of, whole_number
from schemas.varint import Malformed


@pytest.mark.parametrize(
    ("text", "scale", "number"),
    [
        ("0", 1, 0),
        ("-0", 1, 0),
        ("9223372036854775807", 1, 2**63 - 1),
        ("9007199254740993", 1, 2**53 + 1),
        ("9007199254740993.0", 1, 2**53 + 1),
        ("1e3", 1, 1000),
        ("1.5E1", 1, 15),
        ("1200e-2", 1, 12),
        ("-1740981600.123", 1000, -1740981600123),
        ("1740981600.123456789", 10**9, 1740981600123456789),
        ("9" * 40, 1, int("9" * 40)),
    ],
)
def test_a_number_is_exact(text: str, scale: int, number: int) -> None:
    assert whole_number(text, scale) == number


@pytest.mark.parametrize(
    "text",
    ["", "1.5", "1e-1", "1740981600.1234", "+1", "01", "1.", ".5", " 1", "1_0", "NaN", "0x1",
     "1e100", "9" * 41, "\u0661", "1e+", "--1", "1\n"],
)  # fmt: skip
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        whole_number(text, 1 if "." not in text else 1 if len(text) < 5 else 1000)


@pytest.mark.parametrize(
    ("text", "unit", "moment"),
    [
        ("1970-01-01T00:00:00Z", "ms", 0),
        ("1969-12-31T23:59:59.999Z", "ms", -1),
        ("2025-03-03T06:00:00Z", "ms", 1740981600000),
        ("2025-03-03t07:30:00.250+01:30", "ms", 1740981600250),
        ("2025-03-03 06:00:00.5-00:00", "us", 1740981600500000),
        ("2025-03-03T06:00:00.123456789z", "ns", 1740981600123456789),
        ("0001-01-01T00:00:00Z", "ms", -62135596800000),
    ],
)
def test_a_text_is_exact(text: str, unit: str, moment: int) -> None:
    assert moment_of(text, unit) == moment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2025-03-03T06:00:00", "not an RFC 3339 time"),
        ("2025-03-03", "not an RFC 3339 time"),
        ("2025-03-03T06:00Z", "not an RFC 3339 time"),
        ("2025-03-03T06:00:00.1234567890Z", "not an RFC 3339 time"),
        ("2025-03-03T06:00:00.0001Z", "digits would be lost"),
        ("2025-02-29T06:00:00Z", "day is out of range"),
        ("2025-03-03T24:00:00Z", "no such time of day"),
        ("2025-03-03T06:60:00Z", "no such time of day"),
        ("2025-03-03T06:00:60Z", "no such time of day"),
        ("2025-03-03T06:00:00+01:60", "no such time of day"),
        ("0000-03-03T06:00:00Z", "year 0 is out of range"),
        ("x" * 1000, r"\.\.\.,"),
    ],
)
def test_what_is_no_moment_is_refused(text: str, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        moment_of(text, "ms")


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001
    st.integers(-23 * 60, 23 * 60),
)
def test_agrees_with_the_calendar(moment: datetime, ahead_min: int) -> None:
    ahead = timezone(timedelta(minutes=ahead_min))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = (moment.replace(tzinfo=ahead) - epoch) // timedelta(microseconds=1)
    assert moment_of(moment.replace(tzinfo=ahead).isoformat(), "us") == expected
