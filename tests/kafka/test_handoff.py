"""What must hold when a lane changes hands, a promise a test; the steps are those of `app.steps`.

`test_crashes` goes through every step. Here is what people ask of a migration, in their words.
"""

from __future__ import annotations

import json
import signal
import sys
from itertools import chain
from typing import TYPE_CHECKING, Final

from tests.kafka.avro import encode, instant
from tests.kafka.commands import done
from tests.kafka.harness import Job
from tests.kafka.lane import HORIZON
from tests.kafka.load import Load
from tests.kafka.reading import history, live
from tests.kafka.streams import random_stream
from tests.kafka.telling import read_from_store
from tests.kafka.victims import Trickle, fence, finish, halted, victim, writers

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.kafka.harness import Harness
    from tests.kafka.workers import Worker

LANES: Final = 4
SMALL_TURNS: Final = "[turn]\nmax_records = 50\n"
AT_ONCE: Final = {"SPANJOIN_STATE__STALE_COPIES": "0"}
WITHIN_S: Final = 40


def trickle_of(kafka: Harness, seed: int, events: int = 5_000) -> Trickle:
    """Topics, and a stream that is sent bit by bit."""
    kafka.create_topics(LANES)
    return Trickle(kafka, random_stream(seed, events, keys=200, lanes=LANES, step=0.05))


def await_all(kafka: Harness, worker: Worker) -> None:
    """Wait until this worker has every lane."""
    kafka.await_(lambda: len(worker.running()) == LANES, WITHIN_S, worker.tail)


def await_shared(kafka: Harness, *workers: Worker) -> None:
    """Wait until these workers have every lane, none of them all."""

    def shared() -> bool:
        held = [worker.running() for worker in workers]
        return all(held) and sorted(chain(*held)) == list(range(LANES))

    kafka.await_(shared, WITHIN_S, lambda: "\n".join(worker.tail() for worker in workers))


def killed(worker: Worker) -> None:
    """It must have died at its step."""
    assert worker.process.returncode == -signal.SIGKILL, worker.tail()


def await_killed(kafka: Harness, worker: Worker) -> None:
    """Wait for its death at a step of its release.

    There must be no input meanwhile: a turn that meets the group's move fails, and with it the
    producer that would have written the release.
    """
    kafka.await_(lambda: halted(worker), WITHIN_S, worker.tail)
    killed(worker)


def test_a_stale_owner_is_fenced_after_a_transfer(kafka: Harness) -> None:
    """It stops with a turn in the changelog, all but committed, and wakes when others went on."""
    trickle = trickle_of(kafka, 401)
    config = kafka.write_config(text=SMALL_TURNS)
    stale = victim(kafka, config, "STOP", "turn.offsets")
    trickle.until(stale)
    other = kafka.start(config)
    await_all(kafka, other)
    trickle.send(500)
    kafka.settle()
    stale.resume()
    kafka.await_(
        lambda: stale.process.poll() == 75 or "thrown away" in stale.log.read_text(),
        WITHIN_S,
        stale.tail,
    )
    stale.end()
    finish(kafka, trickle, trickle.stream)
    writers(kafka)


def test_an_expired_session_fences_a_paused_owner(kafka: Harness) -> None:
    """It stops between turns, with nothing open: what stops it is that the group goes on."""
    trickle = trickle_of(kafka, 402)
    config = kafka.write_config(text=SMALL_TURNS)
    paused = kafka.start(config)
    kafka.await_running(paused)
    trickle.send(500)
    kafka.settle()
    paused.pause()
    other = kafka.start(config)
    await_all(kafka, other)
    trickle.send(500)
    kafka.settle()
    paused.resume()
    # What comes while it wakes is what it would like to write.
    trickle.send(1_000)
    kafka.await_(lambda: " lost " in paused.log.read_text(), WITHIN_S, paused.tail)
    await_shared(kafka, paused, other)
    finish(kafka, trickle, trickle.stream)
    writers(kafka)


