"""A write beside what its owner does is done once, and its failure is told to the owner."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rebalance.restore import BATCH_BYTES_MAX, Replay, directory_differences
from state.checkpoint import decode_turn
from state.disk import StoreError, StoreFull
from state.writing import Writing
from tests.unit.executors import Later
from tests.unit.stored import Paper, held_by, open_store, row

if TYPE_CHECKING:
    from pathlib import Path

    from state.store import LaneStore


def rows_of(first: int, count: int) -> dict[bytes, bytes]:
    return dict(row(number, body=b"x" * 100) for number in range(first, first + count))


def test_who_comes_first_does_it() -> None:
    done: list[str] = []
    writing = Writing(lambda: done.append(threading.current_thread().name))
    writing.run()
    writing.wait()
    writing.wait()
    assert len(done) == 1
    mine = Writing(lambda: done.append("mine"))
    mine.wait()
    mine.run()
    assert done[1:] == ["mine"]


def test_the_owner_waits_for_a_thread_that_has_begun() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def slowly() -> None:
        begun.set()
        go_on.wait(10)
        done.append(1)

    writing = Writing(slowly)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(writing.run)
        assert begun.wait(10)
        timer = threading.Timer(0.05, go_on.set)
        timer.start()
        writing.wait()
        assert done == [1]
        timer.join()


def test_its_failure_is_raised_each_time() -> None:
    def fail() -> None:
        raise LookupError

    writing = Writing(fail)
    writing.run()
    for _ in range(2):
        with pytest.raises(LookupError):
            writing.wait()


def replayed(store: LaneStore, paper: Paper, threads: ThreadPoolExecutor | Later) -> Replay:
    replay = Replay(store, threads)
    count = BATCH_BYTES_MAX // 500
    for offset in range(6):
        turn = paper.turn(rows_of(offset * count, count), dropped=[7])
        for value in turn.encode(10**9):
            replay.feed(offset, decode_turn(value))
    return replay


def test_a_replay_beside_its_writes_gives_the_same_store(tmp_path: Path) -> None:
    pools: list[ThreadPoolExecutor | Later] = [ThreadPoolExecutor(2), Later()]
    for at, threads in enumerate(pools):
        store, paper = open_store(tmp_path / str(at)), Paper()
        replay = replayed(store, paper, threads)
        replay.finish(6)
        assert held_by(store) == paper.held
        assert directory_differences(store) == []
        store.close()
        store = open_store(tmp_path / str(at))
        assert held_by(store) == paper.held
        assert store.position == 6
        if isinstance(threads, Later):
            threads.work()  # Nothing is left to do.
        else:
            threads.shutdown()
        store.close()


def test_a_store_that_is_closed_has_what_was_committed(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    threads = Later()
    store.stage(rows_of(0, 9).items(), {}, None)
    turn = paper.turn(rows_of(0, 9))
    store.stage([], turn.buckets, None)
    store.commit(turn.checkpoint, 3, threads)
    assert store.position == 3
    store.close()
    threads.work()
    store = open_store(tmp_path)
    assert (held_by(store), store.position) == (paper.held, 3)


def test_a_write_that_failed_beside_fails_what_comes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, paper = open_store(tmp_path), Paper()
    whole = store._open_db

    class Full:
        def write(self, *_: object) -> None:
            raise OSError("IO error: No space left on device")

    monkeypatch.setattr(store, "_open_db", Full())
    turn = paper.turn(rows_of(0, 9))
    store.stage(turn.rows.items(), turn.buckets, None)
    with ThreadPoolExecutor(1) as pool:
        store.commit(turn.checkpoint, 3, pool)
    monkeypatch.setattr(store, "_open_db", whole)
    with pytest.raises(StoreFull):
        store.wait()
    with pytest.raises(StoreError):
        store.rows_after(b"", 9)
    with pytest.raises(StoreError):
        Replay(store).finish(4)
    store.close()
    store = open_store(tmp_path)
    assert store.position == 0
