"""Replay: only whole turns of the owner of their time count, however often they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance.restore import BATCH_TURNS_MAX, Audit, Figures, Replay, directory_differences
from state.checkpoint import Unreadable, decode_turn
from tests.unit.stored import Paper, held_by, open_store, row, seen_in

if TYPE_CHECKING:
    from pathlib import Path

    from state.store import LaneStore

PART_BYTES = 700
"""So small that a turn of twenty rows takes several records."""


class Log:
    """A changelog's committed records, and the markers between them, which take offsets too."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.end = 0

    def add(self, values: list[bytes]) -> int:
        """One transaction; returns the offset after its last record."""
        for value in values:
            self.records.append((self.end, value))
            self.end += 1
        position = self.end
        self.end += 1
        return position

    def replay(self, store: LaneStore, start: int = 0) -> Figures:
        """Read it from an offset to its end."""
        replay = Replay(store)
        for offset, value in self.records:
            if offset >= start:
                replay.feed(offset, decode_turn(value))
        replay.flush()
        return replay.figures


def rows_of(*numbers: int, bucket: int = 0, flags: int = 0) -> dict[bytes, bytes]:
    return dict(row(n, bucket=bucket, flags=flags, body=b"x" * 50) for n in numbers)


def test_replay_gives_what_was_written(tmp_path: Path) -> None:
    log, paper, written = Log(), Paper(), open_store(tmp_path / "written")
    for number in range(12):
        turn = paper.turn(
            rows_of(*range(number, number + 20), bucket=number // 4, flags=number % 2),
            dropped=[number // 4 - 2],
        )
        position = log.add(turn.encode(PART_BYTES))
        written.apply(turn.rows, turn.buckets, turn.checkpoint, position)
    restored = open_store(tmp_path / "restored")
    figures = log.replay(restored)
    assert held_by(restored) == held_by(written) == paper.held
    assert restored.position == written.position == log.end - 1
    assert (figures.turns, figures.rows) == (12, 12 * 20)
    assert figures.records == len(log.records) > 12
    assert directory_differences(restored) == []


@pytest.mark.parametrize("lost", [1, 2])
def test_incomplete_turn_is_dropped(tmp_path: Path, lost: int) -> None:
    log, paper = Log(), Paper()
    log.add(paper.turn(rows_of(1)).encode())
    expected = paper.held
    half = paper.turn(rows_of(*range(20))).encode(PART_BYTES)
    log.add(half[:-lost])
    store = open_store(tmp_path)
    assert log.replay(store).turns == 1
    assert held_by(store) == expected
    assert store.position == 1


def test_incomplete_turn_does_not_spoil_the_next(tmp_path: Path) -> None:
    log, paper = Log(), Paper()
    log.add(paper.turn(rows_of(1)).encode())
    abandoned = paper.branch()
    half = abandoned.turn(rows_of(*range(20, 40))).encode(PART_BYTES)
    log.add(half[:2])
    log.add(paper.turn(rows_of(*range(50, 70))).encode(PART_BYTES))
    log.add(half[2:])  # The rest, out of its place, makes no turn of it either.
    log.add(paper.turn(rows_of(2)).encode())
    store = open_store(tmp_path)
    figures = log.replay(store)
    assert held_by(store) == paper.held
    assert (figures.turns, figures.incomplete) == (3, len(half))


def test_older_epoch_is_ignored(tmp_path: Path) -> None:
    log, paper = Log(), Paper()
    log.add(paper.turn(rows_of(1)).encode())
    zombie = paper.branch()
    log.add(paper.claim().encode())
    log.add(zombie.turn(rows_of(5, 6)).encode())
    parts = paper.turn(rows_of(*range(20))).encode(PART_BYTES)
    log.add(parts[:1])
    log.add(zombie.turn(rows_of(7)).encode())  # Even between the parts of a good turn.
    log.add(parts[1:])
    store = open_store(tmp_path)
    figures = log.replay(store)
    assert held_by(store) == paper.held
    assert (figures.turns, figures.outdated) == (3, 2)


def test_epoch_is_remembered_by_the_store(tmp_path: Path) -> None:
    log, paper, store = Log(), Paper(), open_store(tmp_path)
    log.add(paper.turn(rows_of(1)).encode())
    zombie = paper.branch()
    log.add(paper.claim().encode())
    log.replay(store)
    log.add(zombie.turn(rows_of(5)).encode())
    assert log.replay(store, store.position).outdated == 1
    assert held_by(store) == paper.held


def test_replay_again_or_from_an_earlier_offset_changes_nothing(tmp_path: Path) -> None:
    log, paper, store = Log(), Paper(), open_store(tmp_path)
    starts = []
    for number in range(8):
        starts.append(log.end)
        turn = paper.turn(rows_of(*range(number, number + 9), bucket=number), dropped=[number - 3])
        log.add(turn.encode(PART_BYTES))
    log.replay(store)
    for start in starts:
        figures = log.replay(store, start)
        assert figures.known == figures.records
        assert held_by(store) == paper.held
        assert store.position == log.end - 1


def test_replay_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    log, paper, store = Log(), Paper(), open_store(tmp_path)
    for number in range(10):
        log.add(paper.turn(rows_of(*range(number * 3, number * 3 + 9))).encode(PART_BYTES))
        log.replay(store, store.position)
        store.close()
        store = open_store(tmp_path)
        assert held_by(store) == paper.held


def test_flush_keeps_the_parts_and_finish_drops_them(tmp_path: Path) -> None:
    log, paper, store = Log(), Paper(), open_store(tmp_path)
    log.add(paper.turn(rows_of(1)).encode())
    before = paper.held
    parts = paper.turn(rows_of(*range(20))).encode(PART_BYTES)
    replay = Replay(store)
    replay.feed(0, decode_turn(log.records[0][1]))
    for number, value in enumerate(parts[:-1]):
        replay.feed(2 + number, decode_turn(value))
    replay.flush()
    assert (held_by(store), store.position) == (before, 1)
    replay.feed(1 + len(parts), decode_turn(parts[-1]))
    replay.flush()
    assert (held_by(store), store.position) == (paper.held, 2 + len(parts))

    last = paper.held
    cut = paper.turn(rows_of(*range(30, 50))).encode(PART_BYTES)
    replay.feed(100, decode_turn(cut[0]))
    assert replay.finish(150).incomplete == 1
    assert (held_by(store), store.position) == (last, 150)
    replay.feed(150, decode_turn(cut[1]))
    assert replay.figures.incomplete == 2


def test_finish_of_an_empty_changelog(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert Replay(store).finish(0) == Figures()
    assert Replay(store).finish(4) == Figures()
    store.close()
    store = open_store(tmp_path)
    assert (store.checkpoint, store.position) == (None, 4)


def test_damaged_record_leaves_no_half_turn(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    replay = Replay(store)
    (value,) = paper.turn(rows_of(1)).encode()
    replay.feed(0, decode_turn(value))
    before = paper.branch()
    *parts, last = (decode_turn(v) for v in paper.turn(rows_of(*range(20))).encode(PART_BYTES))
    for number, part in enumerate(parts):
        replay.feed(2 + number, part)
    with pytest.raises(Unreadable):
        replay.feed(50, last._replace(rows=b"\1\0\0\0"))
    replay.flush()
    assert held_by(store) == before.held


def test_many_small_turns_share_a_write(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    replay = Replay(store)
    for number in range(BATCH_TURNS_MAX):
        (value,) = paper.turn(rows_of(number % 7)).encode()
        assert store.position == 0
        replay.feed(number, decode_turn(value))
    assert (store.position, replay.position) == (BATCH_TURNS_MAX, BATCH_TURNS_MAX)
    assert held_by(store) == paper.held


def test_bucket_dropped_and_made_again_in_one_write(tmp_path: Path) -> None:
    log, paper, store = Log(), Paper(), open_store(tmp_path)
    store.track()
    log.add(paper.turn(rows_of(1, 2, bucket=3)).encode())
    log.add(paper.turn({}, dropped=[3]).encode())
    log.add(paper.turn(rows_of(4, bucket=3)).encode())
    log.replay(store)
    assert held_by(store) == paper.held
    assert set(store.windows([3], [b"key"])) == seen_in(paper.rows, [3], b"key")


def test_replay_that_was_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(rows_of(1, 2, bucket=3)), 1)
    assert directory_differences(store) == []  # So that the store takes notes.
    before = paper.branch()
    values = [paper.turn({}, dropped=[3]).encode()[0], paper.turn(rows_of(5)).encode()[0]]
    given_up = Replay(store)
    for number, value in enumerate(values):
        given_up.feed(1 + number, decode_turn(value))
    Replay(store).finish(1)
    assert held_by(store) == before.held
    assert set(store.windows([3], [b"key"])) == seen_in(before.rows, [3], b"key")
    store.apply({}, {}, before.checkpoint, 1)
    assert held_by(store) == before.held


# --- the audit ------------------------------------------------------------------------------------


def planted(tmp_path: Path) -> tuple[LaneStore, Paper]:
    store, paper = open_store(tmp_path), Paper()
    for number in range(3):
        rows = rows_of(*range(20), bucket=number, flags=number)
        store.apply(*paper.turn(rows), number + 1)
    assert directory_differences(store) == []
    return store, paper


def test_audit_finds_a_row_that_is_missing_or_too_many(tmp_path: Path) -> None:
    store, paper = planted(tmp_path)
    store.apply(rows_of(77, bucket=1), {}, paper.checkpoint, 4)
    (line,) = directory_differences(store)
    assert "bucket 1 holds 21 rows" in line
    assert "directory says 20 rows" in line


def test_audit_finds_other_flags(tmp_path: Path) -> None:
    store, paper = planted(tmp_path)
    ((key, value),) = rows_of(5, bucket=1, flags=1).items()
    store.apply({key: b"\0" + value[1:]}, {}, paper.checkpoint, 4)
    (line,) = directory_differences(store)
    assert line.startswith("bucket 1 holds 20 rows")


def test_audit_finds_a_bucket_without_an_entry_and_an_entry_without_rows(tmp_path: Path) -> None:
    store, paper = planted(tmp_path)
    spare = paper.buckets[0]._replace(rows=1, size=1)
    store.apply(rows_of(1, bucket=9), {30: spare}, paper.checkpoint, 4)
    lines = directory_differences(store)
    assert [line.split(" holds")[0] for line in lines[:2]] == ["bucket 9", "bucket 30"]
    assert "the checkpoint says" in lines[2]


def test_audit_finds_a_checkpoint_of_another_time(tmp_path: Path) -> None:
    store, paper = planted(tmp_path)
    store.apply({}, {}, replace(paper.checkpoint, rows=1), 4)
    (line,) = directory_differences(store)
    assert line.startswith("the directory has 60 rows")


@pytest.mark.parametrize(("length", "value"), [(None, b""), (12, b"\0"), (None, b"\x09")])
def test_audit_reports_a_damaged_row(tmp_path: Path, length: int | None, value: bytes) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(rows_of(*range(20))), 1)
    (key,) = rows_of(5)
    store.apply({key[:length]: value}, {}, paper.checkpoint, 2)
    assert any("damaged" in line for line in directory_differences(store))


def test_audit_in_steps_teaches_the_store_where_keys_are(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    for bucket in range(3):
        rows = dict(row(n, bucket=bucket, key=b"key-%d" % (n % 900)) for n in range(20_000))
        store.apply(*paper.turn(rows), bucket + 1)
    audit = Audit(store)
    steps = 1
    while not audit.step():
        steps += 1
    assert steps > 1
    assert audit.differences() == []
    assert set(store.windows(range(3), [b"key-5"])) == seen_in(paper.rows, range(3), b"key-5")
    assert store.track().look(range(3), b"nobody") != []  # All unknown again.
