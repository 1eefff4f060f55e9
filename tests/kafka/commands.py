"""Commands run inside the test's process: Python's start takes longer than most of them."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, NamedTuple

import structlog

from app.cli import run_command
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.harness import Harness


class Ended(NamedTuple):
    """What is left of a command."""

    code: int
    out: str
    err: str


def command(*arguments: str) -> Ended:
    """`spanjoin ARGUMENTS`; not for `run`, which ends its process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run_command(list(arguments))
        finally:
            # The command configured the logs of the whole process.
            structlog.reset_defaults()
    return Ended(code, out.getvalue(), err.getvalue())


def inputs(kafka: Harness, left: int, right: int | None = None) -> None:
    """Create both inputs and wait until every command sees them.

    A topic's creation is acknowledged before the brokers know it.
    """
    right = left if right is None else right
    kafka.create_topic(kafka.job.left, left)
    kafka.create_topic(kafka.job.right, right)
    wanted = {kafka.job.left: left, kafka.job.right: right}
    eventually(
        lambda: all(len(kafka.cluster.partitions(topic)) == wanted[topic] for topic in wanted),
        30,
        lambda: f"{wanted} were not created",
    )


def done(*arguments: str) -> str:
    """What a command prints that must succeed, and warn of no more than rejected records."""
    ended = command(*arguments)
    warnings = [line for line in ended.err.splitlines() if "] rejected " not in line]
    assert (ended.code, warnings) == (0, []), ended
    return ended.out


def agrees(config: Path) -> None:
    """`spanjoin check` finds no difference between the output and a batch join."""
    ended = command("check", "-c", str(config))
    assert (ended.code, ended.err) == (0, ""), ended


def refused(*arguments: str, code: int = 2) -> str:
    """The line of a command that must fail, and print nothing else."""
    ended = command(*arguments)
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert ended.err.startswith("spanjoin: ")
    assert ended.err.count("\n") == 1, ended.err
    return ended.err.removeprefix("spanjoin: ").rstrip()
