"""A state directory that is full, cut, damaged, foreign, gone, or held by somebody else."""

from __future__ import annotations

import resource
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest
from rocksdict import Options, Rdict

from state.checkpoint import encode_turn
from state.resources import Resources
from state.store import _VERSION_KEY, LaneStore
from tests.kafka.commands import done
from tests.kafka.streams import random_stream
from tests.kafka.victims import Trickle, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

ENDED_WITHIN_S: Final = 60
ROOM_BYTES: Final = 96 << 20
LIMIT_BYTES: Final = 100_000
"""Of a file: less than a lane's log of these streams, more than what else a worker writes."""


class Disk(Protocol):
    """Room for state that can be taken away."""

    directory: Path

    def fill(self, worker: Worker | None = None) -> None:
        """From now on there is no room; where that is a worker's own limit, it is told which."""

    def free(self) -> None:
        """There is room again."""


@dataclass
class Mounted:
    """A file system in memory."""

    directory: Path

    def fill(self, worker: Worker | None = None) -> None:
        with (
            Path("/dev/zero").open("rb") as nothing,
            (self.directory / "ballast").open("wb", buffering=0) as ballast,
            pytest.raises(OSError, match="No space left on device"),
        ):
            shutil.copyfileobj(nothing, ballast)

    def free(self) -> None:
        (self.directory / "ballast").unlink()


@dataclass
class Limited:
    """A limit to what a process may write into one file: as good where nothing can be mounted."""

    directory: Path

    def fill(self, worker: Worker | None = None) -> None:
        if worker is not None:
            limits = (LIMIT_BYTES, resource.RLIM_INFINITY)
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, limits)

    def free(self) -> None:
        pass


