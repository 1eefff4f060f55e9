"""The default event in Avro's single-object encoding, written by hand: 5 us instead of 9."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

from schemas.avro_codec import MARKER, fingerprint
from schemas.varint import encode_long

EVENT_SCHEMA: Final = json.loads((files("schemas") / "event.avsc").read_text())
_HEADER: Final = MARKER + fingerprint(EVENT_SCHEMA)
INSERT: Final = b"\x00"
RETRACT: Final = b"\x02"
"""The kinds as the enum's numbers."""
_BYTES: Final = b"\x02"
"""The branch of the payload's union that has bytes."""


def encode_event(
    row_id: str, ts: int, interval: tuple[int, int], payload: bytes, kind: bytes = INSERT
) -> bytes:
    """An event of the default schema as a Kafka value."""
    name = row_id.encode()
    return b"".join(
        (
            _HEADER,
            encode_long(len(name)),
            name,
            encode_long(ts),
            encode_long(interval[0]),
            encode_long(interval[1]),
            kind,
            _BYTES,
            encode_long(len(payload)),
            payload,
        )
    )
