"""Many small experiments at the price of one worker: each test has a lane of its own.

Lanes know nothing of each other, so a job of many partitions is as many jobs. The bounds are those
of the documentation's examples: allowed lateness 10, max interval 50, plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.kafka.avro import Event, encode, match_id
from tests.kafka.reading import Change, history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kafka.harness import Harness

LATENESS: Final = 10
MAX_INTERVAL: Final = 50
HORIZON: Final = LATENESS + MAX_INTERVAL
LEFT: Final = "left"
RIGHT: Final = "right"
KEY: Final = b"k"


class Lanes:
    """A running job whose lanes are given away one by one."""

    def __init__(self, harness: Harness, count: int) -> None:
        self.harness = harness
        self.count = count
        self._next = 0
        harness.create_topics(count)
        bounds: dict[str, str | int] = {"allowed_lateness": LATENESS, "max_interval": MAX_INTERVAL}
        self.worker = harness.start(harness.write_config(join=bounds))
        cluster = harness.cluster
        harness.await_(
            lambda: bool(cluster.partitions(harness.job.rejects)), 30, lambda: "no topics"
        )
        self.followers = {
            topic: harness.follow(topic) for topic in (harness.job.output, harness.job.rejects)
        }

    def take(self) -> Lane:
        """A lane nobody used before."""
        assert self._next < self.count, f"more than {self.count} tests: raise the lane count"
        self._next += 1
        return Lane(self, self._next - 1)

    def close(self) -> None:
        """Stop the worker, which must not have failed meanwhile."""
        self.worker.check()
        assert self.worker.terminate() == 0, self.worker.tail()


@dataclass
class Lane:
    """One lane; what is sent goes to its partition, what is read came from it."""

    job: Lanes
    number: int
    changes: list[Change] = field(default_factory=list)
    """What came out so far, by partition and offset of each reading."""
    rejected: list[Change] = field(default_factory=list)

    def topic(self, side: str) -> str:
        """The topic of a side."""
        names = self.job.harness.job
        return {LEFT: names.left, RIGHT: names.right}[side]

    def own(self, name: str) -> str:
        """The id of this lane's row: an id names one row of a side in all lanes."""
        return f"{name}@{self.number}"

    def _plain(self, key: str) -> str:
        """An output key, with the names that the test gave its rows."""
        return "|".join(part.removesuffix(self.own("")) for part in key.split("|"))

    def raw(
        self,
        side: str,
        key: bytes | None,
        value: bytes | None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send any bytes."""
        self.job.harness.send(self.topic(side), key, value, self.number, headers)

    def insert(
        self,
        side: str,
        name: str,
        start: int,
        end: int,
        *,
        ts: int | None = None,
        key: bytes = KEY,
        payload: bytes | None = None,
    ) -> None:
        """A row of [start, end], called `own(name)`; its moment is its start unless told."""
        ts = start if ts is None else ts
        self.raw(side, key, encode(Event(self.own(name), ts, start, end, "INSERT", payload)))

    def retract(
        self,
        side: str,
        name: str,
        start: int,
        end: int,
        *,
        ts: int | None = None,
        key: bytes = KEY,
    ) -> None:
        """Take a row back; the interval is what the retraction carries."""
        ts = start if ts is None else ts
        self.raw(side, key, encode(Event(self.own(name), ts, start, end, "RETRACT")))

    def watermark(self, ts: int, *sides: str) -> None:
        """Say on these sides, on both if none is named, that time has come to `ts`; wait for it."""
        for side in sides or (LEFT, RIGHT):
            self.raw(side, None, encode(Event("", ts, 0, 0, "WATERMARK")))
        self.settle()

    def settle(self) -> None:
        """Wait until all that was sent was taken and its results are committed, and read them."""
        harness = self.job.harness
        harness.flush()
        places = [(self.topic(side), self.number) for side in (LEFT, RIGHT)]
        ends = {place: harness.sent[place] for place in places if place in harness.sent}
        harness.settle(30, ends)
        output, rejects = (follower.read() for follower in self.job.followers.values())
        self.changes += output
        self.rejected += [reject for reject in rejects if reject.partition == self.number]

    def log(self) -> dict[str, str]:
        """Once all is taken: what became of each match: "+" for written, "-" for retracted."""
        self.settle()
        return {
            self._plain(key): "".join("-" if value is None else "+" for value in values)
            for key, values in history(self.changes).items()
        }

    def reasons(self) -> list[str]:
        """Once all is taken: why inputs of this lane were rejected, in the log's order."""
        self.settle()
        return [reject.headers["reason"].decode() for reject in self.rejected]


def matches(*pairs: tuple[str, str]) -> dict[str, str]:
    """The log in which each of these pairs was written once and nothing else happened."""
    return {match_id(left, right): "+" for left, right in pairs}
