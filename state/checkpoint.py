"""What a lane knows after a turn, and the changelog records that carry it.

A record is Avro in single-object encoding (C3 01, fingerprint, body): the fingerprint names the
schema it was written with, so records of an older schema stay readable. The rows of a turn travel
as one flat array of bytes (`state.packing`). Only the directory and the checkpoint are Avro proper.

Invariant: the parts of `encode_turn`, decoded, hold every row and directory entry exactly once,
and the checkpoint on the last part only.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from importlib.resources import files
from itertools import islice
from struct import Struct
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas.records import JoinType
from state.avro import Format, Unreadable
from state.packing import pack_rows, pack_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


__all__ = [
    "Bucket",
    "Checkpoint",
    "Layout",
    "TurnRecord",
    "Unreadable",
    "Watermarks",
    "changelog_formats",
    "changelog_schemas",
    "decode_bucket",
    "decode_checkpoint",
    "decode_turn",
    "encode_bucket",
    "encode_checkpoint",
    "encode_turn",
    "turn_of",
]


class Watermarks(NamedTuple):
    """Event time of a lane: of each side and of the lane itself; None is minus infinity."""

    lane: int | None = None
    left: int | None = None
    right: int | None = None


class Bucket(NamedTuple):
    """Directory entry of one time bucket: absolute figures, so the newest entry is the whole truth.

    rows: stored rows, retracted and remembered ones included. size: their key and value bytes.
    digest: sum mod 2**64 of a 64-bit hash of (row key, flags). longest: the longest interval.
    remembered: retractions still waiting for their insert. first_offset: a lower bound of the
    changelog offset of the bucket's first row. An entry with rows == 0 says: dropped.
    """

    rows: int
    size: int
    digest: int
    longest: int
    remembered: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What must not change under existing state without a word; checked at install."""

    unit: str
    lateness: int
    max_interval: int
    span: int
    changelog_id: str
    left_id: str
    right_id: str
    join_type: str = JoinType.INNER.value


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a lane at a turn's end; it travels in the turn's last changelog record.

    writer: transactional id of the producer that wrote it. owner: worker id (client.id), for
    people. address: host:port advertised by the owner's HTTP server, "" if none. released: the
    writer handed the lane over. rows, size: over all live buckets; size in bytes. decided: of an
    outer join, every row whose entry (`state.due`) is below this is written as unmatched if it
    had no match left by then; those that lose their last one later follow at once. resharding:
    how many lanes a reshard is about to give the job, 0 if none is under way; no worker goes on
    from such a state. left_since, right_since: input offsets below these were written for another
    number of partitions.
    """

    epoch: int
    sequence: int
    writer: str
    owner: str
    address: str
    released: bool
    left_position: int
    right_position: int
    watermarks: Watermarks
    rows: int
    size: int
    layout: Layout
    decided: bytes = b""
    resharding: int = 0
    left_since: int = 0
    right_since: int = 0


class TurnRecord(NamedTuple):
    """One changelog record: a part of a turn, and as a rule the whole of it.

    rows: packed, see `state.packing`. buckets: directory entries that changed. checkpoint: None on
    every part but the last.
    """

    epoch: int
    writer: str
    sequence: int
    part: int
    rows: bytes
    buckets: dict[int, Bucket]
    checkpoint: Checkpoint | None


Entries = tuple[tuple[int, Bucket], ...]

_BUCKET_BYTES_MAX: Final = 70
"""Of one directory entry: seven Avro longs of up to ten bytes."""
_COUNTS_BYTES_MAX: Final = 20
"""What the length of the rows and the count of the entries may take beyond that of none."""
_INT64: Final = 2**63
_UINT64: Final = 2**64


def changelog_formats(schemas: Sequence[dict[str, Any]]) -> tuple[Format, Format]:
    """The formats of a turn and, alone, of a checkpoint, from the turn's schemas, newest first."""
    return Format(schemas), Format([_checkpoint_schema(schema) for schema in schemas])


