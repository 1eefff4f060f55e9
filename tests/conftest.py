"""What all tests share: hypothesis's profiles, and the marker of tests that need the broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci", max_examples=150, deadline=None, print_blob=True, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.register_profile(
    "nightly", max_examples=5_000, deadline=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# How wide tables are must not depend on where the tests run.
os.environ.pop("COLUMNS", None)

# An assertion that fails shows its values also in what tests share.
pytest.register_assert_rewrite("tests.simulation", "tests.kafka")

KAFKA_TESTS = Path(__file__).parent / "kafka"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/kafka needs the broker, and says so by its marker."""
    for item in items:
        if KAFKA_TESTS in item.path.parents:
            item.add_marker(pytest.mark.kafka)
