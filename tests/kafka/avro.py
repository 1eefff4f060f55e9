"""Events and matches in Avro, written from Avro's specification and not with a library.

So a test compares what is on the wire with what the specification says should be there, and not
one use of a library with another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KINDS: Final = ("INSERT", "RETRACT", "WATERMARK")
EVENT: Final = (
    '{"name":"spanjoin.Event","type":"record","fields":['
    '{"name":"id","type":"string"},{"name":"ts","type":"long"},'
    '{"name":"start","type":"long"},{"name":"end","type":"long"},'
    '{"name":"kind","type":{"name":"spanjoin.Kind","type":"enum",'
    '"symbols":["INSERT","RETRACT","WATERMARK"]}},'
    '{"name":"payload","type":["null","bytes"]}]}'
)
"""The default event's schema in parsing canonical form."""
MATCH: Final = (
    '{"name":"spanjoin.Match","type":"record","fields":['
    '{"name":"start","type":"long"},{"name":"end","type":"long"},'
    f'{{"name":"left","type":{EVENT}}},{{"name":"right","type":"spanjoin.Event"}}]}}'
)
OUTER: Final = {
    "left": MATCH.replace('"spanjoin.Event"}]', '["null","spanjoin.Event"]}]'),
    "right": MATCH.replace(EVENT, f'["null",{EVENT}]'),
    "full": MATCH.replace(EVENT, f'["null",{EVENT}]').replace(
        '"spanjoin.Event"}]', '["null","spanjoin.Event"]}]'
    ),
}
"""The same for outer joins: a side that may be missing is a union with null."""
_EMPTY: Final = 0xC15D213AA4D7A795


def fingerprint(canonical: str) -> bytes:
    """CRC-64-AVRO of a schema in parsing canonical form, in the framing's byte order."""
    crc = _EMPTY
    for byte in canonical.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_EMPTY if crc & 1 else 0)
    return crc.to_bytes(8, "little")


EVENT_HEADER: Final = b"\xc3\x01" + fingerprint(EVENT)
MATCH_HEADER: Final = b"\xc3\x01" + fingerprint(MATCH)
OUTER_HEADERS: Final = {join: b"\xc3\x01" + fingerprint(text) for join, text in OUTER.items()}


class Event(NamedTuple):
    """One event of the default schema."""

    id: str
    ts: int
    start: int
    end: int
    kind: str = "INSERT"
    payload: bytes | None = None


def instant(name: str, at: int, kind: str = "INSERT") -> Event:
    """An event of a single moment."""
    return Event(name, at, at, at, kind)


class Match(NamedTuple):
    """One match of two events of the default schema."""

    start: int
    end: int
    left: Event
    right: Event


class Output(NamedTuple):
    """An output record of any join; an unmatched row lacks a side."""

    start: int
    end: int
    left: Event | None
    right: Event | None


def long(value: int) -> bytes:
    """A long: zigzag, then seven bits a byte, the lowest first."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def sized(value: bytes) -> bytes:
    """Bytes, or a string's UTF-8, behind their length."""
    return long(len(value)) + value


def body(event: Event) -> bytes:
    """The event without its framing."""
    payload = long(0) if event.payload is None else long(1) + sized(event.payload)
    times = long(event.ts) + long(event.start) + long(event.end)
    return sized(event.id.encode()) + times + long(KINDS.index(event.kind)) + payload


def encode(event: Event) -> bytes:
    """The event in Avro's single-object encoding."""
    return EVENT_HEADER + body(event)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def sized(self) -> bytes:
        size = self.long()
        taken = self.data[self.at : self.at + size]
        assert len(taken) == size, "the value ends in the middle"
        self.at += size
        return taken

    def event(self) -> Event:
        name, ts, start, end = self.sized().decode(), self.long(), self.long(), self.long()
        kind = KINDS[self.long()]
        return Event(name, ts, start, end, kind, self.sized() if self.long() else None)


def decode_match(value: bytes | None) -> Match:
    """The match of two events of the default schema, to its last byte."""
    assert value is not None
    assert value[:10] == MATCH_HEADER, value[:10]
    reader = _Reader(value[10:])
    match = Match(reader.long(), reader.long(), reader.event(), reader.event())
    assert reader.at == len(reader.data), "bytes behind the match"
    return match


def decode_output(value: bytes | None, join: str) -> Output:
    """The output record of a join of this type over the default schema, to its last byte."""
    if join == "inner":
        return Output(*decode_match(value))
    assert value is not None
    assert value[:10] == OUTER_HEADERS[join], value[:10]
    reader = _Reader(value[10:])
    start, end = reader.long(), reader.long()
    left = reader.event() if join == "left" or reader.long() else None
    right = reader.event() if join == "right" or reader.long() else None
    assert reader.at == len(reader.data), "bytes behind the record"
    return Output(start, end, left, right)


def match_id(left: str, right: str) -> str:
    """The id of a match as the documentation has it."""
    return f"{unmatched_id('left', left)}|{unmatched_id('right', right)}"


def unmatched_id(side: str, name: str) -> str:
    """The output key of a row that nothing matches."""
    return f"{side[0].upper()}:{name.replace('%', '%25').replace('|', '%7C')}"


def murmur2(key: bytes) -> int:
    """The hash of Java's default partitioner, its sign bit cleared."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if len(key) > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF
