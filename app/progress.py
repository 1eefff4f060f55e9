"""Progress bars on standard error, only where a person looks at them."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Advance(Protocol):
    """Tells how far something has come."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """`done` of `total`; None leaves the total as it was."""


@contextmanager
def progress(what: str, total: int | None = None, *, counted: bool = True) -> Iterator[Advance]:
    """Show a bar while the block runs; nothing at all if standard error is not a terminal.

    Nor on a thread beside the main one: there a worker answers somebody who looks elsewhere.

    `counted` shows the numbers beside the bar, where they are of things that a person counts.
    """
    if not sys.stderr.isatty() or threading.current_thread() is not threading.main_thread():
        yield _silent
        return
    columns = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
    if counted:
        columns.append(MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=total)

        def advance(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done)
            if total is not None:
                bar.update(task, total=total)

        yield advance


def _silent(done: int, total: int | None = None) -> None:
    """Show nothing."""
