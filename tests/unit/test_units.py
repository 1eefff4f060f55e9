from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.units import NANOSECONDS, SIZES, TICKS_PER_MS, duration, size


@given(st.integers(0, 10**30), st.sampled_from(sorted(NANOSECONDS)), st.sampled_from(["ms", "us"]))
def test_durations_are_exact(number: int, suffix: str, unit: str) -> None:
    ticks = duration(f"{number}{suffix}", unit)
    assert ticks * NANOSECONDS["ms"] == number * NANOSECONDS[suffix] * TICKS_PER_MS[unit]


@given(st.integers(0, 10**30), st.sampled_from(["ms", "us", "ns", "none"]))
def test_integers_are_ticks(number: int, unit: str) -> None:
    assert duration(number, unit) == number == duration(str(number), unit)


@pytest.mark.parametrize("raw", ["", "s", "1.5s", "1,5s", "1s1s", "ten", "1S", "1 week", "٣s"])
def test_what_is_no_duration(raw: str) -> None:
    with pytest.raises(ValueError, match="must be an integer, or a duration"):
        duration(raw, "ms")


@pytest.mark.parametrize(("suffix", "factor"), SIZES.items())
def test_sizes(suffix: str, factor: int) -> None:
    assert size(f"3{suffix}") == 3 * factor == size(f"3 {suffix}")
    assert size(3) == size("3") == 3


@pytest.mark.parametrize("raw", [0, "0 B", -1, "1TB", "1mb", "x"])
def test_what_is_no_size(raw: int | str) -> None:
    with pytest.raises(ValueError, match="must be"):
        size(raw)
