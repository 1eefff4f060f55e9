"""The store of a lane: what goes in comes back, whole turns only, and its errors are typed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from rocksdict import Options, Rdict

from state.disk import (
    StateDirTaken,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    lock_state_dir,
    store_error,
)
from state.keys import parse_rows
from state.resources import OPEN_FILES_MAX, Resources
from state.store import LaneStore
from tests.unit.stored import CHECKPOINT, Paper, held_by, open_store, row, seen_in

ROOT = Path(__file__).parents[2]


def test_new_store_is_empty(tmp_path: Path) -> None:
    store = open_store(tmp_path / "deep" / "lane")
    assert held_by(store) == ({}, {}, None)
    assert (store.position, store.windows([0], [b"key"])) == (0, [])


def test_turn_is_there_after_reopening(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(dict(row(n, bucket=n % 3) for n in range(50))), 7)
    store.close()
    store = open_store(tmp_path)
    assert held_by(store) == paper.held
    assert store.position == 7


def test_window_reads_both_sides_of_one_key_in_the_buckets_asked_for(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    keys = [b"", b"k", b"k\0", b"kk", b"\xff" * 70_000]
    rows = dict(row(n, bucket=b, key=key) for n in range(4) for b in (-2, 0, 5) for key in keys)
    store.apply(*paper.turn(rows), 1)
    for key in [*keys, b"nowhere"]:
        for buckets in ([-2, 0, 5], [5], [1, 2], []):
            found = store.windows(buckets, [key])
            assert len(found) == len(set(found))
            assert set(found) == seen_in(paper.rows, buckets, key)
    asked = [*keys[1:], b"nowhere", b"absent"]
    for buckets in ([-2, 0, 5], [5], [1, 2], []):
        found = store.windows(buckets, asked[::-1])
        stored = parse_rows(sorted(paper.rows.items()))
        assert found == [one for one in stored if one[0] in buckets and one[2] in asked]


def test_window_sees_every_write(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    for n in range(6):
        store.apply(*paper.turn(dict([row(n, bucket=n % 2, flags=n % 4)])), n + 1)
        assert set(store.windows([0, 1], [b"key"])) == seen_in(paper.rows, [0, 1], b"key")
        store.apply(*paper.turn(dict([row(n, bucket=n % 2, flags=1)])), n + 1)
        assert set(store.windows([0, 1], [b"key"])) == seen_in(paper.rows, [0, 1], b"key")


def test_dropped_bucket_is_gone_with_its_entry(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(dict(row(n, bucket=n % 4) for n in range(40))), 1)
    assert store.windows([0], [b"key"])
    # A row that the same turn wrote into the bucket it drops goes, too.
    store.apply(*paper.turn(dict([row(99, bucket=0)]), dropped=[0, 2]), 2)
    assert sorted(store.buckets()) == [1, 3]
    assert store.windows([0, 2], [b"key"]) == []
    store.close()
    store = open_store(tmp_path)
    assert held_by(store) == paper.held
    # And it may come back.
    store.apply(*paper.turn(dict([row(100, bucket=0)])), 3)
    assert set(store.windows([0], [b"key"])) == seen_in(paper.rows, [0], b"key")


def test_extreme_buckets(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    low, high = -(2**63) // 15 + 1, (2**63 - 1) // 15 - 1
    store.apply(*paper.turn(dict(row(n, bucket=b) for n in range(4) for b in (low, 0, high))), 1)
    assert sorted(store.buckets()) == [low, 0, high]
    store.apply(*paper.turn({}, dropped=[low, high]), 2)
    assert held_by(store) == paper.held


def test_staged_turns_are_read_only_after_the_commit(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    first = paper.turn(dict(row(n) for n in range(4)))
    second = paper.turn(dict(row(n, bucket=1) for n in range(4)), dropped=[0])
    third = paper.turn(dict([row(0)]))
    for turn in (first, second, third):
        store.stage(turn.rows.items(), turn.buckets, turn.checkpoint.layout)
    assert held_by(store) == ({}, {}, None)
    store.commit(third.checkpoint, 3)
    assert held_by(store) == paper.held
    assert set(store.windows([0, 1], [b"key"])) == seen_in(paper.rows, [0, 1], b"key")


def test_checkpoint_without_rows_moves_the_position(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    claim = replace(CHECKPOINT, epoch=5)
    store.apply({}, {}, claim, 10)
    store.apply({}, {}, None, 12)
    store.close()
    store = open_store(tmp_path)
    assert (store.checkpoint, store.position) == (claim, 12)


def test_position_never_goes_back(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.apply({}, {}, CHECKPOINT, 10)
    with pytest.raises(AssertionError):
        store.apply({}, {}, CHECKPOINT, 9)


def test_wipe_starts_over(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(dict([row(1)])), 3)
    assert store.windows([0], [b"key"])
    store.wipe()
    assert (held_by(store), store.position) == (({}, {}, None), 0)
    store.apply(*paper.turn(dict([row(2)])), 1)
    store.close()
    assert open_store(tmp_path).position == 1


@pytest.mark.parametrize("left", ["*.sst", "*.log", "MANIFEST*", "*"])
def test_half_removed_store_is_never_an_older_one(tmp_path: Path, left: str) -> None:
    store = open_store(tmp_path)
    store.apply(*Paper().turn(dict([row(1)])), 1)
    store.close()
    store = open_store(tmp_path)
    store.apply({}, {}, CHECKPOINT, 2)
    kept = set(tmp_path.glob(left))
    store.close()
    (tmp_path / "CURRENT").unlink()  # `destroy` was killed after this and some more.
    for file in set(tmp_path.iterdir()) - kept:
        file.unlink(missing_ok=True)
    try:
        store = open_store(tmp_path)
    except StoreDamaged:
        return
    assert (held_by(store), store.position) == (({}, {}, None), 0)


def test_close_from_another_thread_lets_the_next_one_open(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    store.apply(*paper.turn(dict(row(n) for n in range(1000))), 1)
    assert store.windows([0], [b"key"])
    scan = store.scan()
    next(scan)
    with pytest.raises(StoreLocked):
        open_store(tmp_path)
    closer = threading.Thread(target=store.close)
    closer.start()
    closer.join()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.apply({}, {}, CHECKPOINT, 2)
    assert held_by(open_store(tmp_path))[0] == paper.rows


def test_store_open_in_another_process_is_locked(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    code = f"""
        from pathlib import Path
        from state.disk import StoreLocked
        from tests.unit.stored import open_store
        try:
            open_store(Path({str(tmp_path)!r}))
        except StoreLocked as error:
            print("locked")
    """
    assert _run(code).stdout == "locked\n"
    store.close()


def test_open_files_and_disk_are_bounded(tmp_path: Path) -> None:
    before = _open_files()
    resources = Resources(1 << 20, 1 << 20)
    stores = [LaneStore.open(tmp_path / str(n), resources) for n in range(10)]
    for store in stores:
        store.apply(*Paper().turn(dict([row(1)])), 1)
    used = _open_files() - before
    assert used <= 10 * 8
    assert OPEN_FILES_MAX >= 20
    assert all(0 < store.bytes_on_disk() < 200_000 for store in stores)
    for store in stores:
        store.close()


# --- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0v", b"2"),
        (b"\0v", None),
        (b"\0c", b"\xc3\x01 not a checkpoint"),
        (b"\0c", None),
        (b"\0p", b"short"),
        (b"\0d" + bytes(8), b"not an entry"),
        (b"\0dshort", bytes(48)),
    ],
)
def test_damaged_entry_is_found_on_opening(tmp_path: Path, key: bytes, value: bytes | None) -> None:
    store = open_store(tmp_path)
    store.apply(*Paper().turn(dict([row(1)])), 1)
    store.close()
    _plant(tmp_path, key, value)
    with pytest.raises(StoreDamaged, match=str(tmp_path)):
        open_store(tmp_path)
    # Nothing of the failed attempt stands in the way of the answer.
    LaneStore.destroy(tmp_path)
    assert held_by(open_store(tmp_path)) == ({}, {}, None)


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_missing_file_is_damage(tmp_path: Path, pattern: str) -> None:
    store = open_store(tmp_path)
    store.apply(*Paper().turn(dict([row(1)])), 1)
    store.close()
    open_store(tmp_path).close()
    for file in tmp_path.glob(pattern):
        file.unlink()
    with pytest.raises(StoreDamaged):
        open_store(tmp_path)


def test_damaged_block_is_not_taken_for_the_end(tmp_path: Path) -> None:
    """The vendor's own loops end silently there: rows would just be missing."""
    store, paper = open_store(tmp_path), Paper()
    rows = dict(row(n, key=b"key-%d" % n, body=os.urandom(100)) for n in range(2000))
    store.apply(*paper.turn(rows), 1)
    store.close()
    (table,) = tmp_path.glob("*.sst")
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(b"\xff" * 64)
    store = open_store(tmp_path)
    with pytest.raises(StoreDamaged):
        list(store.scan())
    with pytest.raises(StoreDamaged):  # Not even what it could still read.
        store.apply(*paper.turn(dict([row(1)])), 2)
    store.wipe()
    assert held_by(store) == ({}, {}, None)
    store.close()


