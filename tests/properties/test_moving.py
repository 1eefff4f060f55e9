"""However keys lie and lanes are counted: no row is lost or doubled, and no watermark falls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance.moving import (
    NewLane,
    differences,
    distribute,
    first_of,
    jumps,
    levels,
    merged,
    sources,
    strays,
)
from schemas.partition import PARTITIONERS
from state.checkpoint import Bucket, Watermarks
from state.keys import REMEMBERED, parse_row_key
from tests.unit.stored import CHECKPOINT, entry_of, row

Rows = dict[bytes, bytes]
counts = st.integers(1, 12)
times = st.none() | st.integers(-50, 50)
hashes = st.sampled_from(sorted(PARTITIONERS))
stored = st.lists(
    st.tuples(st.integers(-3, 3), st.binary(max_size=3), st.sampled_from([0, 1, REMEMBERED])),
    max_size=40,
)


def watermarks(lane: int | None, left: int | None, right: int | None) -> Watermarks:
    """As a lane may have them: never behind both of its sides."""
    if left is not None and right is not None:
        lane = min(left, right) if lane is None else max(lane, min(left, right))
    return Watermarks(lane, left, right)


def directory(rows: Rows) -> dict[int, Bucket]:
    """The figures of rows, bucket by bucket, as `differences` needs them."""
    buckets: dict[int, Rows] = {}
    for name, value in rows.items():
        buckets.setdefault(parse_row_key(name).bucket, {})[name] = value
    return {
        bucket: entry_of(held)._replace(
            remembered=sum(value[0] == REMEMBERED for value in held.values())
        )
        for bucket, held in buckets.items()
    }


@given(stored, hashes, counts, counts)
def test_every_row_is_in_the_lane_of_its_key(
    drawn: list[tuple[int, bytes, int]], name: str, before: int, more: int
) -> None:
    hash_of, after = PARTITIONERS[name], before + more
    old: list[Rows] = [{} for _ in range(before)]
    for number, (bucket, key, flags) in enumerate(drawn):
        row_key, row_value = row(number, bucket=bucket, key=key, flags=flags)
        old[hash_of(key) % before][row_key] = row_value
    new = [NewLane(first_of([CHECKPOINT], (0, 0), (0, 0), (2, "w", after))) for _ in range(after)]
    for lane, rows in enumerate(old):
        assert strays(sorted(rows.items()), lane, lambda key: hash_of(key) % before) == set()
        distribute(sorted(rows.items()), lambda key: hash_of(key) % after, new)
    written = [dict(lane.turn().rows) for lane in new]
    for number, rows in enumerate(written):
        keys = {parse_row_key(row_key).key for row_key in rows}
        assert {hash_of(key) % after for key in keys} <= {number}
        came_from = {lane for lane in range(before) if old[lane].keys() & rows.keys()}
        assert came_from <= set(sources(number, before, after))
        assert new[number].buckets == directory(rows)
    everything = {name: value for rows in old for name, value in rows.items()}
    assert sum(map(len, written)) == len(everything)
    assert {name: value for rows in written for name, value in rows.items()} == everything
    olds, news = [directory(rows) for rows in old], [lane.buckets for lane in new]
    assert differences(olds, news) == []
    for rows in written:
        if rows:
            rows.popitem()
            assert differences(olds, [directory(rows) for rows in written]) != []
            break


@given(st.lists(st.builds(watermarks, times, times, times), min_size=1, max_size=6), counts)
def test_no_watermark_falls_or_goes_beyond_the_largest(marks: list[Watermarks], more: int) -> None:
    after = len(marks) + more
    raised = levels(marks, after)
    for lane in range(after):
        found = sources(lane, len(marks), after)
        new = merged([marks[old] for old in found])
        assert {raised[old] for old in found} == {new.lane}
        lanes = [marks[old].lane for old in found]
        assert new.lane == max((one for one in lanes if one is not None), default=None)
        if new.left is not None and new.right is not None:
            assert new.lane is not None
            assert min(new.left, new.right) <= new.lane
    for lane, was, new_ in jumps(marks, after, 10):
        assert was is None or new_ > was + 10
        assert raised[lane] == new_