@pytest.fixture(params=["mounted", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    directory = tmp_path / "disk"
    directory.mkdir()
    if request.param == "limited":
        yield Limited(directory)
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", str(directory)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here; a limited file stands for a full one")
    try:
        yield Mounted(directory)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def last_words(worker: Worker, code: int) -> str:
    """The one line with which a worker ended, under this exit code."""
    assert worker.wait(ENDED_WITHIN_S) == code, worker.tail()
    lines = worker.log.read_text().splitlines()
    words = [line for line in lines if line.startswith("spanjoin: ")]
    assert words == lines[-1:], worker.tail()
    return words[0]


def over(directory: Path) -> dict[str, str]:
    """The environment of a worker over this state directory."""
    return {"SPANJOIN_STATE__DIR": str(directory)}


def opened(path: Path) -> LaneStore:
    return LaneStore.open(path, Resources(8 << 20, 8 << 20))


def behind(kafka: Harness, state: Path) -> set[int]:
    """The lanes of whose committed turns a store lacks the newest."""
    newest = {change.partition: change.offset for change in kafka.read(kafka.job.changelog)}
    found = set()
    for lane, offset in newest.items():
        store = opened(state / f"lane-{lane}")
        if store.position <= offset:
            found.add(lane)
        store.close()
    return found


def test_a_full_disk_ends_a_worker_and_loses_nothing(kafka: Harness, disk: Disk) -> None:
    kafka.create_topics(2)
    config = kafka.write_config()
    trickle = Trickle(kafka, random_stream(701, 9_000, keys=200, lanes=2, step=0.05))
    state, other = disk.directory / "state", disk.directory / "other"
    worker = kafka.start(config, environ=over(state))
    trickle.send(1_000)
    kafka.settle()
    # While it writes a turn that is committed.
    worker.expect_end()
    disk.fill(worker)
    trickle.send(4_000)
    full = f"spanjoin: the disk of state.dir {state} is full: "
    assert last_words(worker, 1).startswith(full)
    # While another one restores, and while it opens.
    worker = kafka.start(config, environ=over(other))
    worker.expect_end()
    disk.fill(worker)
    assert last_words(worker, 1).startswith(f"spanjoin: the disk of state.dir {other} is full: ")
    disk.free()
    assert behind(kafka, state), "no committed turn is missing in a store"
    worker = kafka.start(config, environ=over(state))
    finish(kafka, trickle, trickle.stream)
    assert " wipe " not in worker.log.read_text()


def cut(path: Path, pattern: str) -> None:
    """Leave half of each file of a store that has such a name."""
    files = list(path.glob(pattern))
    assert files, f"{path} has no {pattern}: {sorted(path.iterdir())}"
    for file in files:
        with file.open("r+b") as one:
            one.truncate(file.stat().st_size // 2)


def change_a_row(path: Path) -> None:
    """Its size and its flags stay; the directory knows nothing of it."""
    store = opened(path)
    name, value = next(store.scan())
    store.apply({name + b"x": value}, {}, None, store.position)
    store.close()


def of_another_changelog(path: Path) -> None:
    """As if the state came from another cluster, or from before the topics were made anew."""
    store = opened(path)
    before = store.checkpoint
    assert before is not None
    layout = replace(before.layout, changelog_id="of-another-cluster")
    store.apply({}, {}, replace(before, layout=layout), store.position)
    store.close()


def of_another_version(path: Path) -> None:
    database = Rdict(str(path), Options(raw_mode=True))
    database[_VERSION_KEY] = b"99"
    database.close()


DAMAGE: Final[Sequence[tuple[Callable[[Path], object], bool]]] = (
    (lambda path: cut(path, "*.sst"), True),
    (lambda path: cut(path, "MANIFEST-*"), True),
    (lambda path: cut(path, "CURRENT"), True),
    # A log without its end is an older state of the store: it goes on from there.
    (lambda path: cut(path, "*.log"), False),
    (shutil.rmtree, False),
    (change_a_row, True),
    (of_another_changelog, True),
    (of_another_version, True),
)
"""What is done to a lane's store, and whether that is noticed, and the store made anew."""


def test_a_store_that_is_damaged_or_foreign_is_made_anew(
    kafka: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = len(DAMAGE)
    kafka.create_topics(lanes)
    config = kafka.write_config()
    trickle = Trickle(kafka, random_stream(702, 9_000, keys=400, lanes=lanes, step=0.05))
    state = kafka.directory / "state-1"
    worker = kafka.start(config)
    trickle.send(3_000)
    kafka.settle()
    assert worker.terminate() == 0
    # It has tables now; and it will have a log, because it is killed.
    worker = kafka.start(config, environ=over(state))
    trickle.send(3_000)
    kafka.settle()
    worker.kill()
    for lane, (damage, _) in enumerate(DAMAGE):
        damage(state / f"lane-{lane}")
    worker = kafka.start(config, environ=over(state))
    finish(kafka, trickle, trickle.stream)
    kafka.await_running(worker)
    lines = [line for line in worker.log.read_text().splitlines() if " wipe " in line]
    noticed = {lane for lane in range(lanes) if any(f" lane={lane} " in line for line in lines)}
    assert noticed == {lane for lane, (_, wiped) in enumerate(DAMAGE) if wiped}, lines
    assert len(lines) == len(noticed), lines
    assert worker.terminate() == 0
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(state))
    assert done("state", "verify", "-c", str(config)).count("the changelog up to") == lanes


def test_a_store_that_is_held_or_taken_away(kafka: Harness) -> None:
    kafka.create_topics(1)
    config = kafka.write_config()
    trickle = Trickle(kafka, random_stream(703, 2_000, keys=50, lanes=1, step=0.05))
    state = kafka.directory / "state-1"
    with ExitStack() as stack:
        held = opened(state / "lane-0")
        stack.callback(held.close)
        worker = kafka.start(config)
        worker.expect_end()
        assert f"state.dir {state} is used by another process: " in last_words(worker, 2)
    worker = kafka.start(config, environ=over(state))
    trickle.send(500)
    kafka.settle()
    # It goes on with the files that it has open, until it needs one more; in the end it says so.
    worker.expect_end()
    shutil.rmtree(state)
    trickle.send(500)
    worker.process.terminate()
    assert worker.wait(ENDED_WITHIN_S) in (0, 1), worker.tail()
    kafka.start(config, environ=over(state))
    finish(kafka, trickle, trickle.stream)


def test_a_changelog_that_contradicts_itself_stops_the_job(kafka: Harness) -> None:
    """A directory that its rows do not bear out, then what is no record at all; twice each."""
    kafka.unchecked = "its changelog ends in what is no record, so nobody knows how far it came"
    kafka.create_topics(1)
    config = kafka.write_config()
    trickle = Trickle(kafka, random_stream(704, 300, keys=20, lanes=1, step=0.05))
    worker = kafka.start(config)
    trickle.send(300)
    kafka.settle()
    assert worker.terminate() == 0
    store = opened(kafka.directory / "state-1" / "lane-0")
    checkpoint, buckets = store.checkpoint, store.buckets()
    store.close()
    assert checkpoint is not None
    number, entry = next(iter(buckets.items()))
    wrong = {number: entry._replace(digest=entry.digest ^ 1)}
    later = replace(checkpoint, sequence=checkpoint.sequence + 1)
    log = kafka.read(kafka.job.output)
    for values, code, words in (
        (encode_turn(later, {}, wrong, 1_000_000), 1, "also after a full replay"),
        ([b"junk"], 2, f"topic {kafka.job.changelog} holds a record that cannot be read"),
    ):
        for value in values:
            kafka.send(kafka.job.changelog, None, value, 0, {"writer": b"nobody", "kind": b"turn"})
        kafka.flush()
        for state in ("state-1", "state-9"):
            worker = kafka.start(config, environ=over(kafka.directory / state))
            worker.expect_end()
            assert words in last_words(worker, code)
    assert kafka.read(kafka.job.output) == log
