"""Why two rows did match, or did not, in words: the rule that decided, and its figures.

What is known of a row is what the lane's state has of it, and what the topics have: records of the
input with its id, and those of them that were rejected. The state knows best, but forgets rows; the
input has them for as long as it keeps them. From either follows the same:

    two rows match  <=>  both were taken, neither was retracted, and their intervals overlap

That holds without any look at when they came, because a row that was taken is kept for as long as
another one that is taken can still overlap it (see `state.retention`). What depends on time is in
the rejects: late, or after the horizon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from app.rows import duration, moment, printable
from schemas.match_id import match_id
from schemas.records import Kind, Reason
from state.keys import LIVE, REMEMBERED, RETRACTED
from state.retention import is_retained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.sought import Refusal, Sighting, Sought, Stored, Terms

_NEVER_MEET: Final = (
    "Rows of different lanes never meet: left and right were written with different partitioners, "
    "or with other numbers of partitions."
)
_WATERMARK: Final = re.compile(r"watermark (-?[0-9]+)$")
"""The end of the details of rejects that depend on it."""


class Why(StrEnum):
    """What decided, the first of these that holds."""

    UNKNOWN = "unknown_id"
    OTHER_LANE = "other_lane"
    OTHER_KEY = "other_key"
    UNREAD = "unread"
    REJECTED = "rejected"
    NO_INSERT = "no_insert"
    RETRACTED_FIRST = "retracted_first"
    RETRACTED = "retracted"
    APART = "apart"
    TOO_LARGE = "too_large"
    MATCH = "match"


@dataclass(slots=True)
class Fate:
    """What became of a row: why it cannot match, None if it can; its interval; what to say."""

    why: Why | None = None
    interval: tuple[int, int] | None = None
    lines: list[str] = field(default_factory=list)


class Explanation(NamedTuple):
    """What decided about two rows, and the same in words, the most important first.

    `certain` is False where what was not looked at may say otherwise.
    """

    why: Why
    lines: list[str]
    certain: bool = True

    @property
    def matches(self) -> bool | None:
        """Whether there is a match of the two; None if that is not known."""
        if self.why is Why.MATCH:
            return True
        return False if self.certain else None


def explain(
    left: Sought, right: Sought, terms: Terms, too_large: Refusal | None = None
) -> Explanation:
    """Why these two match or do not. `too_large` is the reject of their match, if there is one."""
    fates = [fate_of(sought, terms) for sought in (left, right)]
    said = [line for fate in fates for line in fate.lines]
    between = _between((left, right), fates, terms.unit)
    obstacles = [fate.why for fate in fates if fate.why is not None]
    if obstacles:
        why = min(obstacles, key=list(Why).index)
        certain = _certain((left, right), fates)
        if why is Why.OTHER_LANE:
            said.append(_NEVER_MEET if certain else _together(left))
        return Explanation(why, [*said, *([between[1]] if between else [])], certain)
    assert between is not None, "both rows are known"
    overlap, line = between
    if not overlap:
        return Explanation(Why.APART, [line, *said])
    if too_large is not None:
        line = f"{line} Their match was too large for the output topic: {too_large.detail}."
        return Explanation(Why.TOO_LARGE, [line, *said])
    name = printable(match_id(left.id, right.id).decode())
    return Explanation(Why.MATCH, [f"{line} The match is {name}.", *said])


def in_output(said: Explanation, match: str, place: str) -> Explanation:
    """The same of two rows whose match stands in the output, at this place, whatever was found."""
    lines = [line for line in said.lines if line != _NEVER_MEET]
    return Explanation(Why.MATCH, [f"The output has {printable(match)} ({place}).", *lines])


def _certain(sought: tuple[Sought, Sought], fates: Sequence[Fate]) -> bool:
    """Whether the obstacles that were found are some, whatever else there is."""
    whys = {fate.why for fate in fates}
    if whys == {Why.OTHER_LANE}:
        # They may have met in that one, if the key was looked for in the wrong lane.
        return len({seen.partition for seen in map(_astray, sought) if seen is not None}) > 1
    if whys - {None, Why.UNKNOWN, Why.OTHER_LANE, Why.UNREAD}:
        return True
    unknown = [one for one, fate in zip(sought, fates, strict=True) if fate.why is Why.UNKNOWN]
    return all(one.whole for one in unknown)


def _astray(sought: Sought) -> Sighting | None:
    """A record of the row under its key, in another lane."""
    return next((seen for seen in sought.elsewhere if seen.key == sought.asked[0]), None)


def _together(left: Sought) -> str:
    seen = _astray(left)
    assert seen is not None, "it is in another lane"
    return f"Both are in partition {seen.partition}: --lane {seen.partition} asks there."


def fate_of(sought: Sought, terms: Terms) -> Fate:
    """What became of a row; what the state says goes before what the topics say."""
    fate = _from_state(sought, terms) or _from_input(sought, terms) or _not_found(sought)
    fate.lines += _other_records(sought, fate, terms)
    return fate


def _from_state(sought: Sought, terms: Terms) -> Fate | None:
    if not sought.stored:
        return None
    row = max(sought.stored, key=_end)
    if row.flags == REMEMBERED and (fate := _refused(sought, terms)) is not None:
        return fate
    fate = Fate(interval=(row.start, row.end))
    if row.flags == LIVE:
        fate.lines.append(f"{_sentence(sought.name)} was taken: {_interval(fate, terms.unit)}.")
        if row.unmatched:
            fate.lines.append(f"{_sentence(sought.name)} was written as unmatched.")
    elif row.flags == RETRACTED:
        fate.why = Why.RETRACTED
        retraction = _last(sought, Kind.RETRACT)
        where = f", by {_place(retraction)}" if retraction else ""
        fate.lines.append(_taken_back(sought, fate, where, terms.unit))
    elif row.flags == REMEMBERED:
        fate.why, fate.interval = Why.NO_INSERT, None
        fate.lines.append(
            f"Of {sought.name} only a retraction has come; the row will be ignored when it comes."
        )
    else:
        _retract_first(sought, fate)
    fate.lines += _expiry(sought, fate, terms)
    return fate


def _from_input(sought: Sought, terms: Terms) -> Fate | None:
    """The row as the records of the input tell it, in their order, as the join takes them."""
    fate: Fate | None = None
    insert: Sighting | None = None
    remembered = False
    for seen in sought.sightings:
        if not seen.taken or seen.refusal is not None:
            continue
        if seen.kind == Kind.RETRACT and insert is not None:
            assert fate is not None, "there is an insert"
            if fate.why is None:
                fate.why = Why.RETRACTED
                fate.lines = [_taken_back(sought, fate, f", by {_place(seen)}", terms.unit)]
        elif seen.kind == Kind.RETRACT:
            remembered = True
        elif seen.kind == Kind.INSERT and insert is None:
            insert = seen
            fate = Fate(interval=(seen.start, seen.end))
            if remembered:
                _retract_first(sought, fate)
            else:
                said = f"was taken ({_place(seen)}): {_interval(fate, terms.unit)}"
                fate.lines.append(f"{_sentence(sought.name)} {said}.")
                if sought.rejects_from:
                    fate.lines.append(
                        f"Rejects before offset {sought.rejects_from} were not there to be read: "
                        f"should {sought.name} be one of them, then it was not taken."
                    )
    if fate is not None:
        fate.lines += _expiry(sought, fate, terms)
        return fate
    fate = _refused(sought, terms)
    if fate is None and remembered:
        return Fate(Why.NO_INSERT, lines=[f"Of {sought.name} there is only a retraction."])
    return fate or _unread(sought, terms)


def _refused(sought: Sought, terms: Terms) -> Fate | None:
    seen = _last(sought, Kind.INSERT, refused=True)
    if seen is None:
        return None
    fate = Fate(Why.REJECTED, (seen.start, seen.end))
    fate.lines.append(f"{_sentence(sought.name)} was not taken. {_refusal(seen, terms)}")
    return fate


def _unread(sought: Sought, terms: Terms) -> Fate | None:
    waiting = [seen for seen in sought.sightings if not seen.taken and seen.kind == Kind.INSERT]
    if not waiting:
        return None
    fate = Fate(Why.UNREAD, (waiting[0].start, waiting[0].end))
    said = f"has not been read yet ({_place(waiting[0])}): {_interval(fate, terms.unit)}"
    fate.lines.append(f"{_sentence(sought.name)} {said}.")
    return fate


def _not_found(sought: Sought) -> Fate:
    key, lane = sought.asked
    if (seen := _astray(sought)) is not None:
        line = (
            f"{_sentence(sought.name)} is in partition {seen.partition} (offset {seen.offset}), "
            f"not in {lane}, where this key was looked for."
        )
        return Fate(Why.OTHER_LANE, (seen.start, seen.end), [line])
    if sought.elsewhere:
        seen = sought.elsewhere[-1]
        line = (
            f"{_sentence(sought.name)} has another key: {_key(seen.key)} ({_place(seen)}), not "
            f"{_key(key)}. Rows of different keys never match."
        )
        return Fate(Why.OTHER_KEY, (seen.start, seen.end), [line])
    if not sought.searched:
        said = "is not in the state: it never came, was rejected, has another key, or was dropped"
    elif sought.whole:
        said = "is unknown: it is neither in the state nor in its topic"
    else:
        said = "was not found, neither in the state nor among the records that were looked at"
    if sought.older:
        said += f"; {sought.older:,} older offsets were not: --scan N looks at N of each partition"
    if sought.gone:
        said += f"; {sought.gone:,} offsets are no longer in its topic"
    return Fate(Why.UNKNOWN, lines=[f"{_sentence(sought.name)} {said}."])


def _other_records(sought: Sought, fate: Fate, terms: Terms) -> Iterator[str]:
    """What else has come under the id, where it says something of its own."""
    for seen in sought.sightings:
        if seen.refusal is not None and not (
            fate.why is Why.REJECTED and seen is _last(sought, Kind.INSERT, refused=True)
        ):
            what = "A retraction" if seen.kind == Kind.RETRACT else "Another record"
            yield f"{what} of {sought.name} was not taken. {_refusal(seen, terms)}"
        elif not seen.taken and seen.kind == Kind.RETRACT:
            yield f"A retraction of {sought.name} has not been read yet ({_place(seen)})."


def _between(
    sought: tuple[Sought, Sought], fates: Sequence[Fate], unit: str
) -> tuple[bool, str] | None:
    """Whether the intervals overlap, and how; None if one is not known."""
    left, right = fates
    if left.interval is None or right.interval is None:
        return None
    start = max(left.interval[0], right.interval[0])
    end = min(left.interval[1], right.interval[1])
    if start == end:
        return True, f"Their intervals have one moment in common, {moment(start, unit)}."
    if start < end:
        both = f"from {moment(start, unit)} to {moment(end, unit)}"
        return True, f"Their intervals overlap for {duration(end - start, unit)}, {both}."
    first, second = sought if left.interval[1] == end else reversed(sought)
    gap = (
        f"{first.name} ends at {moment(end, unit)}, and {second.name} begins at "
        f"{moment(start, unit)}, {duration(start - end, unit)} later"
    )
    return False, f"Their intervals do not overlap: {gap}."


def _retract_first(sought: Sought, fate: Fate) -> None:
    fate.why = Why.RETRACTED_FIRST
    line = f"{_sentence(sought.name)} was ignored when it came: its retraction had come before it."
    fate.lines.append(line)


def _taken_back(sought: Sought, fate: Fate, where: str, unit: str) -> str:
    return (
        f"{_sentence(sought.name)}, {_interval(fate, unit)}, was retracted{where}: matches that "
        f"it had were taken back then, and it gets no more."
    )


def _expiry(sought: Sought, fate: Fate, terms: Terms) -> Iterator[str]:
    """That a row can neither match anew nor be retracted any more."""
    if fate.interval is None or is_retained(fate.interval[1], terms.watermark, terms.horizon):
        return
    assert terms.watermark is not None, "without a watermark nothing expires"
    end, unit = fate.interval[1], terms.unit
    yield (
        f"{_sentence(sought.name)} has expired: the watermark, {moment(terms.watermark, unit)}, "
        f"is {duration(terms.watermark - end - terms.horizon, unit)} past its end + L + D, "
        f"{moment(end + terms.horizon, unit)} (L {duration(terms.lateness, unit)}, D "
        f"{duration(terms.max_interval, unit)}). Nothing can match or retract it any more."
    )


def _refusal(seen: Sighting, terms: Terms) -> str:
    """Why a record was rejected, with the figures that decided."""
    assert seen.refusal is not None, "it was rejected"
    reason, detail = seen.refusal
    unit, found = terms.unit, _WATERMARK.search(detail)
    said = f"Rejected as {reason} ({_place(seen)}): {printable(detail)}."
    if found is None:
        return said
    watermark = int(found[1])
    if reason == Reason.LATE:
        by = watermark - terms.lateness - seen.ts
        return (
            f"{said} Its ts {moment(seen.ts, unit)} is late by {duration(by, unit)} against "
            f"watermark {moment(watermark, unit)} - L {duration(terms.lateness, unit)}."
        )
    if reason == Reason.RETRACT_AFTER_HORIZON:
        by = watermark - terms.horizon - seen.end
        return (
            f"{said} Its end {moment(seen.end, unit)} is late by {duration(by, unit)} against "
            f"watermark {moment(watermark, unit)} - L - D."
        )
    return said


def _end(row: Stored) -> int:
    return row.end


def _last(sought: Sought, kind: Kind, *, refused: bool = False) -> Sighting | None:
    found = [
        seen
        for seen in sought.sightings
        if seen.kind == kind and seen.taken and (seen.refusal is not None) == refused
    ]
    return found[-1] if found else None


def _interval(fate: Fate, unit: str) -> str:
    assert fate.interval is not None, "it is known"
    start, end = fate.interval
    return f"[{moment(start, unit)}, {moment(end, unit)}]"


def _place(seen: Sighting) -> str:
    before = ", before a reshard" if seen.resharded else ""
    return f"offset {seen.offset} of partition {seen.partition}{before}"


def _key(key: bytes | None) -> str:
    if key is None:
        return "none"
    try:
        return printable(key.decode()) or '""'
    except UnicodeDecodeError:
        return f"{key.hex()} (hexadecimal)"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
