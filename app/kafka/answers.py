"""What the admin client's answers are worth, for the worker and the commands alike.

An answer is not always one. Where the connection to a partition's leader breaks while ListOffsets
is on its way, the client's future succeeds all the same, with the offset that it began with: -1001
(OFFSET_INVALID), and without an error. Taken for an end, it makes a topic look empty; taken for the
border of a changelog's undecided tail, it makes a takeover look for that tail for ever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

STALE_LEADERS: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # noqa: SLF001 (its public name)
    }
)
"""What is answered while the client has to learn anew who leads the partitions.

It keeps what it learnt for a quarter of an hour, also when a broker that was restarted tells it
that this is out of date.
"""

ABSENT: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001 (its public name)
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""What is answered where no broker has."""
_ADDRESS: Final = re.compile(r"^\S+(/bootstrap)?: (Connect to \S+ failed: )?")


def answer_of(future: Future[Any], within_s: float) -> Any:  # noqa: ANN401 (the vendor's)
    """A request's answer. Raises KafkaException, TimeoutError when it does not come in time.

    What is raised is never what the future holds: that would hold on to whoever asked, by its
    traceback, who holds on to the future. Garbage collection is off in a worker, and the client
    that was asked would be kept with all its threads after another one has replaced it.
    """
    failed = future.exception(within_s)
    if isinstance(failed, KafkaException):
        raise KafkaException(*failed.args)
    return future.result()


def offset_of(found: Any) -> int:  # noqa: ANN401 (the vendor's)
    """The offset in an answer to ListOffsets. Raises KafkaException where there is none."""
    offset = int(found.offset)
    if offset < 0:
        reason = "a partition's leader did not answer"
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, reason))
    return offset


def reason_of(error: KafkaError) -> str:
    """The client's text without what is said elsewhere: the address, and how often."""
    text = _ADDRESS.sub("", error.str())
    return text.partition(" (after")[0].rstrip(".")


def rights_of(operations: Iterable[Any] | None) -> frozenset[str] | None:
    """The vendor's operations in the words of Kafka's ACLs."""
    if operations is None:
        return None
    return frozenset(one.name.title().replace("_", "") for one in operations)
