"""What a turn does: its decisions as rows, matches, rejects and figures to commit.

The inner loop only decides; here whole batches of decisions become bytes. So the order of work
within a turn is free, and each of these loops does one thing.

Invariant: figures are changed by differences that do not depend on order. A row inserted and then
retracted in one turn is written once, counted once, and leaves the digest of its last flags.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from native import loops
from schemas.concatenation import Concatenation
from schemas.match_id import match_id
from schemas.records import Arrival, Reason, Rejected
from state.checkpoint import Bucket, Watermarks
from state.keys import (
    DIGEST_MODULUS,
    LIVE,
    PREFIX_SIZE,
    REMEMBERED,
    VALUE_HEAD_SIZE,
    Row,
    bucket_prefix,
    encode_rows,
    row_key,
    row_value,
    rows_digest,
)
from state.side import ROW_COST, cost_of

if TYPE_CHECKING:
    from state.window import Windows

MatchValue = Callable[[int, int, bytes, bytes], bytes]
"""(start, end, left value, right value) -> the match's value."""

Match = tuple[bytes, bytes | None, int]
"""(match id, value or None for a tombstone, ts: the larger of both rows')."""

MATCH_OVERHEAD: Final = 512
"""Bytes allowed for what the producer and the broker put around a match's key and value."""


class Counts(NamedTuple):
    """What a turn's records came to. `rejected` counts by reason, decode errors included.

    `duplicates` counts every event ignored for its known id: inserts, the `duplicate_changed`
    among them (same interval, other bytes), and retractions already seen. `remembered_expired`
    counts remembered retractions dropped before their insert came. `matched` and `tombstones` are
    matches to emit and to take back, `unmatched` rows of an outer join to emit.
    """

    inserted: int = 0
    retracted: int = 0
    matched: int = 0
    tombstones: int = 0
    unmatched: int = 0
    duplicates: int = 0
    duplicate_changed: int = 0
    remembered: int = 0
    remembered_expired: int = 0
    watermarks: int = 0
    rejected: Mapping[Reason, int] = {}


@dataclass(slots=True)
class Effects:
    """All that one turn of one lane wants committed; nothing of it has happened yet.

    `taken`: of the records given, how many. `rows`: row key -> row value, the last write of the
    turn. `buckets`: directory entries that changed, absolute; rows == 0 says dropped, and
    `dropped` lists those, oldest first. `touched`: keys whose windows the turn changed. `changed`:
    whether there is anything to commit, be it only a position. `decided`: as in the checkpoint.
    """

    taken: int
    changed: bool
    rows: dict[bytes, bytes]
    matches: list[Match]
    rejects: list[Rejected]
    watermarks: Watermarks
    buckets: dict[int, Bucket]
    dropped: list[int]
    touched: list[bytes]
    counts: Counts
    decided: bytes = b""


Pair = tuple[Row, Row, Arrival | None]
"""(left row, right row, the record that completes the match, or None to retract it)."""

Added = tuple[int, int, int, bytes, Row, object]
"""An Arrival whose parts are a new row, and whose key is one."""


_key_of_added: Final = itemgetter(3)
_key_of_replaced: Final = itemgetter(0)


@dataclass(slots=True)
class Decisions:
    """What the inner loop decided, in order where order matters.

    `pairs`: of matches. `inserted` and `remembered`: the new rows. `replaced`: (key, side, row
    before, row after).
    """

    pairs: list[Pair] = field(default_factory=list)
    inserted: list[Added] = field(default_factory=list)
    remembered: list[Added] = field(default_factory=list)
    replaced: list[tuple[bytes, int, Row, Row]] = field(default_factory=list)
    rejects: list[Rejected] = field(default_factory=list)
    duplicates: int = 0
    duplicate_changed: int = 0
    watermarks: int = 0

    def touched(self) -> list[bytes]:
        """The keys whose windows the turn changed, some more than once."""
        added = map(_key_of_added, chain(self.inserted, self.remembered))
        return [*added, *map(_key_of_replaced, self.replaced)]