def test_damaged_block_under_a_window(tmp_path: Path) -> None:
    store, paper = open_store(tmp_path), Paper()
    keys = [b"key-%04d" % n for n in range(2000)]
    store.apply(*paper.turn(dict(row(0, key=key, body=os.urandom(100)) for key in keys)), 1)
    store.close()
    (table,) = tmp_path.glob("*.sst")
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(b"\xff" * 64)
    store = open_store(tmp_path)
    with pytest.raises(StoreDamaged) as caught:
        [store.windows([0], [key]) for key in keys]
    # The error, still held here with its traceback, does not keep the store open.
    assert caught.value.__traceback__ is not None
    store.wipe()
    store.close()


def test_full_disk_is_a_typed_error_and_loses_nothing(tmp_path: Path) -> None:
    code = f"""
        import resource
        from pathlib import Path
        from state.disk import StoreFull
        from tests.unit.stored import *
        store, paper = open_store(Path({str(tmp_path)!r})), Paper()
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        try:
            for n in range(10_000):
                store.apply(*paper.turn(dict([row(n, body=bytes(1000))])), n + 1)
        except StoreFull as error:
            print(n)
        try:
            store.windows([0], [b"key"])
        except StoreFull as error:
            print("still full")
    """
    written, again = _run(code).stdout.split("\n", 1)
    assert again == "still full\n"
    store, paper = open_store(tmp_path), Paper()
    for n in range(int(written)):
        paper.turn(dict([row(n, body=bytes(1000))]))
    assert store.position == int(written)
    assert held_by(store) == paper.held


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IO error: No space left on device: While appending to file: x: No space...", StoreFull),
        ("IO error: While appending to file: x: Disk quota exceeded", StoreFull),
        ("Corruption: block checksum mismatch: stored = 1, computed = 2", StoreDamaged),
        ("Corruption: While creating a new Db, wal_dir contains existing log", StoreDamaged),
        ("IO error: No such file or directory: While opening a file", StoreDamaged),
        ("IO error: While lock file: x/LOCK: Resource temporarily unavailable", StoreLocked),
        ("IO error: lock hold by current process, acquire time 1", StoreLocked),
        ("IO error: While open a file for appending: x: Too many open files", StoreError),
        ("something new", StoreError),
    ],
)
def test_every_vendor_message_has_a_type(text: str, kind: type[StoreError]) -> None:
    error = store_error(Path("lane-3"), Exception(text + "\n "))
    assert type(error) is kind
    assert str(error) == f"store lane-3: {text}"


# --- the state directory -------------------------------------------------------------------------


def test_state_directory_is_for_one(tmp_path: Path) -> None:
    lock = lock_state_dir(tmp_path / "state")
    with lock, pytest.raises(StateDirTaken, match=f"in use by process {os.getpid()}"):
        lock_state_dir(tmp_path / "state")
    lock_state_dir(tmp_path / "state").release()


def test_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = f"""
        import os, sys
        from pathlib import Path
        from state.disk import lock_state_dir
        lock = lock_state_dir(Path({str(tmp_path)!r}))
        print("locked", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", dedent(code)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"locked\n"
        with pytest.raises(StateDirTaken, match=f"in use by process {child.pid}"):
            lock_state_dir(tmp_path)
        child.kill()
        child.wait()
        lock_state_dir(tmp_path).release()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", dedent(code)], cwd=ROOT, check=True, capture_output=True, text=True
    )


def _plant(path: Path, key: bytes, value: bytes | None) -> None:
    database = Rdict(str(path), Options(raw_mode=True))
    if value is None:
        del database[key]
    else:
        database[key] = value
    database.close()
