"""Writes one more fault, as any program of yours can.

An Avro record in single-object encoding under the machine as the key, placed as Java's clients
place it.
"""

import io
import json
import os
import sys
from pathlib import Path

import fastavro
from confluent_kafka import Producer
from fastavro.schema import fingerprint, to_parsing_canonical_form

SCHEMA = json.loads(Path("event.avsc").read_text())
HEADER = b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))


def encode(event: dict[str, object]) -> bytes:
    """Header and body: 2 bytes of marker, 8 of the schema's fingerprint, the record."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, SCHEMA, event)
    return HEADER + body.getvalue()


servers = os.environ.get("SPANJOIN_KAFKA__BOOTSTRAP_SERVERS", "localhost:9092")
producer = Producer(
    {
        "bootstrap.servers": servers,
        "partitioner": "murmur2_random",
        "message.timeout.ms": 10_000,  # how long it tries
    }
)
fault = {
    "id": "f7",
    "ts": 1741003200000,  # 12:00 UTC
    "start": 1741003200000,
    "end": 1741003800000,  # 12:10 UTC
    "kind": "INSERT",
    "payload": b"door open",
}
errors = []
producer.produce(
    "faults",
    key=b"press-1",
    value=encode(fault),
    on_delivery=lambda error, _: errors.append(error) if error else None,
)
producer.flush()
if errors:
    sys.exit(f"the record was not written: {errors[0].str()}")
