"""What is said of the past by a broker that does not know better, and that it is not believed.

One broker has no past to tell. So a worker is lied to at its edge, or what it asks is changed on
its way: the end of a log becomes its beginning, and a fetch is one of a place far behind the end,
which the broker refuses as it would one that it does not know yet.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from state.checkpoint import decode_turn
from tests.kafka.avro import encode, instant
from tests.kafka.proxy import FETCH, LIST_OFFSETS
from tests.kafka.reading import history
from tests.kafka.victims import writers

if TYPE_CHECKING:
    from tests.kafka.harness import Harness
    from tests.kafka.proxy import Proxy

WITHIN_S: Final = 40
OLD_S: Final = 2.0
"""Less than what is said is doubted for."""
POSITION: Final = 300
"""A number that does not stand in a request by chance."""
NOWHERE: Final = 2**40
_OFFSET: Final = struct.Struct(">q")
_LATEST: Final = re.compile(rb"\xff{8}\x00")
"""As it stands at the end of a partition in a ListOffsets request, before its tagged fields."""
_EARLIEST: Final = b"\xff" * 7 + b"\xfe\x00"


@pytest.fixture
def kafka(proxied_kafka: Harness) -> Harness:
    return proxied_kafka


class Past:
    """Ends of a topic that are not known yet, to whoever takes a lane over or doubts a position."""

    def __init__(self, topic: str, old_s: float = OLD_S, reader: str = "") -> None:
        self._topic = topic.encode()
        self._reader = reader
        self._old_s = old_s
        self._until: float | None = None
        self.told = 0
        """How often."""
        self.refused = 0
        """How many fetches."""

    def changed(self, kind: int, client: str, frame: bytes) -> bytes:
        """A request, or one that gets the answer of the past."""
        if kind != LIST_OFFSETS or not client.endswith("-admin") or self._topic not in frame:
            return frame
        if self._until is None:
            self._until = time.monotonic() + self._old_s
        if time.monotonic() > self._until or _LATEST.search(frame) is None:
            return frame
        self.told += 1
        return _LATEST.sub(_EARLIEST, frame)

    def refusing(self, kind: int, client: str, frame: bytes) -> bytes:
        """The same, and the reader's first fetch from its position is refused."""
        wanted = _OFFSET.pack(POSITION)
        if kind != FETCH or client != self._reader or self.refused or wanted not in frame:
            return self.changed(kind, client, frame) if self.refused else frame
        self.refused += 1
        return frame.replace(wanted, _OFFSET.pack(NOWHERE))


def send(kafka: Harness, topic: str, *names: str) -> None:
    for name in names:
        kafka.send(topic, b"k", encode(instant(name, 10)))
    kafka.settle()


@pytest.mark.parametrize(("side", "old_s"), [("left", OLD_S), ("right", 0)])
def test_a_position_that_is_refused_and_is_there_after_all_is_read_on(
    kafka: Harness, proxy: Proxy, side: str, old_s: float
) -> None:
    """By the fetch alone, or by the ends that are asked for then, too."""
    job = kafka.job
    kafka.create_topics(1)
    worker = kafka.start(kafka.write_config())
    kafka.await_running(worker)
    name = json.loads(worker.get("/status")[1])["worker"]
    topics = {"left": job.left, "right": job.right}
    past = Past(topics[side], old_s, {"left": name, "right": f"{name}-right"}[side])
    proxy.change(past.refusing)
    many = [f"one-{number}" for number in range(POSITION)]
    send(kafka, topics.pop(side), *many)
    kafka.await_(
        lambda: "position found after all" in worker.log.read_text(), WITHIN_S, worker.tail
    )
    assert (past.refused, past.told > 0) == (1, old_s > 0)
    send(kafka, {"left": job.left, "right": job.right}[side], "last")
    (other,) = topics.values()
    send(kafka, other, "other")
    assert len(kafka.matches()) == POSITION + 1
    assert worker.terminate() == 0


@pytest.mark.parametrize("which", ["changelog", "left", "right"])
def test_a_lane_is_taken_over_although_the_end_of_a_log_is_not_known_yet(
    kafka: Harness, proxy: Proxy, which: str
) -> None:
    """Its store is neither wiped nor the job stopped: both would be right if it were true."""
    job = kafka.job
    kafka.create_topics(1)
    config = kafka.write_config()
    first = kafka.start(config)
    send(kafka, job.left, "l1")
    send(kafka, job.right, "r1")
    assert first.terminate() == 0
    past = Past(getattr(job, which))
    proxy.change(past.changed)
    again = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(kafka.directory / "state-1")})
    send(kafka, job.right, "r2")
    assert past.told > 0
    assert " wipe " not in again.log.read_text()
    assert "doubted" in again.log.read_text()
    assert set(kafka.matches()) == {"L:l1|R:r1", "L:l1|R:r2"}
    assert again.terminate() == 0


def test_a_lane_is_not_claimed_as_it_was_some_turns_ago(kafka: Harness) -> None:
    """A changelog and offsets of the past agree; that the claim lands elsewhere tells the truth."""
    job = kafka.job
    kafka.create_topics(1)
    config = kafka.write_config()
    owner = kafka.start(config)
    send(kafka, job.left, "l1")
    kafka.await_(lambda: kafka.cluster.decided(job.changelog), WITHIN_S, owner.tail)
    (end,) = kafka.cluster.ends(job.changelog).values()
    at = decode_turn(kafka.read(job.changelog)[-1].value or b"").checkpoint
    assert at is not None
    send(kafka, job.right, "r1")
    send(kafka, job.left, "l2")
    owner.kill()
    stored = [str(offset) for offset in (end, at.left_position, at.right_position)]
    heir = kafka.launch([sys.executable, "-m", "tests.kafka.outdated", str(config), *stored])
    kafka.await_running(heir)
    send(kafka, job.right, "r2")
    log = history(kafka.read(job.output))
    assert {name: len(values) for name, values in log.items()} == dict.fromkeys(
        ["L:l1|R:r1", "L:l1|R:r2", "L:l2|R:r1", "L:l2|R:r2"], 1
    )
    assert f"the changelog of lane 0 went on from {end}" in heir.log.read_text()
    writers(kafka)
    assert heir.terminate() == 0
