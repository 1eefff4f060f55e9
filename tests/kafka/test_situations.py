"""What stands in topics that were not made for this job: any compression, gaps, many keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.kafka.avro import Event, encode, instant
from tests.kafka.reading import QUIET

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS: Final = 400
VERSIONS: Final = 4
SOON: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0001",
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
}
"""A topic that is compacted as soon as the cleaner comes by, all but what was written last."""
CLEANER: Final = "log.cleaner.backoff.ms"


def compressed(kafka: Harness, codec: str, topic: str, key: bytes, event: Event) -> None:
    """Some records of a producer's that compresses."""
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec, **QUIET}
    producer = Producer(properties)
    # A batch that compression does not make smaller is sent as it is.
    value = encode(event._replace(payload=b"much the same " * 100))
    producer.produce(topic, value, key, 0, on_delivery=kafka._delivered)
    assert producer.flush(30) == 0


def has_gaps(offsets: list[int]) -> bool:
    """Whether some in the middle are missing, and no old version is left."""
    return offsets[0] >= 10 * (VERSIONS - 2) and len(offsets) < offsets[-1] + 1 - offsets[0]


def clean_often(kafka: Harness, backoff_ms: str | None) -> None:
    """How often the broker looks for what can be compacted; None for its default."""
    operation = AlterConfigOpType.DELETE if backoff_ms is None else AlterConfigOpType.SET
    entry = ConfigEntry(CLEANER, backoff_ms, incremental_operation=operation)
    admin = kafka.cluster.admin
    for broker in admin.list_topics(timeout=30).brokers:
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)


def test_every_compression_and_many_keys_in_one_lane(kafka: Harness) -> None:
    kafka.create_topics(1)
    left, right = kafka.job.left, kafka.job.right
    for codec in CODECS:
        compressed(kafka, codec, left, b"codec", instant(f"l {codec}", 10))
        compressed(kafka, codec, right, b"codec", instant(f"r {codec}", 10))
    for number in range(KEYS):
        kafka.send(left, b"key %d" % number, encode(instant(f"l{number}", 20)), 0)
    for number in reversed(range(KEYS)):
        kafka.send(right, b"key %d" % number, encode(instant(f"r{number}", 20)), 0)
    kafka.start(kafka.write_config())
    kafka.settle()
    expected = {f"L:l{number}|R:r{number}" for number in range(KEYS)}
    expected |= {f"L:l {one}|R:r {other}" for one in CODECS for other in CODECS}
    assert set(kafka.matches()) == expected
    assert len(kafka.read(kafka.job.output)) == len(expected), "each once"
    assert kafka.read(kafka.job.rejects) == []


def test_gaps_that_compaction_left(kafka: Harness) -> None:
    """Of a compacted input what is left is joined, whatever else stood in it before."""
    left, right = kafka.job.left, kafka.job.right
    kafka.create_topic(left, 1, SOON)
    kafka.create_topic(right, 1)
    for version in range(VERSIONS):
        # The last time only every other: between what is left there are gaps.
        for number in range(0, 10, 1 + (version == VERSIONS - 1)):
            event = instant(f"l{number} v{version}", 10 + version)
            kafka.send(left, b"key %d" % number, encode(event), 0)
        kafka.flush()
    kafka.send(left, b"key 0", None, 0)
    kafka.flush()
    clean_often(kafka, "100")
    try:

        def left_over() -> list[int]:
            """Offsets that are still there; each record more makes another segment old enough."""
            kafka.send(left, b"last", encode(instant("last", 100)), 0)
            kafka.flush()
            return [change.offset for change in kafka.read(left)]

        kafka.await_(lambda: has_gaps(left_over()), 60, lambda: str(left_over()))
    finally:
        clean_often(kafka, None)
    for number in range(10):
        kafka.send(right, b"key %d" % number, encode(Event(f"r{number}", 10, 10, 20)), 0)
    kafka.start(kafka.write_config())
    kafka.settle()
    # Of the first key only the tombstone was left, if that; tombstones name no row.
    newest = {number: VERSIONS - 1 - number % 2 for number in range(1, 10)}
    assert set(kafka.matches()) == {
        f"L:l{number} v{version}|R:r{number}" for number, version in newest.items()
    }
    assert {change.headers["reason"] for change in kafka.read(kafka.job.rejects)} <= {b"null_value"}
