"""Writing rejects into the inputs they came from, each at most once.

What is written into an input and the note in the rejects topic that it was are one transaction. The
transactional id is always the same, so a replay that begins ends what another one has open:

1. Replay A has read the notes, and is about to write reject 7.
2. Replay B begins, which fences A, and then reads the notes. There is none of 7.
3. A writes 7 and its note: the broker refuses, A ends. B writes them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from app.errors import Crash
from app.kafka.clients import for_commands
from app.kafka.cluster import WAIT_SECONDS, made
from app.kafka.failures import error_of, refusal
from app.kafka.rejects import note_for, replayed_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.config import Config
    from app.kafka.rejects import Reject

_FIXED: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,
    "acks": "all",
    "transaction.timeout.ms": 60_000,
}


class Replays:
    """A transactional producer that nobody else uses at the same time; close it when done."""

    def __init__(self, config: Config, record_bytes_max: int) -> None:
        """Ends whatever another replay has open. Raises Crash where Kafka refuses.

        `record_bytes_max`: the largest record of all that may be written.
        """
        self.written = 0
        """Rejects replayed so far, in committed transactions."""
        self._rejects_topic = config.rejects_topic
        self._producer = made(
            Producer,
            {
                "compression.type": "lz4",
                **for_commands(config.producer_properties()),
                **_FIXED,
                "message.max.bytes": max(record_bytes_max, 1_000_000),
                "transactional.id": f"{config.name}-replay",
            },
            "kafka.producer",
        )
        try:
            self._producer.init_transactions(WAIT_SECONDS)
        except KafkaException as error:
            raise Crash(refusal(error_of(error))) from None

    def write(self, rejects: Iterable[Reject]) -> None:
        """Replay these in one transaction. Raises Crash; then none of them was replayed."""
        producer = self._producer
        count = 0
        try:
            producer.begin_transaction()
            for reject in rejects:
                topic, partition, _ = reject.origin
                headers = replayed_headers(reject, self._rejects_topic)
                producer.produce(topic, reject.value, reject.key, partition, headers=headers)
                producer.produce(
                    self._rejects_topic, partition=reject.place[0], headers=note_for(reject)
                )
                count += 1
            producer.commit_transaction(WAIT_SECONDS)
        except (KafkaException, BufferError) as error:
            reason = error_of(error).str() if isinstance(error, KafkaException) else str(error)
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(WAIT_SECONDS)
            raise Crash(
                f"the replay ended early ({reason}); {self.written} rejects had been replayed, and "
                f"will not be again if this is started once more"
            ) from None
        self.written += count

    def close(self) -> None:
        """Let go of what is on its way still, which nobody has committed."""
        self._producer.purge()