def encode_turn(
    checkpoint: Checkpoint,
    rows: Mapping[bytes, bytes],
    buckets: Mapping[int, Bucket],
    bytes_max: int,
) -> list[bytes]:
    """The changelog records of one turn: one, or several where one would exceed `bytes_max`.

    A single row that is larger goes alone, in a record that does exceed it.
    """
    whole = _encode_part(checkpoint, 0, pack_rows(rows), tuple(buckets.items()), checkpoint)
    if len(whole) <= bytes_max:
        return [whole]
    shell = _encode_part(checkpoint, 0, b"", (), checkpoint)
    room = max(1, bytes_max - len(shell) - _COUNTS_BYTES_MAX)
    blobs = pack_runs(rows, room) or [b""]
    entries = list(_split_buckets(buckets, max(1, room // _BUCKET_BYTES_MAX))) or [()]
    # The first entries ride with the last rows where there is room for both.
    overlap = 1 if len(blobs[-1]) + len(entries[0]) * _BUCKET_BYTES_MAX <= room else 0
    parts = len(blobs) + len(entries) - overlap
    blobs += [b""] * (parts - len(blobs))
    entries = [()] * (parts - len(entries)) + entries
    return [
        _encode_part(checkpoint, part, blob, chunk, checkpoint if part == parts - 1 else None)
        for part, (blob, chunk) in enumerate(zip(blobs, entries, strict=True))
    ]


def decode_turn(value: bytes) -> TurnRecord:
    """One changelog record. Raises Unreadable."""
    return turn_of(_TURN.decode(value))


def turn_of(record: dict[str, Any]) -> TurnRecord:
    """The turn in a decoded Avro record."""
    checkpoint = record["checkpoint"]
    return TurnRecord(
        epoch=record["epoch"],
        writer=record["writer"],
        sequence=record["sequence"],
        part=record["part"],
        rows=record["rows"],
        buckets={entry["bucket"]: _bucket(entry) for entry in record["buckets"]},
        checkpoint=None if checkpoint is None else _checkpoint_of(checkpoint),
    )


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The store's own copy of a checkpoint."""
    return _CHECKPOINT.encode(_checkpoint_record(checkpoint))


def decode_checkpoint(value: bytes) -> Checkpoint:
    """The other way. Raises Unreadable."""
    return _checkpoint_of(_CHECKPOINT.decode(value))


def encode_bucket(bucket: Bucket) -> bytes:
    """The store's own copy of a directory entry."""
    return _BUCKET.pack(*bucket)


def decode_bucket(value: bytes) -> Bucket:
    """The other way. Raises Unreadable."""
    try:
        return Bucket(*_BUCKET.unpack(value))
    except StructError as error:
        raise Unreadable(f"damaged directory entry: {error}") from error


def _checkpoint_of(record: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint in a decoded Avro record."""
    return Checkpoint(
        epoch=record["epoch"],
        sequence=record["sequence"],
        writer=record["writer"],
        owner=record["owner"],
        address=record["address"],
        released=record["released"],
        left_position=record["left_position"],
        right_position=record["right_position"],
        watermarks=Watermarks(
            record["watermark"], record["left_watermark"], record["right_watermark"]
        ),
        rows=record["rows"],
        size=record["size"],
        layout=Layout(*(record[name] for name in _LAYOUT_FIELDS)),
        decided=record["decided"] or b"",
        resharding=record["resharding"],
        left_since=record["left_since"],
        right_since=record["right_since"],
    )


def _checkpoint_record(checkpoint: Checkpoint) -> dict[str, object]:
    watermarks, layout = checkpoint.watermarks, checkpoint.layout
    return {
        "epoch": checkpoint.epoch,
        "sequence": checkpoint.sequence,
        "writer": checkpoint.writer,
        "owner": checkpoint.owner,
        "address": checkpoint.address,
        "released": checkpoint.released,
        "left_position": checkpoint.left_position,
        "right_position": checkpoint.right_position,
        "watermark": watermarks.lane,
        "left_watermark": watermarks.left,
        "right_watermark": watermarks.right,
        "rows": checkpoint.rows,
        "size": checkpoint.size,
        "decided": checkpoint.decided or None,
        "resharding": checkpoint.resharding,
        "left_since": checkpoint.left_since,
        "right_since": checkpoint.right_since,
    } | {name: getattr(layout, name) for name in _LAYOUT_FIELDS}


def _encode_part(
    turn: Checkpoint, part: int, rows: bytes, entries: Entries, checkpoint: Checkpoint | None
) -> bytes:
    return _TURN.encode(
        {
            "epoch": turn.epoch,
            "writer": turn.writer,
            "sequence": turn.sequence,
            "part": part,
            "rows": rows,
            "buckets": [_bucket_record(bucket, entry) for bucket, entry in entries],
            "checkpoint": None if checkpoint is None else _checkpoint_record(checkpoint),
        }
    )


def _bucket_record(bucket: int, entry: Bucket) -> dict[str, int]:
    rows, size, digest, longest, remembered, first_offset = entry
    return {
        "bucket": bucket,
        "rows": rows,
        "size": size,
        # Avro has no unsigned numbers: the same 64 bits, read as a signed one.
        "digest": digest - _UINT64 if digest >= _INT64 else digest,
        "longest": longest,
        "remembered": remembered,
        "first_offset": first_offset,
    }


def _bucket(record: Mapping[str, int]) -> Bucket:
    return Bucket(
        rows=record["rows"],
        size=record["size"],
        digest=record["digest"] % _UINT64,
        longest=record["longest"],
        remembered=record["remembered"],
        first_offset=record["first_offset"],
    )


def _split_buckets(buckets: Mapping[int, Bucket], count_max: int) -> Iterator[Entries]:
    entries = iter(buckets.items())
    while chunk := tuple(islice(entries, count_max)):
        yield chunk


def _checkpoint_schema(turn: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint's record type inside the turn's."""
    (union,) = (field["type"] for field in turn["fields"] if field["name"] == "checkpoint")
    (record,) = (branch for branch in union if isinstance(branch, dict))
    return record


def changelog_schemas() -> list[dict[str, Any]]:
    """The current schema first, then `changelog-<n>.avsc`: those that it replaced."""
    folder = files("schemas")
    older = sorted(
        (file for file in folder.iterdir() if _OLDER.fullmatch(file.name)),
        key=lambda file: file.name,
    )
    return [json.loads(file.read_text()) for file in (folder / "changelog.avsc", *older)]


_OLDER: Final = re.compile(r"changelog-\d+\.avsc")
_BUCKET: Final = Struct(">qqQqqq")
_LAYOUT_FIELDS: Final = tuple(field.name for field in fields(Layout))
_TURN, _CHECKPOINT = changelog_formats(changelog_schemas())
