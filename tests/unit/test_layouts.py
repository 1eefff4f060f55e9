"""What stands in the way of more lanes, and what a person is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.errors import UsageError
from app.layouts import Job, Request
from schemas.partition import PARTITIONERS
from state.checkpoint import Watermarks
from tests.unit.jobs import job
from tests.unit.stored import CHECKPOINT
from tests.unit.test_topics import all_five, topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.kafka.cluster import Topic
    from app.layouts import Checkpoints


class Paper(Job):
    """A job without a cluster; `keys` lie where the sample would have found them."""

    def __init__(
        self,
        directory: Path,
        request: Request,
        topics: dict[str, Topic] | None = None,
        keys: tuple[tuple[bytes, int], ...] = (),
    ) -> None:
        self.config = job(directory)
        self.request = request
        self.inputs = ("l", "r")
        self.topics = all_five() if topics is None else topics
        self._keys_there = keys

    def _places(self, _checkpoints: Checkpoints, _before: int) -> Iterator[tuple[bytes, int]]:
        return iter(self._keys_there)


@pytest.mark.parametrize(
    ("partitions", "changes", "line"),
    [
        (2, {}, "job has 3 lanes, and partitions cannot be taken away"),
        (5, {"r": topic(4)}, 'right topic "r" has 4 partitions: not 3 as the state, nor 5'),
        (3, {"l": topic(4)}, 'left topic "l" has 4 partitions: not 3 as the state, nor 3'),
    ],
)
def test_counts_that_do_not_fit(
    tmp_path: Path, partitions: int, changes: dict[str, Topic], line: str
) -> None:
    found = Paper(tmp_path, Request(partitions), all_five() | changes)
    with pytest.raises(UsageError, match=line):
        found.check([CHECKPOINT] * 3)


@pytest.mark.parametrize("changes", [{}, {"l": topic(5)}, {"l": topic(5), "r": topic(5)}])
def test_inputs_that_are_raised_or_not(tmp_path: Path, changes: dict[str, Topic]) -> None:
    Paper(tmp_path, Request(5), all_five() | changes).check([CHECKPOINT, None, CHECKPOINT])


def test_another_number_than_the_one_that_was_begun(tmp_path: Path) -> None:
    begun = replace(CHECKPOINT, resharding=5)
    Paper(tmp_path, Request(5)).check([begun] * 3)
    with pytest.raises(UsageError, match="run it again with --partitions 5"):
        Paper(tmp_path, Request(6)).check([begun] * 3)


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("l", 'left topic "l" does not exist'),
        ("job-changelog", "job has no state to move yet"),
        ("job-rejects", "topic job-rejects does not exist: create it with `spanjoin topics`"),
        ("out", "topic out does not exist"),
    ],
)
def test_topics_that_are_missing(tmp_path: Path, missing: str, line: str) -> None:
    found = all_five()
    del found[missing]
    with pytest.raises(UsageError, match=line):
        Paper(tmp_path, Request(5), found).check_topics()


def test_a_jump_has_to_be_allowed(tmp_path: Path) -> None:
    """The lateness of the job is 10 s; from 3 to 4 lanes all share keys."""
    marks = [Watermarks(at, at, at) for at in (0, 10_001, 5_000)]
    with pytest.raises(UsageError, match=r"\(lane 0 from 0 to 10001\).* --accept-late"):
        Paper(tmp_path, Request(4)).level(marks)
    assert Paper(tmp_path, Request(4, accept_late=True)).level(marks) == [10_001] * 3
    assert Paper(tmp_path, Request(6)).level(marks) == [0, 10_001, 5_000]


def test_the_partitioner_is_found_or_said(tmp_path: Path) -> None:
    keys = [b"key-%d" % number for number in range(100)]
    there = tuple((key, PARTITIONERS["crc32"](key) % 3) for key in keys)
    placing, line = Paper(tmp_path, Request(5), keys=there).placing([], 3)
    assert line == "partitioner: crc32, by 100 keys of the inputs"
    assert all((placing.old(key), placing.new(key)) == (at, hashed(key)) for key, at in there)
    said = Paper(tmp_path, Request(5, partitioner="fnv1a"))
    placing, line = said.placing([], 3)
    assert line == "partitioner: fnv1a, as was said"
    assert placing.new(b"key") == PARTITIONERS["fnv1a"](b"key") % 5


def hashed(key: bytes) -> int:
    return PARTITIONERS["crc32"](key) % 5


def test_no_partitioner_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="murmur2 or crc32 or fnv1a: say so with --partitioner"):
        Paper(tmp_path, Request(5), keys=((b"a", 0), (b"b", 0))).placing([], 1)
    strange = tuple((b"key-%d" % number, number % 3) for number in range(100))
    with pytest.raises(UsageError, match="l and r are not where any partitioner known here"):
        Paper(tmp_path, Request(5), keys=strange).placing([], 3)
