"""Whether the group is about to share out its lanes once more, asked in a rebalance callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ConsumerGroupState, KafkaException

from app.kafka.answers import answer_of
from app.kafka.replaced import Replaced

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import AdminClient

LOOK_S: Final = 0.2
"""What the answer is worth: without it a lane that moves elsewhere waits for up to a second."""
NEVER_S: Final = 3_600.0
"""The client's longest."""
_UNDER_WAY: Final = (
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
)


class GroupState:
    """What the broker says of one group; for one thread.

    The admin client is thrown away with a question that it could not answer at once, and such a
    question does not time out before:

    1. A group's coordinator goes away. The client keeps waiting for that broker's old connection,
       with this question and all later ones (`rd_kafka_coord_req_fsm`).
    2. A question that times out is freed, but for the part that waits, which is not told.
    3. The coordinator is back, and that part hears twice that there is no question any more: when
       it would send it, and as the answer. The second time its own memory is free, and the client
       aborts the process (`rd_kafka_admin_coord_response_parse`).
    """

    def __init__(self, make: Callable[[], AdminClient], group: str) -> None:
        self._admin = Replaced(make, silent_s=0)
        self._group = group

    def unsettled(self, lanes: int) -> bool:
        """Whether another rebalance is under way, or must come because lanes are nobody's.

        False where the broker does not say so within LOOK_S.
        """
        try:
            found = self._admin.asked(self._described)
        except (KafkaException, TimeoutError):
            return False
        owned = sum(len(member.assignment.topic_partitions) for member in found.members)
        return found.state in _UNDER_WAY or owned < lanes

    def _described(self, admin: AdminClient) -> Any:  # noqa: ANN401 (the vendor's)
        asked = admin.describe_consumer_groups([self._group], request_timeout=NEVER_S)
        return answer_of(asked[self._group], LOOK_S)