class Figures:
    """How one bucket's directory entry changes in this turn."""

    __slots__ = ("digest", "longest", "remembered", "rows", "size")

    def __init__(self) -> None:
        self.rows = self.size = self.digest = self.longest = self.remembered = 0

    def on_top_of(self, entry: Bucket) -> Bucket:
        """The bucket's new, absolute entry."""
        return Bucket(
            entry.rows + self.rows,
            entry.size + self.size,
            (entry.digest + self.digest) % DIGEST_MODULUS,
            max(entry.longest, self.longest),
            entry.remembered + self.remembered,
            entry.first_offset,
        )


def stored_rows(
    decisions: Decisions, windows: Windows
) -> tuple[dict[bytes, bytes], dict[int, Figures]]:
    """The turn's rows for the store, and how each bucket's figures change by them.

    Both the changelog and the store take rows by their keys; here they are put into that order,
    as nearly as it goes, because a bucket's rows of one side are the fewest to be sorted at a time.

    Tells `windows` by how much they have grown in which bucket.
    """
    rows: dict[bytes, bytes] = {}
    figures: defaultdict[int, Figures] = defaultdict(Figures)
    for flags, added in ((LIVE, decisions.inserted), (REMEMBERED, decisions.remembered)):
        for bucket, _, encoded, name_size, value_size, longest in _groups(added, windows.span):
            rows |= encoded
            count = len(encoded)
            figure = figures[bucket]
            figure.rows += count
            figure.size += name_size + value_size
            figure.digest += rows_digest(encoded, flags)
            figure.longest = max(figure.longest, longest)
            figure.remembered += count if flags == REMEMBERED else 0
            windows.enter(bucket, (ROW_COST - VALUE_HEAD_SIZE) * count + value_size)
    for replacement in decisions.replaced:
        _replace(replacement, rows, figures, windows)
    return rows, dict(figures)


_Group = tuple[int, int, dict[bytes, bytes], int, int, int]
"""(bucket, side, rows by their keys and in their order, bytes of the keys, bytes of the values,
longest interval)."""


def _groups(added: list[Added], span: int) -> list[_Group]:
    """The rows of these records by bucket and side, in that order; no two have the same key."""
    groups = None if loops is None else loops.groups(added, span)
    return groups if groups is not None else list(_encoded(added, span))


