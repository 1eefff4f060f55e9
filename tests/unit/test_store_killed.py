"""A process that is killed while it writes leaves one committed turn's state, never half of one."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from rebalance.restore import directory_differences
from state.resources import Resources
from state.store import LaneStore
from tests.unit.stored import Held, Paper, Turn, held_by, row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
KILLS = 8
SPARE = 8
"""Writes that a child may be ahead of the one that kills it: all of them must not be enough."""
TURNS = 400
LIVE_BUCKETS = 6
RECORD_BYTES_MAX = 2_000
"""So that most turns take several records."""


def story() -> Iterator[tuple[Turn, Held]]:
    """Turns that write rows, retract rows and drop buckets, and what must be held after each."""
    chance, paper = random.Random(1), Paper()
    for number in range(TURNS):
        newest = number // 15
        rows = dict(
            row(
                chance.randrange(40),
                bucket=newest - chance.randrange(3),
                flags=chance.randrange(2),
                body=chance.randbytes(200),
            )
            for _ in range(15)
        )
        turn = paper.turn(rows, [newest - LIVE_BUCKETS])
        yield turn, paper.held


def open_small(path: Path) -> LaneStore:
    """So little memory that flushes and compactions go on all the time."""
    return LaneStore.open(path, Resources(1 << 20, 1 << 18))


WRITER = """
    import sys
    from pathlib import Path
    from rebalance.restore import Replay
    from state.checkpoint import decode_turn
    from tests.unit.test_store_killed import open_small

    replay = Replay(open_small(Path(sys.argv[1])))
    told, left = replay.position, int(sys.argv[3])
    print("begin", flush=True)
    for offset, line in enumerate(Path(sys.argv[2]).read_text().split()):
        record = decode_turn(bytes.fromhex(line))
        replay.feed(offset, record)
        if record.sequence % 3 and replay.position > told:  # Some turns alone, some two in a batch.
            replay.flush()
            told = replay.position
            print(told, flush=True)
            left -= 1
            if not left:
                sys.stdin.read()  # Whoever was to kill us is late.
    replay.flush()
    print(replay.position, flush=True)
"""
"""Reads the changelog from its beginning; what is in the store already is passed over."""


def test_killed_while_writing(tmp_path: Path) -> None:
    changelog, directory = tmp_path / "changelog", tmp_path / "lane"
    states: dict[int, Held] = {0: ({}, {}, None)}
    values: list[bytes] = []
    for turn, state in story():
        values += turn.encode(RECORD_BYTES_MAX)
        states[len(values)] = state
    changelog.write_text("\n".join(value.hex() for value in values))

    chance, reached = random.Random(2), set()
    for _ in range(KILLS):
        writes, delay_s = chance.randrange(10, 28), chance.random() * 0.003
        told = write_and_kill(directory, changelog, writes, delay_s)
        store = open_small(directory)
        assert told <= store.position < len(values)
        assert held_by(store) == states[store.position]
        assert directory_differences(store) == []
        reached.add(store.position)
        store.close()
    assert len(reached) == KILLS
    assert write_and_kill(directory, changelog, 10**9, 0) == len(values)
    assert held_by(open_small(directory)) == states[len(values)]


def write_and_kill(directory: Path, changelog: Path, writes: int, delay_s: float) -> int:
    """Let a child write so many times, then kill it; returns the last position it told."""
    with subprocess.Popen(
        [sys.executable, "-c", dedent(WRITER), str(directory), str(changelog), str(writes + SPARE)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begin\n"
        told = 0
        for number, line in enumerate(child.stdout, 1):
            told = int(line)
            if number == writes:
                time.sleep(delay_s)
                child.kill()
        return told
