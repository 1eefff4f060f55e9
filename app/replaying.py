"""`rejects --replay`: chosen rejects into the inputs they came from, once.

Invariant: nothing is written before a person, or `--yes`, has agreed to what is said of it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import UsageError
from app.kafka.rejects import Made, replayed_headers
from app.kafka.replays import Replays
from app.rejects import Choice, RejectsTopic
from app.rights import may_write
from app.rows import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.config import Config
    from app.kafka.cluster import Topic
    from app.kafka.rejects import Reject
    from app.rejects import Chosen

TRANSACTION_REJECTS: Final = 500
TRANSACTION_BYTES: Final = 16 << 20
"""Keys and values of one transaction: it must not outlive its time."""
_BYTES_MAX: Final = "max.message.bytes"


class Wish(NamedTuple):
    """What is to be replayed, `again` also what was rejected again after a replay; who agrees."""

    choice: Choice
    again: bool
    agreed: Callable[[str], bool]


def replay_rejects(config: Config, wish: Wish, say: Callable[[str], None]) -> None:
    """Replay what is meant and can be, and say what was done. Raises UsageError, Crash."""
    topic = RejectsTopic(config)
    if not may_write(topic.topics[topic.topic]):
        topic.close()
        raise UsageError(
            f'rejects topic "{topic.topic}" may not be written to: grant Write, for the note that '
            f"a reject was replayed"
        )
    with closing(topic), closing(Replays(config, _bytes_max(topic))) as replays:
        # The topic's end is looked up from here on only: by now no other replay can go on, and what
        # it has done is known.
        fates = Counter(_obstacle(topic, chosen, wish) for chosen in topic.chosen(wish.choice))
        count = fates.pop("", 0)
        for obstacle, left_out in sorted(fates.items()):
            say(f"{left_out} left out: {obstacle}")
        if count and not wish.agreed(
            f"replay {counted(count, 'reject')} into the topics they came from?"
        ):
            raise UsageError("nothing was replayed")
        wanted = (
            chosen.reject
            for chosen in topic.chosen(wish.choice)
            if not _obstacle(topic, chosen, wish)
        )
        for batch in _batches(wanted) if count else ():
            replays.write(batch)
        say(f"{counted(replays.written, 'reject')} replayed")


def _obstacle(topic: RejectsTopic, chosen: Chosen, wish: Wish) -> str:
    """Why a reject cannot be replayed, "" if it can."""
    reject, side, replayed = chosen
    if replayed:
        return "replayed before"
    if reject.again and not wish.again:
        return "rejected again after a replay (--again takes them)"
    if side is None:
        return f"from {reject.origin[0]}, which is no input of this job"
    if not reject.value:
        return "without a value: a match, or what was too large to be copied, or null"
    return _misfit(topic, reject)


def _misfit(topic: RejectsTopic, reject: Reject) -> str:
    """Why the input does not take a reject, "" if it does."""
    name, partition, _ = reject.origin
    found = topic.topics.get(name)
    if found is None or partition >= found.partitions:
        return f"{name} has no partition {partition} any more"
    if not may_write(found):
        return f"{name} may not be written to: grant Write"
    copy = Made(reject.key, reject.value, replayed_headers(reject, topic.topic))
    if copy.size > _limit(found):
        return f"too large for {name} with the header that is added"
    return ""


def _limit(topic: Topic) -> int:
    return int(topic.settings[_BYTES_MAX])


def _bytes_max(topic: RejectsTopic) -> int:
    return max(map(_limit, topic.topics.values()))


def _batches(rejects: Iterator[Reject]) -> Iterator[list[Reject]]:
    batch: list[Reject] = []
    size = 0
    for reject in rejects:
        batch.append(reject)
        size += len(reject.key or b"") + len(reject.value or b"")
        if len(batch) >= TRANSACTION_REJECTS or size >= TRANSACTION_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
