"""`reshard`: more lanes, with all that the old ones knew, killed anywhere and run again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka.admin import NewPartitions

from app.config import load_config
from app.reshard import Request, reshard
from tests.kafka.avro import Event, encode, murmur2
from tests.kafka.commands import command, done, refused
from tests.kafka.streams import random_stream
from tests.kafka.workers import eventually, spanjoin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness
    from tests.kafka.streams import Stream

LANES: Final = 2
MORE: Final = 3
KILLED: Final = """
import os, signal, sys
from pathlib import Path
import app.moving
from app.config import load_config
from app.reshard import Request, reshard

app.moving.TRANSACTION_BYTES_MAX = 1
app.moving.SCAN_ROWS = 50

def reached(step):
    if step == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

config, request = load_config(Path(sys.argv[1])), Request(int(sys.argv[2]))
for line in reshard(config, request, dry_run=False, reached=reached):
    print(line)
"""


@pytest.fixture(autouse=True)
def _unchecked(kafka: Harness) -> None:
    kafka.unchecked = "a batch over the inputs finds keys in two lanes, which check refuses"


def killed(config: Path, step: str) -> None:
    """A reshard that is killed at a step."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(config), str(MORE), step],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def stopped(*arguments: str) -> str:
    """The line with which a reshard ends that a person must look at; it may have begun."""
    ended = command(*arguments)
    assert ended.code == 2, ended
    # Of the worker that it runs no more than a reject stands between what it tells.
    (line,) = [line for line in ended.err.splitlines() if "] rejected " not in line]
    assert line.startswith("spanjoin: ")
    return line


class Interrupted(Exception):
    pass


def interrupted(config: Path, at: str) -> None:
    """A reshard that comes as far as this step."""

    def reached(step: str) -> None:
        if step == at:
            raise Interrupted

    with pytest.raises(Interrupted):
        list(reshard(load_config(config), Request(MORE), dry_run=False, reached=reached))


def refuses_to_run(config: Path) -> None:
    ended = spanjoin("run", "-c", str(config))
    assert ended.returncode == 2, ended.stderr
    assert "spanjoin reshard" in ended.stderr


