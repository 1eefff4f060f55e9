"""A store that was built from nothing is proven by what was put into it, or looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import rebalance.takeover
from rebalance.lanes import Lane, Unrepairable
from rebalance.restore import Audit, Replay, directory_differences
from state.checkpoint import decode_turn
from state.keys import RETRACTED
from tests.unit.stored import Paper, Turn, open_store, row
from tests.unit.test_takeover import Broker, Changelog, takeover

if TYPE_CHECKING:
    from pathlib import Path

    from state.store import LaneStore


def rows_of(*numbers: int, bucket: int = 0, flags: int = 0) -> dict[bytes, bytes]:
    return dict(row(number, bucket=bucket, flags=flags) for number in numbers)


def replayed(store: LaneStore, turns: list[Turn], first: int = 0) -> Replay:
    replay = Replay(store)
    records = [value for turn in turns for value in turn.encode()]
    for offset, value in enumerate(records, first):
        replay.feed(offset, decode_turn(value))
    replay.finish(first + len(records))
    return replay


def history(paper: Paper) -> list[Turn]:
    return [
        paper.turn(rows_of(*range(20))),
        paper.turn(rows_of(*range(20, 40), bucket=1) | rows_of(20)),
        paper.turn(rows_of(*range(50, 60), bucket=2), dropped=[0]),
        paper.turn(rows_of(*range(60, 70))),  # The bucket comes back.
    ]


def test_rows_that_add_up_prove_a_store(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    assert replayed(store, history(paper)).proven
    assert directory_differences(store) == []
    # Of the next replay the store has rows that it does not see.
    assert not replayed(store, [paper.turn(rows_of(99))], 4).proven


def test_a_row_that_takes_the_place_of_another_proves_nothing(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    turns = [*history(paper), paper.turn(rows_of(60, flags=RETRACTED))]
    assert not replayed(store, turns).proven
    assert directory_differences(store) == []


def test_what_was_dropped_counts_no_more(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    turns = [paper.turn(rows_of(1, 2)), paper.turn(rows_of(1, flags=RETRACTED))]
    turns.append(paper.turn(rows_of(3, bucket=1), dropped=[0]))
    assert replayed(store, turns).proven


@pytest.mark.parametrize("fault", ["rows", "size", "digest", "checkpoint", "missing", "no row"])
def test_what_does_not_add_up_proves_nothing(tmp_path: Path, fault: str) -> None:
    store, paper = open_store(tmp_path), Paper()
    *turns, last = history(paper)
    if fault == "checkpoint":
        last = last._replace(checkpoint=replace(last.checkpoint, rows=1))
    elif fault == "missing":
        last = last._replace(rows=dict(list(last.rows.items())[1:]))
    elif fault == "no row":
        last = last._replace(rows=last.rows | {b"\x01nothing": b""})
    else:
        entry = last.buckets[0]
        wrong = entry._replace(**{fault: getattr(entry, fault) + 1})
        last = last._replace(buckets={0: wrong})
    assert not replayed(store, [*turns, last]).proven
    assert directory_differences(store) != []


class Audits:
    """What was looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(rebalance.takeover, "Audit", self)

    def __call__(self, store: LaneStore, *, warm: bool = False) -> Audit:
        self.count += 1
        return Audit(store, warm=warm)


def taken_over(tmp_path: Path, turns: list[Turn], windows_bytes_max: int) -> Lane:
    log = Changelog()
    for turn in turns:
        log.write(turn)
    takeovers, lane = takeover(
        log, Broker(log, input_end=999), tmp_path / "lane-0", windows_bytes_max
    )
    ready: list[Lane] = []
    for _ in range(20):
        ready = ready or takeovers.step()
    assert ready == [lane]
    assert lane.audited
    lane.opened.close()
    return lane


def test_only_what_is_not_proven_or_wanted_in_memory_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audits = Audits(monkeypatch)
    taken_over(tmp_path / "proven", history(Paper()), 0)
    assert audits.count == 0
    lane = taken_over(tmp_path / "small", history(Paper()), 1 << 20)
    assert audits.count == 1
    assert lane.warm is not None
    paper = Paper()
    turns = [*history(paper), paper.turn(rows_of(60, flags=RETRACTED))]
    taken_over(tmp_path / "replaced", turns, 0)
    assert audits.count == 2


def test_a_directory_that_is_wrong_is_found(tmp_path: Path) -> None:
    *turns, last = history(Paper())
    wrong = last.buckets[0]._replace(digest=1)
    with pytest.raises(Unrepairable, match="bucket 0 holds 10 rows"):
        taken_over(tmp_path, [*turns, last._replace(buckets={0: wrong})], 0)
