"""Any history of turns, cut and read in any way, ends in the store as the owner left it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.restore import Replay, directory_differences
from state.checkpoint import decode_turn
from tests.unit.stored import Paper, held_by, open_store, row, seen_in

BUCKETS = range(-2, 4)
KEYS = (b"", b"k", b"kk")

rows = st.builds(
    row,
    st.integers(0, 9),
    bucket=st.sampled_from(BUCKETS),
    key=st.sampled_from(KEYS),
    flags=st.integers(0, 3),
    body=st.binary(max_size=60),
)
turns = st.fixed_dictionaries(
    {
        "rows": st.lists(rows, max_size=12).map(dict),
        "dropped": st.lists(st.sampled_from(BUCKETS), max_size=2),
        "bytes_max": st.sampled_from([300, 500, 10_000]),
    }
)


class Lane:
    """A changelog and a store that follows it, with the owner's own account beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = Paper()
        self.former: Paper | None = None
        self.log: list[tuple[int, bytes]] = []
        self.end = 0
        self.read_to = 0
        self.store = open_store(path)
        self.replay = Replay(self.store)
        self.claim()

    def append(self, values: list[bytes]) -> None:
        self.log += [(self.end + number, value) for number, value in enumerate(values)]
        self.end += len(values) + 1  # The transaction's marker takes an offset, too.

    def turn(self, rows: dict[bytes, bytes], dropped: list[int], bytes_max: int) -> None:
        """The owner's next turn."""
        self.append(self.owner.turn(rows, dropped).encode(bytes_max))

    def cut(self, rows: dict[bytes, bytes], dropped: list[int], bytes_max: int) -> None:
        """A turn whose last part was never committed."""
        self.append(self.owner.branch().turn(rows, dropped).encode(bytes_max)[:-1])

    def zombie(self, rows: dict[bytes, bytes], dropped: list[int], bytes_max: int) -> None:
        """A turn of somebody who does not know that the lane was claimed."""
        if self.former is not None:
            self.append(self.former.turn(rows, dropped).encode(bytes_max))

    def claim(self) -> None:
        """A takeover."""
        self.former = self.owner.branch()
        self.append(self.owner.claim().encode())

    def read(self) -> None:
        """The store follows to the log's end, and must be what the owner has."""
        for offset, value in self.log:
            if offset >= self.read_to:
                self.replay.feed(offset, decode_turn(value))
        self.read_to = self.end
        self.replay.flush()
        assert held_by(self.store) == self.owner.held
        for key in KEYS:
            found = self.store.windows(BUCKETS, [key])
            assert set(found) == seen_in(self.owner.rows, BUCKETS, key)
            assert len(found) == len(set(found))

    def restart(self, back: int) -> None:
        """Another replay, from the store's position or from before it."""
        self.read_to = max(0, self.store.position - back)
        self.replay = Replay(self.store)

    def reopen(self) -> None:
        """Another process."""
        self.store.close()
        self.store = open_store(self.path)
        self.restart(0)


def event(name: str, arguments: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[Event]:
    return arguments.map(lambda given: (name, given))


Event = tuple[str, dict[str, object]]
nothing = st.just(dict[str, object]())
events = (
    event("turn", turns)
    | event("turn", turns)
    | event("cut", turns)
    | event("zombie", turns)
    | event("claim", nothing)
    | event("read", nothing)
    | event("restart", st.fixed_dictionaries({"back": st.integers(0, 9)}))
    | event("reopen", nothing)
)


# A third as many as elsewhere: each opens RocksDB twice or more.
@settings(max_examples=settings().max_examples // 3)
@given(st.lists(events, max_size=16))
def test_store_is_what_the_owner_left(history: list[Event]) -> None:
    with TemporaryDirectory() as path:
        lane = Lane(Path(path))
        for name, arguments in history:
            getattr(lane, name)(**arguments)
        lane.read()
        assert directory_differences(lane.store) == []
        lane.reopen()
        lane.read()
        lane.store.close()
