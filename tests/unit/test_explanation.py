"""What is said of two rows: which rule, and which figures."""

from __future__ import annotations

import pytest

from app.explanation import Why, explain, in_output
from app.sought import Refusal, Sighting, Sought, Stored, Terms
from schemas.records import Kind, Side
from state.keys import LIVE, MET, REMEMBERED, RETRACTED

TERMS = Terms(10, 50, 20, "none")
ASKED = (b"k", 2)


def stored(side: Side, start: int, end: int, flags: int = LIVE) -> Sought:
    name = "lr"[side] + "1"
    return Sought(side, name, ASKED, [Stored(start, end, start, flags)], searched=True)


def seen(
    offset: int,
    start: int,
    end: int,
    kind: Kind = Kind.INSERT,
    refusal: Refusal | None = None,
    **changes: object,
) -> Sighting:
    found = Sighting(2, offset, b"k", int(kind), start, start, end, refusal=refusal)
    return found._replace(**changes)  # type: ignore[arg-type]  # Any of its fields.


def sought(side: Side, *sightings: Sighting) -> Sought:
    return Sought(side, "lr"[side] + "1", ASKED, (), sightings, searched=True)


LEFT = stored(Side.LEFT, 0, 10)
RIGHT = stored(Side.RIGHT, 5, 15)


def said(left: Sought, right: Sought, terms: Terms = TERMS) -> tuple[Why, str]:
    found = explain(left, right, terms)
    assert (found.matches is True) == (found.why is Why.MATCH)
    return found.why, "\n".join(found.lines)


@pytest.mark.parametrize(
    ("right", "why", "words"),
    [
        (
            stored(Side.RIGHT, 5, 15),
            Why.MATCH,
            "overlap for 5, from 5 to 10. The match is L:l1|R:r1.",
        ),
        (stored(Side.RIGHT, 10, 15), Why.MATCH, "one moment in common, 10. The match is"),
        (
            stored(Side.RIGHT, 11, 15),
            Why.APART,
            "left l1 ends at 10, and right r1 begins at 11, 1 later",
        ),
        (
            stored(Side.RIGHT, -9, -3),
            Why.APART,
            "right r1 ends at -3, and left l1 begins at 0, 3 later",
        ),
        (stored(Side.RIGHT, 5, 15, RETRACTED), Why.RETRACTED, "Right r1, [5, 15], was retracted: "),
        (stored(Side.RIGHT, 5, 15, MET), Why.RETRACTED_FIRST, "its retraction had come before it"),
        (
            stored(Side.RIGHT, 5, 15, REMEMBERED),
            Why.NO_INSERT,
            "Of right r1 only a retraction has come",
        ),
        (
            sought(Side.RIGHT),
            Why.UNKNOWN,
            "Right r1 is unknown: it is neither in the state nor in its topic",
        ),
        (
            Sought(Side.RIGHT, "r1", ASKED),
            Why.UNKNOWN,
            "Right r1 is not in the state: it never came",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15)),
            Why.MATCH,
            "Right r1 was taken (offset 9 of partition 2): [5, 15]",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15, taken=False)),
            Why.UNREAD,
            "has not been read yet (offset 9 of",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15), seen(12, 5, 15, Kind.RETRACT)),
            Why.RETRACTED,
            "was retracted, by offset 12 of partition 2",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15, Kind.RETRACT), seen(12, 5, 15)),
            Why.RETRACTED_FIRST,
            "Right r1 was ignored when it came",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15, Kind.RETRACT)),
            Why.NO_INSERT,
            "there is only a retraction",
        ),
        (
            sought(Side.RIGHT, seen(9, 5, 15), seen(12, 5, 15, Kind.RETRACT, taken=False)),
            Why.MATCH,
            "A retraction of right r1 has not been read yet (offset 12 of partition 2).",
        ),
    ],
)
def test_rules(right: Sought, why: Why, words: str) -> None:
    found, text = said(LEFT, right)
    assert found is why
    assert words in text


