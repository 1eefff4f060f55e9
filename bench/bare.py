"""The client alone: consume, decode, produce one record for each; a program of its own.

It does what any exactly-once application in Python must do at least: the same client settings, the
same turns and transactions as spanjoin, and nothing between input and output. It decodes with
fastavro, the usual library, and writes each input value to the output as it is. It may be told to
do less: only consume, or consume and decode; then it commits its positions without transactions.

Usage: python -m bench.bare CONFIG consume|decode|produce
"""

from __future__ import annotations

import gc
import io
import signal
import sys
import threading
import uuid
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import fastavro
from confluent_kafka import Consumer, Producer

from app.config import Config, load_config
from app.kafka.inputs import consumer_properties
from app.kafka.limits import Limits, producer_properties
from bench.avro import EVENT_SCHEMA
from schemas.avro_codec import HEADER_SIZE

WAIT_S: Final = 10.0
FIRST_WAIT_S: Final = 0.005
MESSAGE_BYTES_MAX: Final = 1_048_588


class Work(StrEnum):
    """How much it does."""

    CONSUME = "consume"
    DECODE = "decode"
    PRODUCE = "produce"


def main() -> None:
    config, work = load_config(Path(sys.argv[1])), Work(sys.argv[2])
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = Consumer(
        {
            **consumer_properties(config, "bare"),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    producer = _producer(config) if work is Work.PRODUCE else None
    consumer.subscribe([config.left.topic, config.right.topic], on_assign=_ready)
    gc.collect()
    gc.freeze()
    gc.disable()
    while not stopping.is_set():
        messages: list[Any] = consumer.consume(1, FIRST_WAIT_S)
        messages += consumer.consume(config.turn.max_records, 0)
        if not messages:
            continue
        if work is not Work.CONSUME:
            _decode(messages)
        if producer is not None:
            _produce(config.output.topic, consumer, producer, messages)
        else:
            consumer.commit(offsets=consumer.position(consumer.assignment()))
    consumer.close()


def _producer(config: Config) -> Producer:
    limits = Limits(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX)
    producer = Producer(
        {
            **producer_properties(config, "bare", limits),
            "transactional.id": f"bare-{uuid.uuid4()}",
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def _ready(_consumer: Consumer, _partitions: object) -> None:
    print("ready", flush=True)


def _decode(messages: list[Any]) -> None:
    decode, schema = fastavro.schemaless_reader, _SCHEMA
    for message in messages:
        if message.error() is not None:
            raise SystemExit(str(message.error()))
        decode(io.BytesIO(message.value()[HEADER_SIZE:]), schema, None)


def _produce(topic: str, consumer: Consumer, producer: Producer, messages: list[Any]) -> None:
    produce = producer.produce
    producer.begin_transaction()
    for message in messages:
        produce(topic, message.value(), message.key())
    producer.flush(WAIT_S)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
    )
    producer.commit_transaction(WAIT_S)


_SCHEMA: Final = fastavro.parse_schema(EVENT_SCHEMA)

if __name__ == "__main__":
    main()
