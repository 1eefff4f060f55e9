"""What cannot be joined ends in the rejects topic with its reason and origin, and all goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tests.kafka.avro import EVENT_HEADER, Event, body, encode, instant, long, match_id, sized
from tests.kafka.lane import HORIZON, KEY, LATENESS, LEFT, MAX_INTERVAL, RIGHT, matches

if TYPE_CHECKING:
    from tests.kafka.lane import Lane

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
ROOM: Final = LATENESS + 4 * MAX_INTERVAL
GOOD: Final = Event("good", 10, 10, 20)
TIMES: Final = long(10) + long(10) + long(20)

UNDECODABLE: Final = {
    "empty": b"",
    "not Avro": b"hello",
    "only the framing": EVENT_HEADER,
    "half a framing": EVENT_HEADER[:6],
    "another magic": b"\xc3\x02" + encode(GOOD)[2:],
    "another schema's fingerprint": b"\xc3\x01" + b"\x01" * 8 + body(GOOD),
    "Confluent framing": b"\0\0\0\0\x01" + body(GOOD),
    "cut off": encode(GOOD)[:-1],
    "something behind it": encode(GOOD) + b"\0",
    "id is not UTF-8": EVENT_HEADER + sized(b"\xff\xfe") + TIMES + long(0) + long(0),
    "id of negative length": EVENT_HEADER + long(-1) + TIMES + long(0) + long(0),
    "id longer than the value": EVENT_HEADER + long(1 << 40) + b"x" + TIMES + long(0) + long(0),
    "unknown kind": EVENT_HEADER + sized(b"x") + TIMES + long(3) + long(0),
    "negative kind": EVENT_HEADER + sized(b"x") + TIMES + long(-1) + long(0),
    "unknown branch of the payload": EVENT_HEADER + sized(b"x") + TIMES + long(0) + long(2),
    "a time that never ends": EVENT_HEADER + sized(b"x") + b"\xff" * 30,
}


def test_bytes_that_are_no_event_are_undecodable(lane: Lane) -> None:
    sent = [(key, value) for value in UNDECODABLE.values() for key in (KEY, None)]
    for key, value in sent:
        lane.raw(RIGHT, key, value)
    names = [name for name in UNDECODABLE for _ in range(2)]
    reasons = lane.reasons()
    assert dict(zip(names, reasons, strict=True)) == dict.fromkeys(names, "undecodable")
    assert [(one.key, one.value) for one in lane.rejected] == sent
    assert all(one.headers["detail"] for one in lane.rejected)


INVALID: Final[dict[str, tuple[Event, str]]] = {
    "inverted": (Event("x", 20, 20, 19), "invalid_interval"),
    "ts before it": (Event("x", 9, 10, 20), "invalid_interval"),
    "ts after it": (Event("x", 21, 10, 20), "invalid_interval"),
    "inverted retraction": (Event("x", 20, 20, 19, "RETRACT"), "invalid_interval"),
    "too long": (Event("x", 10, 10, 11 + MAX_INTERVAL), "interval_too_long"),
    "too long retraction": (Event("x", 0, 10, 11 + MAX_INTERVAL, "RETRACT"), "interval_too_long"),
    "too early": (instant("x", INT64_MIN + ROOM - 1), "out_of_range"),
    "too far": (instant("x", INT64_MAX - ROOM + 1), "out_of_range"),
    "least of all": (instant("x", INT64_MIN), "out_of_range"),
    "greatest of all": (instant("x", INT64_MAX), "out_of_range"),
    "whole range": (Event("x", 0, INT64_MIN, INT64_MAX), "out_of_range"),
    "too far retraction": (Event("x", 0, 0, INT64_MAX, "RETRACT"), "out_of_range"),
    "too far watermark": (Event("", INT64_MAX - ROOM + 1, 0, 0, "WATERMARK"), "out_of_range"),
    "too early watermark": (Event("", INT64_MIN, 0, 0, "WATERMARK"), "out_of_range"),
}


def test_invalid_events_are_rejected_and_move_nothing(lane: Lane) -> None:
    for event, _ in INVALID.values():
        lane.raw(LEFT, KEY, encode(event))
    lane.watermark(1000, RIGHT)
    lane.insert(LEFT, "l1", -5, 5)
    lane.settle()
    lane.insert(RIGHT, "r1", -5, 5)
    reasons = dict(zip(INVALID, lane.reasons(), strict=True))
    assert reasons == {name: reason for name, (_, reason) in INVALID.items()}
    assert lane.log() == matches(("l1", "r1"))


def test_null_values_and_null_keys_are_rejected(lane: Lane) -> None:
    lane.raw(LEFT, KEY, None)
    lane.raw(LEFT, None, None)
    lane.raw(LEFT, None, encode(GOOD))
    lane.raw(LEFT, None, encode(GOOD._replace(kind="RETRACT")))
    assert lane.reasons() == ["null_value", "null_value", "null_key", "null_key"]
    assert [(one.key, one.value) for one in lane.rejected] == [
        (KEY, None),
        (None, None),
        (None, encode(GOOD)),
        (None, encode(GOOD._replace(kind="RETRACT"))),
    ]


def test_a_reject_says_where_it_came_from_and_is_otherwise_unchanged(lane: Lane) -> None:
    lane.insert(RIGHT, "fine", 10, 20)
    value = encode(Event("x", 20, 20, 19, payload=b"p"))
    headers = {"trace": b"\0\xff", "reason": b"the user's own", "empty": b""}
    before = time.time()
    lane.raw(RIGHT, b"\0key", value, headers)
    lane.settle()
    (reject,) = lane.rejected
    assert (reject.partition, reject.key, reject.value) == (lane.number, b"\0key", value)
    detail = reject.headers.pop("detail").decode()
    assert "20" in detail
    assert "19" in detail
    assert reject.headers == {
        "trace": b"\0\xff",
        "empty": b"",
        # A consumer takes the last one of a name.
        "reason": b"invalid_interval",
        "topic": lane.topic(RIGHT).encode(),
        "partition": str(lane.number).encode(),
        "offset": b"1",
    }
    # The wall clock's time, not the event's.
    assert before - 60 < reject.timestamp / 1000 < time.time() + 60


def test_a_lane_goes_on_after_rejects_on_both_sides(lane: Lane) -> None:
    for side, name in ((LEFT, "l"), (RIGHT, "r")):
        for number in range(50):
            lane.raw(side, KEY, b"junk")
            lane.raw(side, KEY, None)
            lane.raw(side, None, encode(GOOD))
            lane.insert(side, f"{name}{number}", number, number)
    assert lane.log() == matches(*[(f"l{number}", f"r{number}") for number in range(50)])
    assert len(lane.reasons()) == 300
    origins = {(one.headers["topic"], one.headers["offset"]) for one in lane.rejected}
    assert len(origins) == 300


# The first check that fails gives the reason; each event here fails the next one too, where it can.
SEVERAL: Final[dict[str, tuple[bytes | None, bytes | None, str]]] = {
    "no value, no key": (None, None, "null_value"),
    "undecodable, no key": (None, b"junk", "undecodable"),
    "no key, out of range": (None, encode(instant("x", INT64_MAX)), "null_key"),
    "out of range, inverted": (KEY, encode(Event("x", 0, INT64_MAX, 0)), "out_of_range"),
    "ts outside, too long": (KEY, encode(Event("x", 0, 100, 900)), "invalid_interval"),
    "too long, a known id": (KEY, encode(Event("known", 900, 900, 990)), "interval_too_long"),
    "conflicting, late": (KEY, encode(Event("known", 900, 900, 905)), "conflicting_duplicate"),
    "late": (KEY, encode(Event("x", 900, 900, 905)), "late"),
    "retracted past the horizon": (
        KEY, encode(instant("x", 1000 - HORIZON - 1, "RETRACT")), "retract_after_horizon",
    ),
}  # fmt: skip


def test_the_first_check_that_fails_gives_the_reason(lane: Lane) -> None:
    lane.raw(LEFT, KEY, encode(Event("known", 960, 960, 990)))
    lane.watermark(1000)
    for key, value, _ in SEVERAL.values():
        lane.raw(LEFT, key, value)
    reasons = dict(zip(SEVERAL, lane.reasons(), strict=True))
    assert reasons == {name: reason for name, (_, _, reason) in SEVERAL.items()}


def test_a_match_that_is_too_large_is_rejected_under_its_id(lane: Lane) -> None:
    half, key = b"x" * 600_000, b"large"
    lane.insert(LEFT, "l|1", 10, 20, payload=half, key=key)
    lane.settle()
    lane.insert(RIGHT, "r1", 15, 25, payload=half, key=key)
    lane.insert(RIGHT, "r2", 20, 30, key=key)
    assert lane.log() == matches(("l|1", "r2"))
    assert lane.reasons() == ["too_large"]
    (reject,) = lane.rejected
    assert reject.key == match_id(lane.own("l|1"), lane.own("r1")).encode()
    assert reject.key.startswith(b"L:l%7C1")
    assert reject.value == b""
    assert reject.partition == lane.number
    detail = reject.headers["detail"].decode()
    assert lane.own("l|1") in detail
    assert lane.own("r1") in detail
    lane.retract(RIGHT, "r1", 15, 25, key=key)
    lane.retract(RIGHT, "r2", 20, 30, key=key)
    log = lane.log()
    # Of a match that was too large a tombstone may be written, which does no harm.
    assert log.pop("L:l%7C1|R:r1", "-") == "-"
    assert log == {"L:l%7C1|R:r2": "+-"}
    assert lane.reasons() == ["too_large"]


def test_rows_of_a_megabyte_match_with_small_ones(lane: Lane) -> None:
    lane.insert(LEFT, "l1", 10, 20, payload=b"x" * 1_000_000)
    lane.insert(RIGHT, "r1", 15, 25)
    assert lane.log() == matches(("l1", "r1"))
    assert lane.reasons() == []