def test_late_by_how_much() -> None:
    detail = "ts 5 is more than the allowed lateness 10 before watermark 22"
    late = sought(Side.RIGHT, seen(9, 5, 15, refusal=Refusal("late", detail)))
    why, text = said(LEFT, late)
    assert why is Why.REJECTED
    assert "Rejected as late (offset 9 of partition 2)" in text
    assert "Its ts 5 is late by 7 against watermark 22 - L 10." in text
    # What would have been stands behind it.
    assert "Their intervals overlap for 5" in text


def test_a_retraction_after_the_horizon_leaves_the_match() -> None:
    detail = "end 15 is more than 60 before watermark 99"
    refusal = Refusal("retract_after_horizon", detail)
    right = sought(Side.RIGHT, seen(3, 5, 15), seen(9, 5, 15, Kind.RETRACT, refusal))
    why, text = said(LEFT, right, TERMS._replace(watermark=99))
    assert why is Why.MATCH
    assert "A retraction of right r1 was not taken. Rejected as retract_after_horizon" in text
    assert "Its end 15 is late by 24 against watermark 99 - L - D." in text


def test_a_refused_twin_does_not_undo_the_row() -> None:
    refusal = Refusal("conflicting_duplicate", "id r1 has [5, 15] already, not [5, 16]")
    why, text = said(LEFT, sought(Side.RIGHT, seen(3, 5, 15), seen(9, 5, 16, refusal=refusal)))
    assert why is Why.MATCH
    assert "Another record of right r1 was not taken. Rejected as conflicting_duplicate" in text


@pytest.mark.parametrize(("watermark", "expired"), [(70, False), (71, True), (None, False)])
def test_the_horizon_is_inclusive(watermark: int | None, expired: bool) -> None:
    _, text = said(LEFT, RIGHT, TERMS._replace(watermark=watermark))
    assert ("Left l1 has expired" in text) is expired
    assert ("is 1 past its end + L + D, 70 (L 10, D 50)" in text) is expired


def test_another_key() -> None:
    right = Sought(Side.RIGHT, "r1", ASKED, searched=True)
    right.elsewhere = [seen(7, 5, 15, key=b"\xff\x00", partition=1)]
    why, text = said(LEFT, right)
    assert why is Why.OTHER_KEY
    assert "has another key: ff00 (hexadecimal) (offset 7 of partition 1), not k." in text


def test_another_lane() -> None:
    right = Sought(Side.RIGHT, "r1", ASKED, searched=True)
    right.elsewhere = [seen(7, 5, 15, partition=1)]
    why, text = said(LEFT, right)
    assert why is Why.OTHER_LANE
    assert "Right r1 is in partition 1 (offset 7), not in 2" in text
    assert "different partitioners" in text


def astray(side: Side, partition: int) -> Sought:
    row = Sought(side, "lr"[side] + "1", ASKED, searched=True)
    row.elsewhere = [seen(7, 5, 15, partition=partition)]
    return row


def test_both_in_one_other_lane_may_have_met_there() -> None:
    found = explain(astray(Side.LEFT, 1), astray(Side.RIGHT, 1), TERMS)
    assert (found.why, found.matches) == (Why.OTHER_LANE, None)
    assert "Both are in partition 1: --lane 1 asks there." in found.lines
    found = explain(astray(Side.LEFT, 0), astray(Side.RIGHT, 1), TERMS)
    assert (found.why, found.matches) == (Why.OTHER_LANE, False)


def test_what_the_output_has_goes_before_what_was_found() -> None:
    found = explain(astray(Side.LEFT, 0), astray(Side.RIGHT, 1), TERMS)
    found = in_output(found, "L:l1|R:r1", "offset 3 of partition 0 of out")
    assert (found.why, found.matches) == (Why.MATCH, True)
    assert found.lines[0] == "The output has L:l1|R:r1 (offset 3 of partition 0 of out)."
    assert not any("never meet" in line for line in found.lines)


