"""A key that has rows in a bucket is always reported there; one that has none, rarely."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Side
from state.keys import row_key
from state.presence import BYTES_MAX, CELLS_MAX, CELLS_MIN, CELLS_PER_KEY, Presence

buckets = st.integers(-70, 70)
keys = st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"k" * 300])
rows = st.tuples(buckets, st.sampled_from(Side), keys)
steps = st.lists(st.lists(rows, max_size=30) | buckets, max_size=12)


@given(steps, st.lists(buckets, max_size=4))
def test_nothing_stored_is_ever_missed(
    steps: list[list[tuple[int, Side, bytes]] | int], unknown: list[int]
) -> None:
    presence, stored = Presence(unknown), set[tuple[int, Side, bytes]]()
    for step in steps:
        if isinstance(step, int):
            presence.drop(step)
            stored = {row for row in stored if row[0] != step}
        else:
            presence.add(sorted(named(*row) for row in step))
            stored.update(step)
        for key in {row[2] for row in stored}:
            found = presence.look(range(-70, 71), key)
            assert {row[:2] for row in stored if row[2] == key} <= set(found)
            assert len(found) == len(set(found))


@given(st.sets(buckets, min_size=1))
def test_unknown_buckets_are_reported_until_they_are_known(unknown: set[int]) -> None:
    presence = Presence(unknown)
    everything = {(bucket, side) for bucket in unknown for side in Side}
    assert set(presence.look(range(-70, 71), b"key")) == everything
    gone = min(unknown)
    presence.drop(gone)
    assert {bucket for bucket, _ in presence.look(range(-70, 71), b"key")} == unknown - {gone}
    presence.unknown.clear()
    assert presence.look(range(-70, 71), b"key") == []


def test_false_reports_are_rare_and_memory_is_bounded() -> None:
    presence = Presence()
    for first in range(0, 5 * 8_000, 8_000):  # Five buckets, one after the other.
        bucket = first // 8_000
        presence.add(
            sorted(named(bucket, Side(n % 2), b"%d" % n) for n in range(first, first + 8_000))
        )
    false = sum(len(presence.look([4], b"never-%d" % n)) for n in range(10_000))
    assert false < 10_000 * 0.06
    assert len(presence) <= 5 * 4 * CELLS_PER_KEY * 8_000
    presence.add(
        sorted(named(9, Side.LEFT, b"%d" % n) for n in range(2 * CELLS_MAX // CELLS_PER_KEY))
    )
    assert len(presence) <= 5 * 4 * CELLS_PER_KEY * 8_000 + CELLS_MAX
    for bucket in range(10):
        presence.drop(bucket)
    assert len(presence) == 0


def test_many_buckets_stay_within_the_limit() -> None:
    presence = Presence()
    presence.add(sorted(named(0, Side.LEFT, b"%d" % n) for n in range(CELLS_MAX // CELLS_PER_KEY)))
    many = 2 * BYTES_MAX // CELLS_MAX
    for bucket in range(1, many):
        presence.add([named(bucket, Side.RIGHT, b"key")])
        assert presence.look([bucket], b"key") == [(bucket, Side.RIGHT)]
    assert len(presence) <= BYTES_MAX + CELLS_MIN * many
    for bucket in range(many):
        presence.drop(bucket)
    assert len(presence) == 0


def named(bucket: int, side: Side, key: bytes) -> bytes:
    return row_key(bucket, side, key, bucket * 10 + 3, bucket * 10, "id")
