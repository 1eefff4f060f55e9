"""Files that results are written to.

Invariant: a file appears under its name only when it is complete, so a run that fails leaves what
was there before; and nothing is written over what the same run reads.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import combinations
from shutil import copymode
from typing import TYPE_CHECKING, TextIO

from app.datafiles import STANDARD_INPUT
from app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """The name to write a file under, which gets its own when the block ends without an error.

    Raises UsageError, before anything is read rather than after minutes.
    """
    if _in_place(path):
        # Not tried by opening it: whoever reads a pipe would take its closing for the end.
        if path.is_dir() or not os.access(path, os.W_OK):
            raise UsageError(f"{path}: cannot be written: name a file that may be")
        yield path
        return
    target, partial = _names(path)
    try:
        # A file stays as private as it was made; one that is protected stays as it is.
        known = target.exists()
        if known:
            target.open("ab").close()
        partial.open("a").close()
        if known:
            copymode(target, partial)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def complete_text(path: Path | None) -> Iterator[TextIO]:
    """The same as a stream; standard output where no file is named."""
    if path is None:
        yield sys.stdout
        return
    with complete(path) as name, name.open("w", encoding="utf-8", newline="") as stream:
        yield stream


def check_apart(outputs: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Raises UsageError where a file is to be written that is read, or two options name one.

    `outputs` are the options' files, by the options' names.
    """
    written = {
        option: _names(path)
        for option, path in outputs.items()
        if path is not None and not _in_place(path)
    }
    read = [path for path in inputs if path != STANDARD_INPUT]
    for option, names in written.items():
        for path in read:
            if _meet(names, [path]):
                raise UsageError(
                    f"{option} {outputs[option]} would be written over {path}, which is read: "
                    f"name another file"
                )
    for one, other in combinations(written, 2):
        if _meet(written[one], written[other]):
            raise UsageError(
                f"{one} {outputs[one]} and {other} {outputs[other]} would be written over each "
                f"other: name two files"
            )


def _in_place(path: Path) -> bool:
    """Whether it is a pipe or a device (or a directory, which cannot be written at all)."""
    return path.exists() and not path.is_file()


def _names(path: Path) -> tuple[Path, Path]:
    """Where a file will be, and where until it is complete. A link goes on to name its file."""
    target = path.resolve()
    return target, target.with_name(f"{target.name}.partial")


def _meet(these: Iterable[Path], those: Iterable[Path]) -> bool:
    those = tuple(those)
    return any(_same(one, other) for one in these for other in those)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
