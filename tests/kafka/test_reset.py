"""`reset`: what goes, what is refused, and that it can be killed anywhere and run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import NewPartitions

from app.config import load_config
from app.reset import reset
from tests.kafka.commands import agrees, command, done, refused
from tests.kafka.lane import LEFT, RIGHT
from tests.kafka.reading import history, live
from tests.kafka.streams import Stream, random_stream
from tests.kafka.victims import Trickle, victim
from tests.kafka.workers import eventually, spanjoin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.reading import Change

LANES: Final = 2
KILLED: Final = """
import os, signal, sys
from pathlib import Path
import app.reset
from app.config import load_config

app.reset.RETRACTIONS_MAX = 20
steps = []

def reached(step):
    steps.append(step)
    if steps.count("sent") == 2:
        os.kill(os.getpid(), signal.SIGKILL)

for line in app.reset.reset(load_config(Path(sys.argv[1])), dry_run=False, reached=reached):
    print(line)
"""


def killed(config: Path) -> None:
    """A reset that is killed in its second transaction."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


class Interrupted(Exception):
    pass


def interrupted(config: Path, at: str) -> None:
    """A reset that comes as far as this step."""

    def reached(step: str) -> None:
        if step == at:
            raise Interrupted

    with pytest.raises(Interrupted):
        list(reset(load_config(config), dry_run=False, reached=reached))


def refuses_to_run(config: Path) -> None:
    ended = spanjoin("run", "-c", str(config))
    assert ended.returncode == 2, ended.stderr
    assert "run `spanjoin reset` again" in ended.stderr


def since(log: list[Change], ends: dict[int, int]) -> list[Change]:
    return [change for change in log if change.offset >= ends[change.partition]]


def test_a_reset_starts_over(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config(text="[turn]\nmax_records = 200\n")
    first, second = kafka.start(config), kafka.start(config)
    kafka.await_running(first, second)
    stream = random_stream(700, 1_000, keys=40, lanes=LANES)
    stream.send(kafka, job)
    kafka.settle()
    before = kafka.read(job.output)
    assert len(live(before)) > 100

    # This machine is that of the first worker; the second's disk is elsewhere.
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / "state-1"))
    line = refused("reset", "-c", str(config))
    assert line.startswith(f"workers of {job.name} are alive: {job.name}-")
    dry = done("reset", "-c", str(config), "--dry-run").splitlines()
    assert f"topic {job.output}: {len(live(before)):,} live matches, a tombstone for each" in dry
    assert "nothing was changed: this was a dry run" in dry
    assert dry[-1].startswith("without --dry-run: workers of")
    assert [worker.terminate() for worker in (first, second)] == [0, 0]
    assert kafka.read(job.output) == before

    # With all state still there, in the middle of a transaction after one that counts, at the end.
    interrupted(config, "held")
    interrupted(config, "fenced")
    killed(config)
    refuses_to_run(config)
    interrupted(config, "cleared")
    lines = done("reset", "-c", str(config)).splitlines()
    assert f"topic {job.output}: 0 live matches, a tombstone for each" in lines
    assert done("reset", "-c", str(config)).splitlines()[-1] == lines[-1], "no harm the second time"

    log = kafka.read(job.output)
    assert live(log) == {}
    assert [key for key, values in history(log).items() if values[-2:] == [None, None]] == []
    assert {change.timestamp for change in log} == {change.timestamp for change in before}
    assert kafka.read(job.rejects) == kafka.read(job.changelog) == []
    assert not list((kafka.directory / "state-1").glob("lane-*"))
    assert list((kafka.directory / "state-2").glob("lane-*"))
    ends = kafka.cluster.ends(job.output, committed=False)
    again = kafka.start(config, environ={"SPANJOIN_STATE__DIR": str(kafka.directory / "state-2")})
    kafka.await_running(again)
    kafka.settle()
    stream.check_log(since(kafka.read(job.output), ends))
    stream.check_rejects(kafka.read(job.rejects))
    agrees(config)

    assert again.terminate() == 0
    starts_over_with_more_lanes(kafka, config)


def starts_over_with_more_lanes(kafka: Harness, config: Path) -> None:
    """Keys go to other lanes when there are more of them: that, too, is a reason to start over."""
    job = kafka.job
    for topic in (job.left, job.right):
        more = NewPartitions(topic, LANES + 1)
        kafka.cluster.admin.create_partitions([more])[topic].result(30)
    eventually(
        lambda: f"but the inputs have {LANES + 1}" in command("topics", "-c", str(config)).err,
        30,
        lambda: "no word of the partitions that were added",
    )
    done("reset", "-c", str(config))
    for topic in (job.changelog, job.rejects):
        assert len(kafka.cluster.partitions(topic)) == LANES + 1
    assert live(kafka.read(job.output)) == {}
    done("topics", "-c", str(config))


def test_a_worker_that_slept_through_a_reset_writes_nothing_of_before(kafka: Harness) -> None:
    """It sleeps in a turn whose offsets were accepted, so it could commit whenever it wakes.

    There are no matches in it, which readers would wait for, and the broker would not end it soon.
    """
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config(
        text='[turn]\nmax_records = 20\n[kafka.producer]\n"transaction.timeout.ms" = 120000\n'
    )
    sleeper = victim(kafka, config, "STOP", "turn.offsets")
    stream = random_stream(701, 800, keys=20, lanes=LANES)
    trickle = Trickle(kafka, Stream([sent for sent in stream.records if sent.side == LEFT]))
    trickle.until(sleeper)
    assert "are alive" in refused("reset", "-c", str(config))
    eventually(
        lambda: command("reset", "-c", str(config)).code == 0, 30, lambda: "its session goes on"
    )
    assert kafka.read(job.output) == []
    sleeper.resume()
    # It comes back, finds nothing of what it knew, and begins anew with what stands in the inputs.
    trickle.rest()
    Stream([sent for sent in stream.records if sent.side == RIGHT]).send(kafka, job)
    kafka.settle()
    stream.check_log(kafka.read(job.output))
