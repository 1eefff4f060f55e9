"""What stops a takeover: each contradiction is one line with topic and mend."""

from dataclasses import replace

import pytest

from rebalance.lanes import RESHARDING, Bound, Extent, Lane, Mismatch, check_install
from state.checkpoint import Checkpoint, Layout, Watermarks

LAYOUT = Layout("ms", 10, 50, 15, "c", "l", "r")
CHECKPOINT = Checkpoint(
    epoch=3,
    sequence=9,
    writer="w",
    owner="o",
    address="",
    released=True,
    left_position=100,
    right_position=200,
    watermarks=Watermarks(1, 2, 3),
    rows=0,
    size=0,
    layout=LAYOUT,
)
INPUTS = (Extent(0, 150), Extent(0, 250))


class _Store:
    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint = checkpoint


def check(
    checkpoint: Checkpoint | None = CHECKPOINT,
    stored: tuple[int | None, int | None] = (100, 200),
    inputs: tuple[Extent, Extent] = INPUTS,
    layout: Layout = LAYOUT,
) -> None:
    lane = Lane(4, None)  # type: ignore[arg-type]  # no store is opened here
    lane.store = _Store(checkpoint)  # type: ignore[assignment]  # only its checkpoint is read
    check_install(lane, Bound(stored, inputs, Extent(0, 9)), layout, ("flights", "weather"))


@pytest.mark.parametrize("stored", [(100, 200), (None, None), (50, None), (0, 200)])
def test_offsets_behind_or_missing_are_normal(stored: tuple[int | None, int | None]) -> None:
    check(stored=stored)


def test_a_new_lane_passes() -> None:
    check(checkpoint=None, stored=(None, None))


def test_offsets_ahead_stop() -> None:
    with pytest.raises(Mismatch, match=r"offset 201 of weather .* position 200.*spanjoin reset"):
        check(stored=(100, 201))


def test_offsets_without_a_changelog_stop() -> None:
    with pytest.raises(Mismatch, match=r"offset 100 of flights .* no changelog.*spanjoin reset"):
        check(checkpoint=None)


@pytest.mark.parametrize("stored", [(None, None), (RESHARDING, RESHARDING)])
def test_a_reshard_that_did_not_end_stops(stored: tuple[int | None, int | None]) -> None:
    marked = replace(CHECKPOINT, resharding=0 if stored[0] else 3)
    with pytest.raises(Mismatch, match="run `spanjoin reshard` again"):
        check(marked, stored=stored)


def test_a_new_lane_of_a_reshard_that_did_not_end_stops() -> None:
    with pytest.raises(Mismatch, match="run `spanjoin reshard` again"):
        check(None, stored=(RESHARDING, RESHARDING))


def test_truncated_input_stops() -> None:
    with pytest.raises(Mismatch, match=r"flights partition 4 begins at offset 101.*retention"):
        check(inputs=(Extent(101, 150), Extent(0, 250)))


def test_an_input_cut_exactly_at_the_position_is_fine() -> None:
    check(inputs=(Extent(100, 150), Extent(200, 200)))


def test_an_input_that_ends_before_the_position_stops() -> None:
    with pytest.raises(Mismatch, match=r"weather partition 4 ends at offset 199.*recreated"):
        check(inputs=(Extent(0, 150), Extent(0, 199)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"left_id": "other"}, "flights is not the one that the state of lane"),
        ({"right_id": "other"}, "weather is not the one that the state of lane"),
        ({"unit": "us"}, "unit is 'us'.*'ms'"),
        ({"join_type": "full"}, "join.type is 'full'.*'inner'"),
    ],
)
def test_another_topic_or_unit_stops(change: dict[str, str], words: str) -> None:
    with pytest.raises(Mismatch, match=words) as stopped:
        check(layout=replace(LAYOUT, **change))  # type: ignore[arg-type]  # fields of text only
    assert not stopped.value.bounds


@pytest.mark.parametrize("change", [{"lateness": 11}, {"max_interval": 51}])
def test_larger_bounds_stop_unless_accepted(change: dict[str, int]) -> None:
    with pytest.raises(Mismatch, match="--accept-bounds") as stopped:
        check(layout=replace(LAYOUT, **change))  # type: ignore[arg-type]  # numbers only
    assert stopped.value.bounds


@pytest.mark.parametrize("change", [{"lateness": 11}, {"max_interval": 51}])
def test_an_outer_join_takes_no_larger_bounds(change: dict[str, int]) -> None:
    outer = replace(LAYOUT, join_type="left")
    with pytest.raises(Mismatch, match="written as unmatched; set it back, or start") as stopped:
        check(
            replace(CHECKPOINT, layout=outer),
            layout=replace(outer, **change),  # type: ignore[arg-type]  # numbers only
        )
    assert not stopped.value.bounds


@pytest.mark.parametrize("change", [{"lateness": 9}, {"max_interval": 49}, {"changelog_id": "x"}])
def test_smaller_bounds_are_fine(change: dict[str, int]) -> None:
    check(layout=replace(LAYOUT, **change))  # type: ignore[arg-type]  # fields of either kind
