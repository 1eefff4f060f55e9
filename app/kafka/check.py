"""The client's own judgement of a job's Kafka properties, before anything is connected to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, Producer

from app.errors import UsageError
from app.kafka.clients import with_defaults
from app.kafka.cluster import made
from app.kafka.inputs import consumer_properties
from app.kafka.limits import Limits, producer_properties

if TYPE_CHECKING:
    from app.config import Config

_NAME: Final = "check"
_ADDRESSES: Final = ("bootstrap.servers", "metadata.broker.list")
_LIMITS: Final = Limits(1_000_000, 1_000_000, 1_000_000)


def check_properties(config: Config) -> None:
    """Make each kind of client that a worker makes, with the same properties, but no broker.

    The same for the client of the Schema Registry. Raises UsageError that names the table and what
    the client says.
    """
    try:
        made(Producer, _offline(config.kafka_common), "kafka")
        consumer = made(Consumer, _offline(consumer_properties(config, _NAME)), "kafka.consumer")
        consumer.close()
        transactional = producer_properties(config, _NAME, _LIMITS) | {"transactional.id": _NAME}
        made(Producer, _offline(transactional), "kafka.producer")
    except UsageError as error:
        raise UsageError(f"{config.path}: {error.line}") from None
    if config.registry:
        from app.kafka.registry import Registry  # noqa: PLC0415 - half a second of imports

        Registry(config)


def _offline(properties: dict[str, str | int | bool]) -> dict[str, Any]:
    return {
        name: value for name, value in with_defaults(properties).items() if name not in _ADDRESSES
    }
