"""`state verify`: silent about what a worker leaves, however it ends, and about nothing else."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import TopicPartition

from state.keys import parse_row_key, parse_row_value, row_value
from state.resources import Resources
from state.store import LaneStore
from tests.kafka.commands import command, done, refused
from tests.kafka.streams import random_stream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness

LANES: Final = 2
AFTER: Final = re.compile(
    r"lane (\d) in \S+/state-1: [\d,]+ rows in \d+ buckets as the directory says and the "
    r"changelog up to offset \d+(, but for \d+ buckets? .*)?"
)


def opened(path: Path) -> LaneStore:
    return LaneStore.open(path, Resources(8 << 20, 8 << 20))


@pytest.fixture
def verify(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The command over the state of the first worker, which has a history and was killed."""
    kafka.create_topics(LANES)
    config = kafka.write_config(text="[turn]\nmax_records = 50\n")
    worker = kafka.start(config)
    stream = random_stream(500, 3_000, keys=50, lanes=LANES)
    stream.send(kafka, kafka.job)
    kafka.settle()
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / "state-1"))
    verify = ("state", "verify", "-c", str(config))
    line = refused(*verify)
    assert line == f"state.dir {kafka.directory / 'state-1'} is used by a worker: stop it first"
    worker.kill()
    return verify


def test_a_planted_difference_is_found(kafka: Harness, verify: tuple[str, ...]) -> None:
    path = kafka.directory / "state-1" / "lane-1"
    for _ in range(2):  # Looking changes nothing.
        lines = done(*verify).splitlines()
        assert [AFTER.fullmatch(line) is not None for line in lines] == [True] * LANES, lines
    assert [path.name for path in sorted(path.parent.iterdir())] == ["lane-0", "lane-1", "lock"]
    assert "has no store of lane 7" in refused(*verify, "--lane", "7")

    store = opened(path)
    name, value = next(store.scan())
    ts, flags, body = parse_row_value(value)
    # Flags and size stay: neither the directory nor the join would notice.
    store.apply({name: row_value(flags, ts + 1, body)}, {}, None, store.position)
    store.close()
    ended = command(*verify)
    assert ended.code == 1
    assert "lane 1" in ended.err
    first, second = ended.out.splitlines()
    assert AFTER.fullmatch(first)
    assert second.startswith("lane 1 in ")
    assert repr(parse_row_key(name).id) in second
    assert f"ts {ts + 1}, " in second
    assert f"the changelog says ts {ts}, " in second
    assert done(*verify, "--lane", "0") == f"{first}\n"

    # A row that the directory does not know of either.
    store = opened(kafka.directory / "state-1" / "lane-0")
    name, value = next(store.scan())
    store.apply({name + b"x": value}, {}, None, store.position)
    store.close()
    ended = command(*verify, "--lane", "0")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert "the directory says" in lines[0]
    assert "is stored but not in the changelog" in lines[-1]
    assert "delete its directory there" in ended.err


def test_what_is_not_there_is_no_difference(kafka: Harness, verify: tuple[str, ...]) -> None:
    kafka.unchecked = "without its changelog nobody knows how far the job came"
    path = kafka.directory / "state-1" / "lane-0"
    store = opened(path)
    firsts = sorted({entry.first_offset for entry in store.buckets().values()})
    store.close()
    assert len(firsts) > 1, "more than one step of truncation"
    for cut, left_out in ((firsts[0], False), (firsts[-1], True)):
        place = TopicPartition(kafka.job.changelog, 0, cut)
        kafka.cluster.admin.delete_records([place])[place].result(30)
        (line,) = done(*verify, "--lane", "0").splitlines()
        found = AFTER.fullmatch(line)
        assert found, line
        assert (found[2] is not None) == left_out, line
    # Another owner has gone on for long: all that the copy knows has been let go of.
    end = kafka.cluster.ends(kafka.job.changelog)[0]
    place = TopicPartition(kafka.job.changelog, 0, end)
    kafka.cluster.admin.delete_records([place])[place].result(30)
    assert "older than all the changelog still holds" in done(*verify, "--lane", "0")

    # And states that are none.
    state = kafka.directory / "state-1"
    (state / "lane-0" / "CURRENT").unlink()
    assert done(*verify, "--lane", "0").endswith(": no store: it was removed, or never written\n")
    shutil.rmtree(state / "lane-0")
    shutil.rmtree(state / "lane-1")
    assert "has no store of any lane" in refused(*verify)
    shutil.rmtree(state)
    assert "does not exist" in refused(*verify)
    assert not state.exists()
