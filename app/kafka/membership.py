"""Group metadata, opened far enough to see whether it proves a membership.

Layout (librdkafka, serialised in host order): magic "CGMDv2:", int32 generation, group NUL,
member NUL, then the instance. A generation of -1 with an empty member switches the broker's check
of transactional offsets off, so such metadata must never be sent.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_MAGIC: Final = b"CGMDv2:"


class Membership(NamedTuple):
    """Who we are in the group, as far as the client knows."""

    generation: int
    member: str

    @property
    def valid(self) -> bool:
        """Whether the broker can hold this against the group's members."""
        return self.generation >= 0 and self.member != ""


def read_membership(metadata: object) -> Membership:
    """Parse the client's group metadata; anything unknown is no membership."""
    raw = bytes(metadata) if isinstance(metadata, bytes | bytearray) else b""
    if not raw.startswith(_MAGIC) or len(raw) < len(_MAGIC) + 4:
        return Membership(-1, "")
    (generation,) = struct.unpack_from("=i", raw, len(_MAGIC))
    parts = raw[len(_MAGIC) + 4 :].split(b"\0")
    member = parts[1] if len(parts) > 1 else b""
    return Membership(generation, member.decode("utf-8", "replace"))