def check(kafka: Harness, stream: Stream) -> None:
    kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def test_a_job_gets_more_lanes(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outer join, with unread records when it begins; killed before, in and after the move."""
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config("[turn]\nmax_records = 200\n", join={"type": "full"})
    wanted = ("reshard", "-c", str(config), "--partitions", str(MORE))
    worker = kafka.start(config)
    kafka.await_running(worker)
    stream = random_stream(720, 1_500, keys=40, lanes=LANES)
    stream.join = "full"
    stream.end(MORE)
    stream.send(kafka, job, slice(600))
    kafka.settle()
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / "state-1"))
    assert refused(*wanted).startswith(f"workers of {job.name} are alive: {job.name}-")
    assert worker.terminate() == 0
    stream.send(kafka, job, slice(600, 900))
    kafka.renew_producer()
    assert "from 2 to 3 lanes" in done(*wanted, "--dry-run")
    assert len(kafka.cluster.partitions(job.left)) == LANES

    interrupted(config, "raised")
    killed(config, "moved")
    refuses_to_run(config)
    assert "run it again with --partitions 3" in refused(*wanted[:-1], "4")
    assert "`spanjoin reshard` again first" in refused("reset", "-c", str(config))
    interrupted(config, "written")
    killed(config, "switched")
    assert "its last step" in done(*wanted)
    assert "already: nothing to do" in done(*wanted)

    for topic in (job.left, job.right, job.changelog, job.rejects):
        assert len(kafka.cluster.partitions(topic)) == MORE
    # Its copies are those of before, and go on through all of that.
    state = {"SPANJOIN_STATE__DIR": str(kafka.directory / "state-1")}
    kafka.await_running(kafka.start(config, environ=state))
    stream.send(kafka, job, slice(900, None))
    check(kafka, stream)
    # A batch over the inputs, or a run from their beginning, would find keys in two lanes.
    for other in (("check",), ("reset", "--dry-run")):
        assert "was resharded" in refused(*other, "-c", str(config))


def test_inputs_that_were_raised_already(kafka: Harness) -> None:
    """Records of both layouts wait when it begins."""
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config("[turn]\nmax_records = 200\n")
    worker = kafka.start(config)
    kafka.await_running(worker)
    stream = random_stream(721, 1_200, keys=30, lanes=LANES)
    stream.send(kafka, job, slice(500))
    kafka.settle()
    assert worker.terminate() == 0
    stream.send(kafka, job, slice(500, 700))
    kafka.renew_producer()
    topics = (job.left, job.right)
    kafka.cluster.admin.create_partitions([NewPartitions(topic, MORE) for topic in topics])
    eventually(
        lambda: all(len(kafka.cluster.partitions(topic)) == MORE for topic in topics),
        30,
        lambda: "no new partitions",
    )
    stream.send(kafka, job, slice(700, 1_000))
    lines = done("reshard", "-c", str(config), "--partitions", str(MORE))
    assert f"everything that was written to {LANES} partitions is taken" in lines
    assert "partitioner: murmur2" in lines
    kafka.await_running(kafka.start(config))
    stream.send(kafka, job, slice(1_000, None))
    check(kafka, stream)


def told(config: Path, key: str, left: str = "l1", right: str = "r1") -> dict[str, Any]:
    """What `explain` says of two rows."""
    found = json.loads(done("explain", "-c", str(config), "--key", key, left, right, "--json"))
    assert isinstance(found, dict)
    return found


def test_why_two_rows_match_that_came_before_it(kafka: Harness) -> None:
    """Their records are where their key no longer is, and so is the reject of one of them."""
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config()
    worker = kafka.start(config)
    kafka.await_running(worker)
    key = next(k for k in map(str, range(99)) if murmur2(k.encode()) % LANES
               != murmur2(k.encode()) % MORE)  # fmt: skip
    for topic, event in (
        (job.left, Event("l1", 10, 10, 30)),
        (job.right, Event("r1", 25, 25, 40)),
        (job.right, Event("wrong", 25, 40, 25)),
        (job.left, Event("l2", 25, 25, 30)),
    ):
        kafka.send(topic, key.encode(), encode(event))
    kafka.settle()
    assert worker.terminate() == 0
    topics = (job.left, job.right)
    kafka.cluster.admin.create_partitions([NewPartitions(topic, MORE) for topic in topics])
    eventually(
        lambda: all(len(kafka.cluster.partitions(topic)) == MORE for topic in topics),
        30,
        lambda: "no new partitions",
    )
    # Nobody has said yet that these are to be lanes, and the output knows better.
    found = told(config, key)
    assert (found["why"], found["matches"]) == ("match", True), found
    assert found["lines"][0].startswith("The output has L:l1|R:r1 (offset ")
    done("reshard", "-c", str(config), "--partitions", str(MORE), "--partitioner", "murmur2")
    kafka.renew_producer()
    found = told(config, key)
    assert (found["why"], found["matches"], found["owner"]) == ("match", True, None), found
    before = f"of partition {murmur2(key.encode()) % LANES}, before a reshard"
    assert sum(before in line for line in found["lines"]) == 2, found
    found = told(config, key, right="wrong")
    assert (found["why"], found["matches"]) == ("rejected", False), found
    worker = kafka.start(config)
    kafka.await_running(worker)
    assert told(config, key)["why"] == "match"
    kafka.send(job.left, key.encode(), encode(Event("l2", 25, 25, 30, "RETRACT")))
    kafka.settle()
    assert worker.terminate() == 0
    # The row and its retraction are in two partitions.
    assert told(config, key, left="l2")["why"] == "retracted"


def test_keys_that_another_partitioner_placed(kafka: Harness) -> None:
    """Both sides as librdkafka's clients write them unless told otherwise."""
    kafka.partitioner = "consistent_random"
    kafka.create_topics(LANES)
    config = kafka.write_config()
    worker = kafka.start(config)
    kafka.await_running(worker)
    stream = random_stream(722, 900, keys=30, lanes=LANES)
    stream.send(kafka, kafka.job, slice(500))
    kafka.settle()
    assert worker.terminate() == 0
    wanted = ("reshard", "-c", str(config), "--partitions", str(MORE))
    assert "has rows of key" in stopped(*wanted, "--partitioner", "murmur2")
    assert len(kafka.cluster.partitions(kafka.job.left)) == LANES
    assert "partitioner: crc32" in done(*wanted)
    kafka.renew_producer()
    kafka.await_running(kafka.start(config))
    stream.send(kafka, kafka.job, slice(500, None))
    check(kafka, stream)


def test_a_lane_far_behind_is_brought_forward_when_told(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config()
    worker = kafka.start(config)
    kafka.await_running(worker)
    ahead, behind = (
        next(key for key in (b"%d" % n for n in range(99)) if murmur2(key) % LANES == lane)
        for lane in range(LANES)
    )
    kafka.send(job.left, ahead, encode(Event("l1", 100, 100, 100)))
    kafka.send(job.right, ahead, encode(Event("r1", 100, 100, 100)))
    kafka.send(job.left, behind, encode(Event("l2", 20, 20, 60)))
    kafka.send(job.right, behind, encode(Event("r2", 30, 30, 30)))
    kafka.settle()
    assert worker.terminate() == 0
    wanted = ("reshard", "-c", str(config), "--partitions", str(MORE), "--partitioner", "murmur2")
    line = stopped(*wanted)
    assert "watermarks would go forward by more than join.allowed_lateness" in line
    assert "from 20 to 100" in line
    assert "4 rows moved" in done(*wanted, "--accept-late")
    kafka.renew_producer()
    kafka.await_running(kafka.start(config))
    # Not late before, 30 behind, and late now; what is not late still finds the row of before.
    kafka.send(job.right, behind, encode(Event("r3", 60, 60, 60)))
    kafka.send(job.right, behind, encode(Event("r4", 90, 60, 95)))
    kafka.settle()
    assert set(kafka.matches()) == {"L:l1|R:r1", "L:l2|R:r2", "L:l2|R:r4"}
    (late,) = kafka.read(job.rejects)
    assert (late.key, late.headers["reason"]) == (behind, b"late")
