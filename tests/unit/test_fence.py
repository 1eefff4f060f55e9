"""Who is fenced in a takeover, and the order in which the broker is asked."""

from dataclasses import dataclass, field

from rebalance.fence import RELEASE_MARKER_WAIT_MS, Stamp, Survey, establish, fence_tail
from rebalance.lanes import Extent


@dataclass
class Broker:
    """A changelog of one lane as an authority tells it; writes down what it was asked."""

    stable_at: int
    end: int
    stamps: list[Stamp] = field(default_factory=list)
    settles_after: int = 10**9
    """After how many looks at the stable offset the tail's marker lands."""
    asked: list[str] = field(default_factory=list)
    cut_to: int = 0
    """Where the log is found to begin by whoever reads its tail; it is known from then on."""
    start: int = 0

    def look_again(self) -> None:
        self.asked.append("look again")

    def changelog(self, lane: int) -> Extent:
        self.asked.append("high")
        return Extent(self.start, self.end)

    def stable(self, lane: int) -> int:
        self.asked.append("stable")
        self.settles_after -= 1
        return self.stable_at if self.settles_after >= 0 else self.end

    def tail(self, lane: int, start: int, end: int) -> list[Stamp] | None:
        assert (start, end) == (max(self.stable_at, self.start), self.end)
        if start < self.cut_to:
            self.start = self.cut_to
            return None
        return self.stamps

    def fence(self, writer: str) -> None:
        self.asked.append(f"fence {writer}")

    def stored(self, lane: int) -> tuple[int | None, int | None]:
        self.asked.append("stored")
        return 7, None

    def inputs(self, lane: int) -> tuple[Extent, Extent]:
        return Extent(0, 9), Extent(0, 9)


def survey(position: int, suspect: str | None = None) -> Survey:
    return Survey(0, position, suspect, own=frozenset({"me", "before"}))


def test_released_lane_needs_no_fence() -> None:
    broker = Broker(stable_at=5, end=5)
    answer = establish(broker, survey(5))
    assert answer is not None
    assert answer.names == frozenset()
    assert answer.bound.changelog.end == 5
    assert answer.bound.stored == (7, None)


def test_writer_of_an_unreleased_checkpoint_is_fenced() -> None:
    broker = Broker(stable_at=5, end=5)
    answer = establish(broker, survey(5, suspect="w1"))
    assert answer is not None
    assert answer.names == {"w1"}


def test_stored_offsets_are_read_before_the_high_watermark_and_after_the_fence() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("w2", released=False)])
    establish(broker, survey(5, suspect="w1"))
    assert broker.asked[-4:] == ["fence w1", "fence w2", "stored", "high"]


def test_undecided_tail_names_its_writer() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("w2", released=False)])
    answer = establish(broker, survey(5))
    assert answer is not None
    assert answer.names == {"w2"}


def test_own_names_are_spared() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("me", released=False)])
    answer = establish(broker, survey(5, suspect="before"))
    assert answer is not None
    assert answer.names == frozenset()
    assert not [asked for asked in broker.asked if asked.startswith("fence")]


def test_replay_goes_on_first_when_more_is_decided() -> None:
    broker = Broker(stable_at=5, end=5)
    assert establish(broker, survey(4, suspect="w1")) is None
    assert "stored" not in broker.asked


def test_release_without_its_marker_is_waited_for_not_fenced() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("healthy", released=True)], settles_after=3)
    assert establish(broker, survey(5)) is None, "the marker landed: replay on, then ask again"
    assert not [asked for asked in broker.asked if asked.startswith("fence")]


def test_release_whose_marker_never_comes_is_fenced_in_the_end() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("stuck", released=True)])
    answer = establish(broker, survey(5))
    assert answer is not None
    assert answer.names == {"stuck"}
    assert RELEASE_MARKER_WAIT_MS <= 2_000


def test_an_undecided_tail_is_ended_before_the_lane_is_replayed() -> None:
    stamps = [Stamp("w1", released=True), Stamp("w2", released=False), Stamp("me", released=False)]
    broker = Broker(stable_at=5, end=8, stamps=stamps)
    fence_tail(broker, 0, frozenset({"me"}))
    assert broker.asked == ["stable", "high", "fence w1", "fence w2"]


def test_a_release_without_its_marker_is_left_to_its_writer() -> None:
    broker = Broker(stable_at=5, end=6, stamps=[Stamp("w2", released=True)])
    fence_tail(broker, 0, frozenset())
    assert broker.asked == ["stable", "high"]


def test_a_tail_that_is_decided_is_not_read() -> None:
    broker = Broker(stable_at=5, end=5, stamps=[Stamp("w2", released=False)])
    fence_tail(broker, 0, frozenset())
    assert broker.asked == ["stable", "high"]


def test_a_tail_that_was_cut_is_not_ended_for_whoever_owns_the_lane_now() -> None:
    broker = Broker(stable_at=5, end=9, stamps=[Stamp("w2", released=False)], cut_to=7)
    fence_tail(broker, 0, frozenset())
    assert broker.asked == ["stable", "high"]


def test_replay_goes_on_first_when_the_log_was_cut_beyond_it() -> None:
    broker = Broker(stable_at=5, end=9, stamps=[Stamp("w2", released=False)], cut_to=7)
    assert establish(broker, survey(5, suspect="w1")) is None
    assert broker.asked == ["stable", "high", "look again", "stable", "high"]


def test_writers_of_the_tail_that_is_there_are_fenced_after_old_news_of_it() -> None:
    broker = Broker(stable_at=5, end=9, stamps=[Stamp("w2", released=False)], cut_to=7)
    answer = establish(broker, survey(7))
    assert answer is not None
    assert answer.names == {"w2"}
    assert broker.asked[2:] == ["look again", "stable", "high", "fence w2", "stored", "high"]


def test_what_was_cut_of_an_undecided_tail_is_not_looked_for() -> None:
    broker = Broker(stable_at=5, end=9, stamps=[Stamp("w2", released=False)], start=7)
    fence_tail(broker, 0, frozenset())
    assert broker.asked == ["stable", "high", "fence w2"]
