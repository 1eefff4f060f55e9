"""The form of a record in the rejects topic: how one is made of what was rejected, and read back.

Key, value and headers of the input come as they were, then five headers of ours. Invariant: what
is made fits into the topic, so that no reject can make the transaction fail that carries it. What
does not fit is given up in this order: the value and the input's own headers, the middle of a long
detail, the key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

    from app.kafka.scan import Whole
    from schemas.records import Rejected

Headers = list[tuple[str, str | bytes | None]]

OURS: Final = ("reason", "topic", "partition", "offset", "detail")
"""The headers that are added, in this order, behind the input's own."""
REPLAYED_FROM: Final = "replayed-from"
"""A header of an input that was replayed: topic, partition and offset of its reject."""
NOTE: Final = "replayed"
"""The header of a note in the rejects topic: the offset, in its partition, of what was replayed."""
RECORD_BYTES_SPARE: Final = 1_024
"""Room for what the client and the broker put around a record."""
HEADER_BYTES_SPARE: Final = 16
_NUMBER: Final = re.compile("-?[0-9]+")
DETAIL_BYTES_MIN: Final = 512
"""So much of a detail is kept, whatever the topic takes."""


Origin = tuple[str, int, int]
"""Topic, partition and offset of an input; offset NO_OFFSET where there is none any more."""


class Copied(NamedTuple):
    """What is copied of an input into its reject."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers


def copied_from(message: Message) -> Copied:
    """All of a message that is known of it."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "it was read from a partition"
    assert offset is not None, "it was read from an offset"
    origin = (message.topic() or "", partition, offset)
    # The vendor's stubs have the form in which headers are given, too.
    headers = cast("Headers", message.headers() or [])
    return Copied(origin, message.key(), message.value(), headers)


class Made(NamedTuple):
    """A record for the rejects topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """Bytes that it takes in the topic, at most."""
        spare = sum(
            len(name) + len(text or b"") + HEADER_BYTES_SPARE for name, text in self.headers
        )
        return len(self.key or b"") + len(self.value or b"") + spare + RECORD_BYTES_SPARE


class Reject(NamedTuple):
    """A record of the rejects topic, read back.

    `place`: partition and offset in the rejects topic. `origin`: topic, partition and offset of the
    input. `headers` are the input's own, without that of an earlier replay; `again` says that there
    was one. `timestamp_ms` is the clock's time at which it was rejected. A match that was too large
    has its match id as key.
    """

    place: tuple[int, int]
    timestamp_ms: int
    reason: str
    origin: Origin
    detail: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    again: bool = False


def record_of(reject: Rejected, source: Copied, bytes_max: int) -> Made:
    """What is written of a reject into a topic that takes `bytes_max` a record."""
    made = Made(None, None, [])
    for made in _shorter_and_shorter(reject, source):
        if made.size <= bytes_max:
            break
    return made


def _shorter_and_shorter(reject: Rejected, source: Copied) -> Iterator[Made]:
    origin, key, value, own = source
    if reject.match_id is not None:
        key, value = reject.match_id, b""
    detail = reject.detail.encode("utf-8", "replace")
    ours = _ours(reject, origin, detail)
    yield Made(key, value, [*own, *ours])
    value = value and b""
    yield Made(key, value, ours)
    ours = _ours(reject, origin, _cut(detail))
    yield Made(key, value, ours)
    yield Made(None if reject.match_id is None else b"", value, ours)


def _ours(reject: Rejected, origin: Origin, detail: bytes) -> Headers:
    texts = (reject.reason.value, *map(str, origin))
    return list(zip(OURS, (*map(str.encode, texts), detail), strict=True))


def _cut(detail: bytes) -> bytes:
    """Beginning and end of a long detail, in whole characters."""
    if len(detail) <= DETAIL_BYTES_MIN:
        return detail
    half = DETAIL_BYTES_MIN // 2
    parts = (detail[:half], detail[-half:])
    return " ... ".join(part.decode("utf-8", "ignore") for part in parts).encode()


def reject_of(read: Whole) -> Reject | None:
    """The reject that a record of the topic is; None for a note, and for what is not ours."""
    own, ours = read.headers[: -len(OURS)], read.headers[-len(OURS) :]
    if tuple(name for name, _ in ours) != OURS:
        return None
    reason, topic, partition, offset, detail = (_text(value) for _, value in ours)
    if not (_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)):
        return None
    return Reject(
        (read.partition, read.offset),
        read.timestamp_ms,
        reason,
        (topic, int(partition), int(offset)),
        detail,
        read.key,
        read.value,
        [(name, value) for name, value in own if name != REPLAYED_FROM],
        any(name == REPLAYED_FROM for name, _ in own),
    )


def note_of(read: Whole) -> int | None:
    """The offset of the reject that a note says was replayed; None for anything but a note."""
    headers: Sequence[tuple[str, str | bytes | None]] = read.headers
    if len(headers) != 1 or headers[0][0] != NOTE:
        return None
    text = _text(headers[0][1])
    return int(text) if text.isdigit() else None


def note_for(reject: Reject) -> Headers:
    """The headers of the note that this one was replayed; a note has neither key nor value."""
    return [(NOTE, str(reject.place[1]).encode())]


def replayed_headers(reject: Reject, topic: str) -> Headers:
    """The headers of its replay: the input's own, and where in the rejects `topic` it stood."""
    partition, offset = reject.place
    return [*reject.headers, (REPLAYED_FROM, f"{topic}/{partition}/{offset}".encode())]


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value or ""
