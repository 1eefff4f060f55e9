"""Whether the group is about to share out its lanes once more, asked in a rebalance callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupState, KafkaException

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

LOOK_S: Final = 0.2
"""What the answer is worth: without it a lane that moves elsewhere waits for up to a second."""
_UNDER_WAY: Final = (
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
)


def unsettled(admin: AdminClient, group: str, lanes: int) -> bool:
    """Whether another rebalance is under way, or must come because lanes are nobody's.

    False where the broker does not say so within LOOK_S.
    """
    asked = admin.describe_consumer_groups([group], request_timeout=LOOK_S)
    try:
        found = asked[group].result(LOOK_S)
    except (KafkaException, TimeoutError):
        return False
    owned = sum(len(member.assignment.topic_partitions) for member in found.members)
    return found.state in _UNDER_WAY or owned < lanes
