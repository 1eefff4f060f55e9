"""The client alone: consume, decode, produce one record for each; a program of its own.

It does what any exactly-once application in Python must do at least: the same client settings, the
same turns and transactions as spanjoin, and nothing between input and output. It decodes with
fastavro, the usual library, and writes each input value to the output as it is.

Usage: python -m bench.bare CONFIG
"""

from __future__ import annotations

import gc
import io
import signal
import sys
import threading
import uuid
from pathlib import Path
from typing import Any, Final

import fastavro
from confluent_kafka import Consumer, Producer

from app.config import Config, load_config
from app.kafka.inputs import consumer_properties
from app.kafka.transactions import Limits, producer_properties
from bench.avro import EVENT_SCHEMA
from schemas.codec import HEADER_SIZE

WAIT_S: Final = 10.0
FIRST_WAIT_S: Final = 0.005
MESSAGE_BYTES_MAX: Final = 1_048_588


def main() -> None:
    config = load_config(Path(sys.argv[1]))
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = Consumer(
        {
            **consumer_properties(config, "bare"),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    limits = Limits(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX)
    producer = Producer(
        {
            **producer_properties(config, "bare", limits),
            "transactional.id": f"bare-{uuid.uuid4()}",
        }
    )
    producer.init_transactions(WAIT_S)
    consumer.subscribe([config.left.topic, config.right.topic], on_assign=_ready)
    gc.collect()
    gc.freeze()
    gc.disable()
    while not stopping.is_set():
        messages: list[Any] = consumer.consume(1, FIRST_WAIT_S)
        messages += consumer.consume(config.turn.max_records, 0)
        if messages:
            _turn(config, consumer, producer, messages)
    consumer.close()


def _ready(_consumer: Consumer, _partitions: object) -> None:
    print("ready", flush=True)


def _turn(config: Config, consumer: Consumer, producer: Producer, messages: list[Any]) -> None:
    schema = _SCHEMA
    topic, produce, decode = config.output.topic, producer.produce, fastavro.schemaless_reader
    producer.begin_transaction()
    for message in messages:
        if message.error() is not None:
            raise SystemExit(str(message.error()))
        value = message.value()
        decode(io.BytesIO(value[HEADER_SIZE:]), schema, None)
        produce(topic, value, message.key())
    producer.flush(WAIT_S)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
    )
    producer.commit_transaction(WAIT_S)


_SCHEMA: Final = fastavro.parse_schema(EVENT_SCHEMA)

if __name__ == "__main__":
    main()