def test_recovery_from_a_crash_after_each_step_of_a_handoff(kafka: Harness) -> None:
    """After revoke, snapshot, drop by the old owner; after fence, install, activate by the new."""
    trickle = trickle_of(kafka, 403)
    config = kafka.write_config(text=SMALL_TURNS)
    old = victim(kafka, config, "KILL", "release.begun", state="revoke")
    kafka.await_running(old)
    trickle.send(100)
    kafka.settle()
    for state, step in (("snapshot", "release.committed"), ("drop", "stale copy removed")):
        new = victim(kafka, config, "KILL", step, state=state, environ=AT_ONCE)
        await_killed(kafka, old)
        await_all(kafka, new)
        trickle.send(100)
        kafka.settle()
        old = new
    healthy = kafka.start(config)
    await_killed(kafka, old)
    for step in ("fenced", "claim.begun", "claim.committed"):
        new = victim(kafka, config, "KILL", step, state=step)
        trickle.until(new)
        killed(new)
    await_all(kafka, healthy)
    finish(kafka, trickle, trickle.stream)
    writers(kafka)


def test_replaying_any_step_is_idempotent(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step to a claim or a turn is taken, cut off, and taken again over what it left."""
    trickle = trickle_of(kafka, 404)
    config = kafka.write_config(text=SMALL_TURNS)
    healthy = kafka.start(config)
    kafka.await_running(healthy)
    # The second time it goes through everything up to the step again, as the last one does.
    for step in ("claim.committed", "turn.committed", "turn.committed"):
        again = victim(kafka, config, "KILL", step)
        trickle.until(again)
        killed(again)
    last = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(kafka.directory / "victim")})
    await_shared(kafka, healthy, last)
    finish(kafka, trickle, trickle.stream)
    writers(kafka)
    for worker, state in ((healthy, "state-1"), (last, "victim")):
        assert worker.terminate() == 0
        monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / state))
        assert "the changelog up to" in done("state", "verify", "-c", str(config))


def test_no_acknowledged_write_is_lost_in_a_handoff(kafka: Harness) -> None:
    """Whatever a reader has seen committed stays so, and all that was sent has its matches."""
    kafka.create_topics(LANES)
    config = kafka.write_config(text=SMALL_TURNS)
    stream = random_stream(405, 8_000, keys=200, lanes=LANES, step=0.04)
    first = kafka.start(config)
    kafka.await_running(first)
    seen: list[tuple[int, int, bytes | None]] = []
    follower = kafka.follow(kafka.job.output)

    def read() -> None:
        seen.extend((one.partition, one.offset, one.value) for one in follower.read())

    with Load(kafka, stream, 4) as load:
        load.await_taken(0.1)
        read()
        second = kafka.start(config)
        kafka.await_running(second)
        read()
        # In good order, in the midst of its turns: there was nobody to fence.
        assert "could not be released" not in first.log.read_text()
        told = second.log.read_text().splitlines()
        began = [line for line in told if " running " in line and "takeover_ms" in line]
        assert began, second.tail()
        assert all("reason=released" in line for line in began), began
        assert first.terminate() == 0
        read()
        await_all(kafka, second)
        read()
    kafka.settle()
    log = kafka.read(kafka.job.output)
    stream.check_log(log)
    read()
    assert sorted(seen) == sorted((one.partition, one.offset, one.value) for one in log)


def lanes_on_disk(directory: Path) -> set[int]:
    return {int(path.name.removeprefix("lane-")) for path in directory.glob("lane-*")}


def test_a_single_copy_is_left_after_a_handoff(kafka: Harness) -> None:
    trickle = trickle_of(kafka, 406)
    config = kafka.write_config(text='cleanup_delay = "1s"\n')
    first = kafka.start(config)
    await_all(kafka, first)
    trickle.send(1_000)
    kafka.settle()
    second = kafka.start(config)
    await_shared(kafka, first, second)
    directories = [kafka.directory / f"state-{number}" for number in (1, 2)]

    def single() -> bool:
        on_disk = [lanes_on_disk(directory) for directory in directories]
        return on_disk == [set(first.running()), set(second.running())]

    kafka.await_(single, WITHIN_S, lambda: str([*map(lanes_on_disk, directories)]))
    kafka.await_(lambda: "stale copy removed" in first.log.read_text(), WITHIN_S, first.tail)

    def measured() -> bool:
        return all(lane["disk_bytes"] for lane in json.loads(first.get("/status")[1])["lanes"])

    kafka.await_(measured, WITHIN_S, lambda: first.get("/status")[1])
    status = json.loads(first.get("/status")[1])
    assert status["stale_copies"] == []
    for lane in status["lanes"]:
        assert lane["changelog"]["end"] > lane["changelog"]["start"] >= 0
    # A copy that a lane comes back to is not one too many.
    assert second.terminate() == 0
    await_all(kafka, first)
    finish(kafka, trickle, trickle.stream)
    assert lanes_on_disk(directories[0]) == set(range(LANES))


def test_a_migration_with_crashes_equals_the_single_worker_baseline(kafka: Harness) -> None:
    """Crashes before install, after install before the claim, after it before the old copy goes."""
    trickle = trickle_of(kafka, 407)
    alone = Job()
    alone.left, alone.right = kafka.job.left, kafka.job.right
    whole = {"cleanup.policy": "compact", "segment.ms": str(2**63 - 1)}
    kafka.create_topic(alone.output, 3, whole)
    baseline = kafka.start(kafka.write_config(name="alone.toml", job=alone))
    config = kafka.write_config(text=SMALL_TURNS)
    old = victim(kafka, config, "KILL", "release.begun", state="old")
    kafka.await_running(baseline, old)
    trickle.send(100)
    kafka.settle()
    for step in ("fenced", "claim.begun", "claim.committed"):
        new = victim(kafka, config, "KILL", step, state=step)
        # The first of them takes over from one whose turns are committed, but not its release.
        await_killed(kafka, old)
        trickle.until(new)
        killed(new)
    await_all(kafka, kafka.start(config))
    finish(kafka, trickle, trickle.stream)
    kafka.settle(job=alone)
    assert live(kafka.read(kafka.job.output)) == live(kafka.read(alone.output))
    reasons = [
        sorted(one.headers["reason"] for one in kafka.read(job.rejects))
        for job in (kafka.job, alone)
    ]
    assert reasons[0] == reasons[1]


def test_memory_is_kept_over_a_renewal(kafka: Harness) -> None:
    """What the failed turn has touched is read from the store again, and nothing else."""
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.launch([sys.executable, "-m", "tests.kafka.telling", str(config)])
    keys = [f"key-{number}" for number in range(30)]

    def send(side: str, topic: str, some: list[str]) -> None:
        for key in some:
            kafka.send(topic, key, encode(instant(f"{side}-{key}", 10)))
        kafka.settle()

    send("l", kafka.job.left, keys)
    fence(kafka, writers(kafka)[0][-1][1])
    send("r", kafka.job.right, keys[:2])
    assert "thrown away" in worker.log.read_text()
    send("r", kafka.job.right, keys[2:])
    log = kafka.read(kafka.job.output)
    assert sorted(history(log)) == sorted(f"L:l-{key}|R:r-{key}" for key in keys)
    assert len(log) == len(keys)
    assert sorted(read_from_store(worker)) == sorted(keys[:2])


def test_duplicates_across_a_migration_change_nothing(kafka: Harness) -> None:
    kafka.create_topics(LANES)
    config = kafka.write_config(text=SMALL_TURNS)
    first = kafka.start(config)
    kafka.await_running(first)
    rows = [(side, at) for at in range(0, HORIZON, 2) for side in "lr"]

    def send() -> None:
        for side, at in rows:
            topic = {"l": kafka.job.left, "r": kafka.job.right}[side]
            kafka.send(topic, f"key-{at % 7}", encode(instant(f"{side}{at}", at)))
        kafka.settle()

    send()
    log = kafka.read(kafka.job.output)
    assert set(history(log)) == {f"L:l{at}|R:r{at}" for at in range(0, HORIZON, 2)}
    second = kafka.start(config)
    await_shared(kafka, first, second)
    send()
    first.kill()
    await_all(kafka, second)
    send()
    assert kafka.read(kafka.job.output) == log
    assert kafka.read(kafka.job.rejects) == []
