"""`rejects --replay`: chosen rejects into the inputs they came from, once.

Invariant: nothing is written before a person, or `--yes`, has agreed to what is said of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from app.errors import UsageError
from app.kafka.replays import Replays
from app.rejects import RejectsTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.config import Config
    from app.kafka.rejects import Reject
    from app.rejects import Choice, Chosen

TRANSACTION_REJECTS: Final = 500
TRANSACTION_BYTES: Final = 16 << 20
"""Keys and values of one transaction: it must not outlive its time."""
_BYTES_MAX: Final = "max.message.bytes"


def replay_rejects(
    config: Config, choice: Choice, agreed: Callable[[str], bool], say: Callable[[str], None]
) -> None:
    """Replay what is meant and can be; `agreed` is asked before. Raises UsageError, Crash."""
    topic = RejectsTopic(config)
    try:
        # Before anything is looked at: what a replay that still runs has done is known then.
        replays = Replays(config, _bytes_max(topic))
        fates = Counter(_obstacle(topic, chosen) for chosen in topic.chosen(choice))
        for obstacle, count in sorted(fates.items()):
            if obstacle:
                say(f"{count} rejects are left out: {obstacle}")
        count = fates[""]
        if count == 0:
            say("no reject to replay")
            return
        if not agreed(f"replay {count} rejects into the topics they came from?"):
            raise UsageError("nothing was replayed")
        wanted = (chosen.reject for chosen in topic.chosen(choice) if not _obstacle(topic, chosen))
        for batch in _batches(wanted):
            replays.write(batch)
        say(f"{replays.written} rejects replayed")
    finally:
        topic.close()


def _obstacle(topic: RejectsTopic, chosen: Chosen) -> str:
    """Why a reject cannot be replayed, "" if it can."""
    reject, side, replayed = chosen
    if replayed:
        return "they were replayed before"
    if side is None:
        return f"they came from {reject.origin[0]}, which is no input of this job"
    found = topic.topics.get(reject.origin[0])
    if found is None or reject.origin[1] >= found.partitions:
        return f"{reject.origin[0]} has no partition {reject.origin[1]} any more"
    if not reject.value:
        return "they carry no value: a match, or what was too large to be copied, or null"
    return ""


def _bytes_max(topic: RejectsTopic) -> int:
    return max(int(found.settings[_BYTES_MAX]) for found in topic.topics.values())


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