def test_a_record_of_before_a_reshard() -> None:
    right = sought(Side.RIGHT, seen(9, 5, 15, partition=1, resharded=True))
    why, text = said(LEFT, right)
    assert why is Why.MATCH
    assert "Right r1 was taken (offset 9 of partition 1, before a reshard)" in text


@pytest.mark.parametrize(
    ("older", "gone", "words"),
    [
        (1_200, 0, "; 1,200 older offsets were not: --scan N looks at N of each partition."),
        (0, 7, "; 7 offsets are no longer in its topic."),
    ],
)
def test_what_was_not_looked_at_may_say_otherwise(older: int, gone: int, words: str) -> None:
    right = sought(Side.RIGHT)
    right.older, right.gone = older, gone
    found = explain(LEFT, right, TERMS)
    assert (found.why, found.matches) == (Why.UNKNOWN, None)
    assert "Right r1 was not found" in found.lines[1]
    assert found.lines[1].endswith(words)
    # What was retracted never matches, whatever the other one is.
    assert explain(stored(Side.LEFT, 0, 10, RETRACTED), right, TERMS).matches is False
    assert explain(LEFT, sought(Side.RIGHT), TERMS).matches is False, "all was looked at"


def test_a_match_that_is_too_large() -> None:
    found = explain(LEFT, RIGHT, TERMS, Refusal("too_large", "it takes 9 bytes"))
    assert found.why is Why.TOO_LARGE
    assert "too large for the output topic: it takes 9 bytes" in found.lines[0]


def test_the_first_rule_names_the_reason_and_all_are_told() -> None:
    why, text = said(stored(Side.LEFT, 0, 10, RETRACTED), sought(Side.RIGHT))
    assert why is Why.UNKNOWN
    assert "Left l1, [0, 10], was retracted" in text


def test_times_are_said_as_times() -> None:
    day = 86_400_000
    right = stored(Side.RIGHT, day + 5_400_000, 2 * day)
    left = stored(Side.LEFT, 0, day)
    why, text = said(left, right, Terms(10, 50, None, "ms"))
    assert why is Why.APART
    assert "ends at 1970-01-02 00:00:00, and right r1 begins at 1970-01-02 01:30:00" in text
    assert "1 h 30 min later" in text


def test_an_id_cannot_move_the_cursor() -> None:
    left = Sought(Side.LEFT, "l\x1b[2J", ASKED)
    assert "\\x1b[2J" in said(left, RIGHT)[1]


def test_the_state_goes_before_what_is_left_in_the_topics() -> None:
    right = stored(Side.RIGHT, 5, 15, RETRACTED)
    right.sightings = [seen(9, 5, 15)]
    assert said(LEFT, right)[0] is Why.RETRACTED


def test_a_retraction_that_waits_for_a_row_that_was_refused() -> None:
    right = stored(Side.RIGHT, 5, 15, REMEMBERED)
    right.sightings = [
        seen(9, 5, 15, refusal=Refusal("late", "it is")),
        seen(10, 5, 15, Kind.RETRACT),
    ]
    why, text = said(LEFT, right)
    assert why is Why.REJECTED
    assert "Right r1 was not taken. Rejected as late" in text


def test_a_row_may_be_among_the_rejects_that_are_gone() -> None:
    right = sought(Side.RIGHT, seen(9, 5, 15))
    assert "should right r1 be one of them" not in said(LEFT, right)[1]
    right.rejects_from = 7
    assert (
        "Rejects before offset 7 were not there to be read: should right r1" in said(LEFT, right)[1]
    )
    in_state = stored(Side.RIGHT, 5, 15)
    in_state.rejects_from = 7
    assert "Rejects before" not in said(LEFT, in_state)[1], "the state has it, so it was taken"
