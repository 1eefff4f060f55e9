"""How large records may be, how long a transaction: what the producer is made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from app.config import Config

TRANSACTION_TIMEOUT_MS: Final = 10_000
TOPIC_BYTES_DEFAULT: Final = 1_048_588
"""`max.message.bytes` of a topic for which the broker was told nothing."""
BATCH_BYTES: Final = 1_000_000
"""What the client by itself puts into one batch at most."""
_FIXED: Final[dict[str, str | int | bool]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
}
_DEFAULTS: Final[dict[str, str | int | bool]] = {
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "linger.ms": 5,
    "retry.backoff.ms": 1,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "compression.type": "lz4",
}


class Limits(NamedTuple):
    """Largest record each topic takes, in bytes (`max.message.bytes`)."""

    output: int
    changelog: int
    rejects: int


def producer_properties(
    config: Config, client_id: str, limits: Limits
) -> dict[str, str | int | bool]:
    """Properties of the transactional producer but for its id.

    A broker measures whole batches: small records for a topic that takes little would be refused
    together, so no batch is larger than what each of the topics takes.
    """
    user = config.producer_properties()
    return {
        **_DEFAULTS,
        "message.max.bytes": max(limits),
        **user,
        **_FIXED,
        "batch.size": min(int(user.get("batch.size", BATCH_BYTES)), *limits),
        "client.id": client_id,
    }