def _encoded(added: list[Added], span: int) -> Iterator[_Group]:
    groups: defaultdict[tuple[int, int], list[tuple[bytes, Row]]] = defaultdict(list)
    for _, side, _, key, row, _ in added:
        groups[row[0] // span, side].append((key, row))
    for (bucket, side), group in sorted(groups.items()):
        encoded = encode_rows(bucket, side, group)
        assert len(encoded) == len(group), "a known id is no new row"
        longest = max([row[0] - row[1] for _, row in group])
        sizes = sum(map(len, encoded)), sum(map(len, encoded.values()))
        yield bucket, side, encoded, *sizes, longest


def _replace(
    replacement: tuple[bytes, int, Row, Row],
    rows: dict[bytes, bytes],
    figures: defaultdict[int, Figures],
    windows: Windows,
) -> None:
    key, side, before, after = replacement
    end, start, row_id, ts, flags, value = after
    bucket = end // windows.span
    name = row_key(bucket, side, key, end, start, row_id)
    rows[name] = row_value(flags, ts, value)
    figure = figures[bucket]
    figure.size += len(value) - len(before[5])
    figure.digest += rows_digest([name], flags) - rows_digest([name], before[4])
    if before[4] == REMEMBERED:
        figure.remembered -= 1
    windows.size += cost_of(after) - cost_of(before)


def emitted(
    pairs: list[Pair], match_value: MatchValue, bytes_max: int
) -> tuple[list[Match], list[Rejected]]:
    """The matches and tombstones of these pairs in their order, and the matches too large.

    A tombstone of a match that was too large is emitted like any other: it is harmless, and
    nothing stored says that the match was not written. If its id alone is too large, the match
    cannot have been written, and the tombstone could not be.
    """
    rejects: list[Rejected] = []
    room = bytes_max - MATCH_OVERHEAD
    if loops is not None and isinstance(match_value, Concatenation):
        one = partial(_emitted, match_value, room, rejects)
        return loops.matches(pairs, match_value.pieces, room, one), rejects
    # The call of an object costs more than that of its method.
    value_of = match_value.__call__  # type: ignore[operator] # It is one of a callable.
    found = [_emitted(value_of, room, rejects, pair) for pair in pairs]
    return [match for match in found if match is not None], rejects


def _emitted(
    match_value: MatchValue, room: int, rejects: list[Rejected], pair: Pair
) -> Match | None:
    left, right, record = pair
    left_end, left_start, left_id, left_ts, _, left_value = left
    right_end, right_start, right_id, right_ts, _, right_value = right
    name = match_id(left_id, right_id)
    ts = left_ts if left_ts > right_ts else right_ts  # noqa: FURB136 - a call costs more
    if record is None:
        return (name, None, ts) if len(name) <= room else None
    start = left_start if left_start > right_start else right_start  # noqa: FURB136
    end = left_end if left_end < right_end else right_end  # noqa: FURB136
    value = match_value(start, end, left_value, right_value)
    size = len(name) + len(value)
    if size <= room:
        return name, value, ts
    rejects.append(_too_large(record, name, left_id, right_id, size))
    return None


def _too_large(record: Arrival, name: bytes, left_id: str, right_id: str, size: int) -> Rejected:
    detail = f"the match of left id {left_id} and right id {right_id} takes {size} bytes"
    _, _, offset, _, _, source = record
    return Rejected(offset, Reason.TOO_LARGE, detail, source, name)


def directory_changes(
    directory: Mapping[int, Bucket], figures: Mapping[int, Figures], changelog_position: int
) -> dict[int, Bucket]:
    """The new entries of the buckets that these figures change.

    A new bucket's rows are at `changelog_position` or after it: its lower bound.
    """
    fresh = Bucket(0, 0, 0, 0, 0, changelog_position)
    return {
        bucket: figure.on_top_of(directory.get(bucket, fresh)) for bucket, figure in figures.items()
    }


def entered(directory: dict[int, Bucket], effects: Effects) -> None:
    """Changes a directory as the effects say."""
    directory.update(effects.buckets)
    for bucket in effects.dropped:
        del directory[bucket]


def without_dropped(rows: dict[bytes, bytes], dropped: list[int]) -> dict[bytes, bytes]:
    """The rows but for those whose bucket is dropped by the very turn that writes them."""
    prefixes = {bucket_prefix(bucket) for bucket in dropped}
    return {name: row for name, row in rows.items() if name[:PREFIX_SIZE] not in prefixes}


def counts_of(
    decisions: Decisions,
    matches: list[Match],
    rejects: list[Rejected],
    expired: int,
    unmatched: int,
) -> Counts:
    """The turn's figures for people; `matches` are the unmatched rows, too."""
    tombstones = sum([value is None for _, value, _ in matches])
    return Counts(
        inserted=len(decisions.inserted),
        retracted=sum([before[4] == LIVE for _, _, before, _ in decisions.replaced]),
        matched=len(matches) - tombstones - unmatched,
        tombstones=tombstones,
        unmatched=unmatched,
        duplicates=decisions.duplicates,
        duplicate_changed=decisions.duplicate_changed,
        remembered=len(decisions.remembered),
        remembered_expired=expired,
        watermarks=decisions.watermarks,
        rejected=Counter([reject.reason for reject in rejects]),
    )
