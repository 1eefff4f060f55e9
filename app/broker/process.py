"""A broker as a Java process of this machine, with its data in a temporary directory.

It never outlives its starter: a guard process ends it when the starter is gone.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.broker.guard import Guard
from app.broker.interface import (
    START_TIMEOUT_S,
    STARTED_LINE,
    Broker,
    BrokerUnavailable,
    log_tail,
)
from app.broker.settings import SHORT_RUN, as_properties_file

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST: Final = "127.0.0.1"
PORT_TRIES: Final = 3
JAVA_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class ProcessBroker(Broker):
    """One combined KRaft node on 127.0.0.1, on ports that were free when it was first started."""

    log_path: Path

    def __init__(self, java: str, jars: Path, properties: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            BrokerUnavailable: it did not come up; the text ends with its last log lines.
        """
        self._directory = Path(tempfile.mkdtemp(prefix="spanjoin-broker-")).resolve()
        self.log_path = self._directory / "broker.log"
        self._java = [java, *JAVA_OPTIONS, "-cp", f"{jars}/*"]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = Guard(self._directory)
        try:
            self._first_start(properties)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int | None:
        """The broker's process, None while it is killed or stopped."""
        return self._process.pid if self._process else None

    def _first_start(self, properties: Mapping[str, str]) -> None:
        for attempt in range(1, PORT_TRIES + 1):
            self._configure(properties)
            try:
                self._start()
            except BrokerUnavailable as error:
                # A port that was free a moment ago can be somebody else's now.
                if attempt == PORT_TRIES or "Address already in use" not in str(error):
                    raise
            else:
                return

    def _configure(self, properties: Mapping[str, str]) -> None:
        port, controller = free_ports(2)
        self.bootstrap_servers = f"{HOST}:{port}"
        data = self._directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        own = {
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
            "log.dirs": str(data),
        }
        self._properties = self._directory / "server.properties"
        self._properties.write_text(as_properties_file({**SHORT_RUN, **own, **properties}))
        # A cluster id may not begin with a dash, which the command line takes for an option.
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        command = [
            *self._java, "kafka.tools.StorageTool", "format", "--standalone",
            "--cluster-id", cluster, "--config", str(self._properties),
        ]  # fmt: skip
        done = subprocess.run(  # noqa: S603 - a program that was found and checked
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            raise BrokerUnavailable(f"Kafka's storage: {log_tail(done.stdout)}")

    def _start(self) -> None:
        with self.log_path.open("ab") as log:
            start = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - a program that was found and checked
                [*self._java, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                start_new_session=True,
            )
        self._guard.watch(self._process.pid)
        deadline = time.monotonic() + START_TIMEOUT_S
        while STARTED_LINE not in (text := self._log_from(start)):
            if self._process.poll() is not None:
                self._process = None
                raise BrokerUnavailable(f"the broker ended while starting:\n{log_tail(text)}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerUnavailable(
                    f"the broker did not start in {START_TIMEOUT_S:.0f} s:\n{log_tail(text)}"
                )
            time.sleep(0.05)

    def _log_from(self, offset: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise BrokerUnavailable("the broker does not run")
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Start it again on the same data and ports (killing it first if it still runs)."""
        if self._process is not None:
            self.kill()
        self._start()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it (its data goes anyway), end the guard and wait for both."""
        if self._process is not None:
            self.kill()
        self._guard.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """That many different ports of 127.0.0.1 on which nobody listens at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
