"""The README's first job, command by command, on the session's broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.commands import done

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "first-job"


@pytest.fixture
def config(kafka: Harness, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example's own file; the environment gives it a broker and names of its own."""
    for name, value in {
        "NAME": kafka.job.name,
        "KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "LEFT__TOPIC": kafka.job.left,
        "RIGHT__TOPIC": kafka.job.right,
        "OUTPUT__TOPIC": kafka.job.output,
        "STATE__DIR": str(kafka.directory / "state"),
    }.items():
        monkeypatch.setenv(f"SPANJOIN_{name}", value)
    return str(EXAMPLE / "job.toml")


README: Final = EXAMPLE.parents[1] / "README.md"
TIME: Final = re.compile(r'(?<="time":)[0-9]+')


def load(config: str, side: str, name: str) -> None:
    done("load", "-c", config, "--side", side, str(EXAMPLE / name))


def produce(kafka: Harness, config: str) -> None:
    """The program of one's own, as it stands but for the topic's name."""
    program = (EXAMPLE / "produce.py").read_text()
    (kafka.directory / "produce.py").write_text(program.replace('"faults"', f'"{kafka.job.right}"'))
    (kafka.directory / "event.avsc").write_text(done("schema", "-c", config, "--of", "right"))
    subprocess.run([sys.executable, "produce.py"], cwd=kafka.directory, timeout=30, check=True)


def test_the_first_job(kafka: Harness, config: str) -> None:
    assert "created with 2 partitions" in done("topics", "-c", config, "--partitions", "2")
    kafka.start(Path(config))
    load(config, "left", "shifts.jsonl")
    load(config, "right", "faults.jsonl")
    kafka.await_matches(["L:s1|R:f1", "L:s1|R:f3", "L:s2|R:f2", "L:s3|R:f3"])
    kafka.settle(ends={(kafka.job.right, lane): end for lane, end in
                       kafka.cluster.ends(kafka.job.right).items()})  # fmt: skip
    rejects = done("rejects", "-c", config, "--format", "jsonl").replace(kafka.job.right, "faults")
    assert TIME.sub("now", rejects) in TIME.sub("now", README.read_text(encoding="utf-8"))
    load(config, "left", "corrections.jsonl")
    kafka.await_matches(["L:s4|R:f1", "L:s2|R:f2", "L:s3|R:f3"])
    shown = done("read", "-c", config)
    assert "s4 payload=Anna" in shown
    assert "07:00:00 - 2025-03-03 07:30:00" in shown
    assert f"3 live matches in {kafka.job.output}" in shown
    produce(kafka, config)
    kafka.await_matches(["L:s4|R:f1", "L:s2|R:f2", "L:s3|R:f3", "L:s3|R:f7"])
    kafka.settle(ends={(kafka.job.right, lane): end for lane, end in
                       kafka.cluster.ends(kafka.job.right).items()})  # fmt: skip
    said = done("check", "-c", config)
    assert said == f"4 matches expected, 4 of them in {kafka.job.output}\n"
