"""The benchmark in Quix Streams: its interval join, exactly once; in an environment of its own.

Its state holds JSON, so a row is kept as its fields and the Avro bytes in base64, and the match is
put together of those. `backward_ms` and `forward_ms` are the reach, which should give the same
matches as ours; each side, however, only looks at what is before it in time.

Usage: python join.py BOOTSTRAP GROUP LEFT RIGHT OUTPUT REACH_MS GRACE_MS STATE MATCH_HEADER SCHEMA
"""

from __future__ import annotations

import base64
import io
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import fastavro
from quixstreams import Application  # type: ignore[import-not-found] # Not in this environment.
from quixstreams.models import Deserializer, Serializer  # type: ignore[import-not-found]

from schemas.match_id import match_id
from schemas.varint import encode_long

HEADER_SIZE: Final = 10
COMMIT_INTERVAL_S: Final = 1.0
"""Every 100 ms, as in the others, it is slower."""
SESSION_TIMEOUT_MS: Final = 6_000
QUIET: Final = "WARNING"


class EventDeserializer(Deserializer):  # type: ignore[misc]
    """Avro to [id, ts, start, end, body]."""

    def __init__(self, schema: Path) -> None:
        super().__init__()
        self._schema = fastavro.parse_schema(json.loads(schema.read_text()))

    def __call__(
        self,
        value: bytes,
        ctx: object,  # noqa: ARG002 (its name)
    ) -> list[Any]:
        body = value[HEADER_SIZE:]
        event: Any = fastavro.schemaless_reader(io.BytesIO(body), self._schema, None)
        encoded = base64.b64encode(body).decode()
        return [event["id"], event["ts"], event["start"], event["end"], encoded]


class MatchSerializer(Serializer):  # type: ignore[misc]
    """(match id, match) to the match."""

    def __call__(
        self,
        match: tuple[bytes, bytes],
        ctx: object,  # noqa: ARG002
    ) -> bytes:
        return match[1]


def main() -> None:
    bootstrap, group, left_topic, right_topic, output_topic, *rest = sys.argv[1:]
    reach_ms, grace_ms, state, match_header, schema = rest
    header = bytes.fromhex(match_header)

    def merge(left: list[Any], right: list[Any]) -> tuple[bytes, bytes]:
        value = b"".join(
            (
                header,
                encode_long(max(left[2], right[2])),
                encode_long(min(left[3], right[3])),
                base64.b64decode(left[4]),
                base64.b64decode(right[4]),
            )
        )
        return match_id(left[0], right[0]), value

    application = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_INTERVAL_S,
        state_dir=state,
        loglevel=QUIET,
        consumer_extra_config={
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "fetch.queue.backoff.ms": 5,
            "isolation.level": "read_committed",
        },
        producer_extra_config={"retry.backoff.ms": 1, "linger.ms": 5},
    )
    left, right = (
        application.dataframe(
            application.topic(
                name,
                value_deserializer=EventDeserializer(Path(schema)),
                timestamp_extractor=lambda value, *_: value[1],
            )
        )
        for name in (left_topic, right_topic)
    )
    joined = left.join_interval(
        right,
        how="inner",
        on_merge=merge,
        grace_ms=int(grace_ms),
        backward_ms=int(reach_ms),
        forward_ms=int(reach_ms),
    )
    output = application.topic(
        output_topic, key_serializer="bytes", value_serializer=MatchSerializer()
    )
    joined.to_topic(output, key=lambda match: match[0])
    threading.Thread(target=_say_ready, args=(application,), daemon=True).start()
    application.run(collect=False)


def _say_ready(application: Application) -> None:
    """A line once it has been given partitions, which it has no callback for."""
    while not application._consumer.assignment():  # noqa: SLF001
        time.sleep(0.05)
    print("ready", flush=True)


if __name__ == "__main__":
    main()
