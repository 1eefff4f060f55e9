"""Workers as processes of their own, each ended by its own pid, and waiting with a limit."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SPANJOIN = Path(sys.executable).with_name("spanjoin")
LOG_TAIL_LINES: Final = 30
HOST: Final = "127.0.0.1"


def eventually(condition: Callable[[], bool], timeout: float, what: Callable[[], str]) -> None:
    """Wait until the condition holds; after `timeout` seconds fail with what it is like then."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:.0f} s: {what()}"
        time.sleep(0.05)


def spanjoin(
    *arguments: str, environ: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command of spanjoin to its end."""
    return subprocess.run(
        [SPANJOIN, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environ or {})},
        check=False,
    )


def free_port() -> int:
    """A port on which nobody listens at the moment."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def get(port: int, path: str) -> tuple[int, str]:
    """Status code and body; 0 where nobody listens (yet)."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


def lanes_of(port: int) -> list[dict[str, Any]]:
    """The lanes that a worker says it has; none where nobody listens (yet)."""
    code, text = get(port, "/status")
    lanes = json.loads(text)["lanes"] if code == 200 else []
    assert isinstance(lanes, list)
    return lanes


class Worker:
    """One `spanjoin run`; its output goes to `log`, its HTTP server listens on `port`."""

    def __init__(self, command: list[str], log: Path, environ: Mapping[str, str]) -> None:
        self.log = log
        self.port = int(environ.get("SPANJOIN_HTTP__PORT", 0))
        self._expected_to_run = True
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environ},
                # Children of `--workers N` are then ended with it, and with nobody else.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def get(self, path: str) -> tuple[int, str]:
        """Status code and body of its HTTP server; 0 while it does not listen."""
        return get(self.port, path)

    def running(self) -> list[int]:
        """The lanes it runs, as it says itself."""
        return [lane["lane"] for lane in lanes_of(self.port) if lane["phase"] == "running"]

    def tail(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def check(self) -> None:
        """Fail if it ended although nobody ended it."""
        if self._expected_to_run and (code := self.process.poll()) is not None:
            raise AssertionError(f"worker {self.pid} ended with {code}:\n{self.tail()}")

    def expect_end(self) -> None:
        """It will end by itself, and that is no failure."""
        self._expected_to_run = False

    def wait(self, timeout: float = 30) -> int:
        """Wait for its own end; returns the exit code."""
        self._expected_to_run = False
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"worker {self.pid} still runs after {timeout:.0f} s:\n{self.tail()}"
            ) from None

    def terminate(self, timeout: float = 15) -> int:
        """SIGTERM; returns the exit code."""
        self._expected_to_run = False
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """SIGKILL to it and to nothing else, and wait until it is gone."""
        self._expected_to_run = False
        self.process.kill()
        self.process.wait(10)

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Leave nothing of it behind: its session holds its children and nobody else's."""
        self._expected_to_run = False
        # A group's number is not given away while a member lives.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
