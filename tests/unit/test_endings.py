"""The one line and the exit code for what the layers below a worker stop for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.endings import ending
from app.errors import Crash
from app.run import run_worker
from rebalance.lanes import Mismatch, Unrepairable
from schemas.codec import UnknownSchema
from state.checkpoint import Unreadable
from state.disk import StoreDamaged, StoreError, StoreFull, StoreLocked
from tests.unit.jobs import job

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Mismatch("why"), 2, "why"),
        (UnknownSchema("why"), 2, "why: configure"),
        (Unreadable("why"), 2, "-changelog holds a record that cannot be read (why)"),
        (StoreLocked("why"), 2, "state.dir {dir} is used by another process: why"),
        (StoreFull("why"), 1, "the disk of state.dir {dir} is full: why"),
        (StoreDamaged("why"), 1, "the state in {dir} is damaged (why): delete it"),
        (Unrepairable("why"), 1, "why: the disk of state.dir {dir} or topic "),
        (StoreError("why"), 1, "state.dir {dir} cannot be used: why"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_ending_has_its_line(tmp_path: Path, error: Exception, code: int, words: str) -> None:
    config = job(tmp_path)
    told = ending(error, config)
    assert told.exit_code == code
    assert words.format(dir=config.state.dir) in told.line


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(Crash, match=f"state.dir {tmp_path / 'state'} cannot be used: "):
        run_worker(job(tmp_path))
