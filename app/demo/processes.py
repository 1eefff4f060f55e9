"""The demo's child processes: `spanjoin` commands, each with a log file, none left behind.

Invariant: what was started here is ended by its own pid at the latest in `Processes.close`, and
by a guard process where the demo itself was killed.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.broker.guard import Guard
from app.errors import EXIT_RESTART, Crash

if TYPE_CHECKING:
    from collections.abc import Mapping

STOP_WITHIN_S: Final = 15.0
ANSWER_WITHIN_S: Final = 1.0
LOG_TAIL_LINES: Final = 12
HOST: Final = "127.0.0.1"


class Processes:
    """Starts commands on one configuration, in one directory."""

    def __init__(self, config: Path, environ: Mapping[str, str], *, keep: bool = False) -> None:
        """`config` lies in a directory of the demo's own; the guard knows its processes by it.

        That directory goes at the end, unless `keep` says that it stays.
        """
        self._config = config
        # What a person has set for a job of their own is not for this one.
        others = {k: v for k, v in os.environ.items() if not k.startswith("SPANJOIN_")}
        self._environ = {**others, **environ}
        self._guard = Guard(config.parent, keep=keep)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, log: str, arguments: list[str], environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """`spanjoin ARGUMENTS -c CONFIG`, with its output in the file `log` of the directory."""
        command = [sys.executable, "-m", "app", *arguments, "-c", str(self._config)]
        with (self._config.parent / log).open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**self._environ, **(environ or {})},
                # Ctrl-C is for the demo, which then ends all in order.
                start_new_session=True,
            )
        self._guard.watch(process.pid)
        self._running.append(process)
        return process

    def run(self, log: str, arguments: list[str]) -> None:
        """A command to its end.

        Raises:
            Crash: it failed; the text has the end of its log.
        """
        self.check(log, self.start(log, arguments).wait())

    def check(self, log: str, code: int | None) -> None:
        """Raise Crash if a command ended with another code than 0; None = it still runs."""
        if code:
            raise Crash(f"{log} ended with {code}: {self.tail(log)}")

    def tail(self, log: str) -> str:
        """The end of a log file."""
        text = (self._config.parent / log).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])

    def close(self) -> None:
        """Kill what still runs and let the guard go."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._guard.close()


class Worker:
    """One worker of the demo; it may be killed and started again on its own state."""

    def __init__(self, processes: Processes, number: int, port: int) -> None:
        self.name = f"worker {number}"
        self.port = port
        self._log = f"worker-{number}.log"
        self._processes = processes
        self._environ = {
            "SPANJOIN_STATE__DIR": f"state-{number}",
            "SPANJOIN_HTTP__HOST": HOST,
            "SPANJOIN_HTTP__PORT": str(port),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self.process = self._processes.start(self._log, ["run"], self._environ)

    def kill(self) -> int:
        """SIGKILL; returns the pid it had."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        pid = self.process.pid
        self.process = None
        return pid

    def keep_running(self) -> bool:
        """Start it again if it asked for that; returns whether it did.

        Raises:
            Crash: it ended in any other way.
        """
        if self.process is None or (code := self.process.poll()) is None:
            return False
        if code != EXIT_RESTART:
            raise Crash(f"{self.name} ended with {code}: {self.tail()}")
        self.start()
        return True

    def tail(self) -> str:
        """The end of its log."""
        return self._processes.tail(self._log)

    def stop(self) -> int:
        """SIGTERM, and wait for its exit code; -SIGKILL if it had to be killed."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def status(self) -> dict[str, Any] | None:
        """What it says of itself and its lanes at /status; None if it does not answer."""
        if self.process is None:
            return None
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_WITHIN_S)
        try:
            connection.request("GET", "/status")
            answer = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return answer if isinstance(answer, dict) else None


def make_directory(files: list[Path], extra: str) -> Path:
    """A temporary directory with copies of these files; `extra` names it."""
    directory = Path(tempfile.mkdtemp(prefix=f"spanjoin-{extra}-")).resolve()
    for file in files:
        shutil.copy(file, directory)
    return directory
