"""Where tables are printed: as wide as the terminal, or wide enough where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from typing import TextIO

_PIPE_WIDTH: Final = 200


def console(stream: TextIO | None = None) -> Console:
    """A console on `stream`, or on standard output; a pipe or file gets nothing cut off."""
    stream = stream if stream is not None else sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    width = None if narrow else _PIPE_WIDTH
    return Console(file=stream, width=width)
