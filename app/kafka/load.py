"""Writing many records into a topic, each exactly once and in order within its partition.

Invariant: what `sent` says was acknowledged by the brokers; a record that was not is an error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from app.errors import Crash, Unreachable
from app.kafka.clients import for_commands
from app.kafka.cluster import WAIT_SECONDS
from app.kafka.failures import TROUBLES, error_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.config import Config

BYTES_MAX: Final = "max.message.bytes"
ANY_PARTITION: Final = -1
"""Where the key belongs."""
_POLL_EVERY: Final = 1_000
_FIXED: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,
    # A call into Python for each record would be a third of the work.
    "delivery.report.only.error": True,
    # Where Java's own producer puts a key: both inputs must agree for rows to meet.
    "partitioner": "murmur2_random",
}


class RecordTooLarge(Exception):
    """The record is larger than its topic takes; nothing was sent."""


class Loader:
    """An idempotent producer into one topic."""

    def __init__(self, config: Config, topic: str, record_bytes_max: int) -> None:
        self._topic = topic
        self._address = config.bootstrap_servers
        self._failure: KafkaError | None = None
        self._produced = 0
        self._failed = 0
        self._waiting = 0
        self._progressed = time.monotonic()
        self._producer = Producer(
            {
                "linger.ms": 20,
                "compression.type": "lz4",
                "message.max.bytes": max(record_bytes_max, 1_000_000),
                **for_commands(config.producer_properties()),
                **_FIXED,
            }
        )

    @property
    def sent(self) -> int:
        """Records acknowledged so far."""
        return self._produced - self._failed - len(self._producer)

    def put(self, key: bytes | None, value: bytes, partition: int = ANY_PARTITION) -> None:
        """Send one record, waiting while too many are on their way.

        Raises RecordTooLarge, Unreachable when nothing moves any more, Crash when refused.
        """
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition, on_delivery=self._refused
                )
            except BufferError:
                self._wait()
                continue
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise RecordTooLarge from None
                raise Crash(f"topic {self._topic}: {error.args[0].str()}") from None
            break
        self._produced += 1
        if self._produced % _POLL_EVERY == 0:
            self._poll(0)

    def flush(self) -> None:
        """Wait until everything sent is acknowledged; raises like `put`."""
        self._progressed = time.monotonic()
        while len(self._producer) > 0:
            self._wait()
        self._check()

    def _wait(self) -> None:
        self._poll(0.1)
        waiting = len(self._producer)
        if waiting != self._waiting:
            self._waiting = waiting
            self._progressed = time.monotonic()
        elif time.monotonic() - self._progressed > WAIT_SECONDS:
            sent = self.sent
            self._producer.purge()
            raise Unreachable(
                f"no broker answered at {self._address} within {WAIT_SECONDS:g} s; "
                f"{sent} records had been written to {self._topic}"
            )

    def _poll(self, seconds: float) -> None:
        """Hear what became of records; a fatal error comes out of the call itself."""
        try:
            self._producer.poll(seconds)
        except TROUBLES as trouble:
            if self._failure is None and isinstance(trouble, KafkaException | KafkaError):
                self._failure = error_of(trouble)
            elif self._failure is None:
                raise
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            sent = self.sent
            self._producer.purge()
            raise Crash(
                f"topic {self._topic} refused a record: {self._failure.str()}; "
                f"{sent} had been written"
            )

    def _refused(self, error: KafkaError | None, _message: Any) -> None:  # noqa: ANN401
        self._failed += 1
        if self._failure is None:
            self._failure = error
