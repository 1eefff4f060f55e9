"""Ends a broker whose starter is gone, and removes its data: run as a program of its own.

The starter holds the other end of standard input and writes the broker's pid into it, one line
each time that changes. When the pipe closes, the starter has ended, however it ended (SIGKILL
included, which no handler of its own would see).

Usage: python -I guard.py DIRECTORY
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


def command_line(pid: int) -> str:
    """What the process runs, empty if there is none."""
    if Path("/proc/self").exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return ""
    done = subprocess.run(  # noqa: S603 - a number as the only variable argument
        ["ps", "-o", "args=", "-ww", "-p", str(pid)],  # noqa: S607 - wherever `ps` is
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def main() -> None:
    """Wait for the starter's end, then kill what it left and remove its directory."""
    directory = sys.argv[1]
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    # The number may belong to another process by now; only ours names the directory.
    if pid and directory in command_line(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
