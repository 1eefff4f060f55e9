"""What stands in a reset's way, and what of the output is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.kafka.cluster import Extent, Topic
from app.kafka.scan import Read
from app.reset import live_matches, problems
from app.rights import missing, to_reset
from app.topics import names
from tests.unit.jobs import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def topic(partitions: int, policy: str = "delete") -> Topic:
    return Topic("id", partitions, {"cleanup.policy": policy})


def found(**changes: Topic | None) -> dict[str, Topic]:
    topics = {
        "l": topic(3),
        "r": topic(3),
        "out": topic(7, "compact"),
        "job-changelog": topic(3),
        "job-rejects": topic(3),
    } | {name.replace("_", "-"): one for name, one in changes.items()}
    return {name: one for name, one in topics.items() if one is not None}


@pytest.mark.parametrize(
    "topics",
    [
        found(),
        found(out=None, job_changelog=None, job_rejects=None),
        # Of a job whose inputs have got partitions since.
        found(job_changelog=topic(2), job_rejects=topic(1)),
        found(job_rejects=topic(3, "compact,delete")),
    ],
)
def test_nothing_is_in_the_way(tmp_path: Path, topics: dict[str, Topic]) -> None:
    assert problems(job(tmp_path), topics) == []


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        (found(l=None), ['left topic "l" does not exist']),
        (found(r=topic(2)), ['left topic "l" has 3 partitions, right topic "r" has 2']),
        (found(job_changelog=topic(4)), ["job-changelog has 4 partitions", "delete that topic"]),
        (found(job_rejects=topic(4)), ["job-rejects has 4 partitions", "but the inputs have 3"]),
        (found(job_rejects=topic(3, "compact")), ["job-rejects is compacted", "cleanup.policy"]),
    ],
)
def test_what_a_person_must_mend(
    tmp_path: Path, topics: dict[str, Topic], words: list[str]
) -> None:
    (line,) = problems(job(tmp_path), topics)
    for word in words:
        assert word in line


def test_more_partitions_are_given_only_by_who_may_alter(tmp_path: Path) -> None:
    may = frozenset({"Describe", "DescribeConfigs", "Read", "Write", "Delete"})
    topics = {
        name: one._replace(rights=may)
        for name, one in found(job_changelog=topic(2), job_rejects=None).items()
    }
    called = names(job(tmp_path))
    assert missing(called, topics, to_reset(called, topics, 2)) == []
    (line,) = missing(called, topics, to_reset(called, topics, 3))
    assert line == 'changelog topic "job-changelog" may not be used: grant Alter'


class Output:
    """An output topic of two partitions."""

    def __init__(self, *partitions: list[Read]) -> None:
        self.partitions = partitions

    def scan(self, name: str, partition: int, start: int, end: int) -> Iterator[list[Read]]:
        assert (name, start, end) == ("out", 0, 9)
        yield []
        yield self.partitions[partition]


def test_live_results_are_ours_and_not_taken_back(tmp_path: Path) -> None:
    records: list[tuple[bytes | None, bytes | None, int]] = [
        (b"L:a|R:b", b"1", 5),
        (b"L:a|R:c", b"1", 6),
        (b"L:a|R:b", b"2", 7),
        (b"L:a|R:c", None, 8),
        (b"L:never", None, 9),
        (b"somebody else's", b"1", 10),
        (None, b"1", 11),
        (b"R:unmatched", b"1", 12),
    ]
    first = [Read(0, at, key, value, ms) for at, (key, value, ms) in enumerate(records)]
    output: Any = Output(first, [Read(1, 0, b"L:a|R:d", b"1", 13)])
    assert list(live_matches(job(tmp_path), output, [Extent(0, 9, 9)] * 2)) == [
        {b"L:a|R:b": 7, b"R:unmatched": 12},
        {b"L:a|R:d": 13},
    ]
