"""Ends what its starter left behind, and removes the directory of it: a program of its own.

The starter holds the other end of standard input and writes the pid of each process into it.
When the pipe closes, the starter has ended, however it ended (SIGKILL included, which no handler
of its own would see).

Usage: python -I guard.py DIRECTORY [keep]
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

WAIT_S: Final = 20.0


class Guard:
    """The starter's side: a guard process for one directory."""

    def __init__(self, directory: Path, *, keep: bool = False) -> None:
        """`keep` leaves the directory."""
        arguments = [str(directory), "keep"] if keep else [str(directory)]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", __file__, *arguments],
            stdin=subprocess.PIPE,
            # Ctrl-C on a terminal goes to the whole foreground group: the starter decides.
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Let it end this process, too; the directory must stand in its command line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{pid}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        """Let it do its work now, and wait for that; a second call does nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(WAIT_S)


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
    pids = {int(line) for line in sys.stdin}
    for pid in pids:
        # The number may belong to another process by now; only ours names the directory.
        if directory in command_line(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if "keep" not in sys.argv[2:]:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
