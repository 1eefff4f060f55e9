"""A broker in Docker: Kafka's own image, started through testcontainers.

Testcontainers' reaper removes the container when the starter is gone, however it ended.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import get_docker_host

from app.broker.interface import (
    KAFKA_VERSION,
    START_TIMEOUT_S,
    STARTED_LINE,
    Broker,
    BrokerUnavailable,
    log_tail,
)
from app.broker.process import HOST, free_ports
from app.broker.settings import SHORT_RUN, as_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IMAGE: Final = f"apache/kafka:{KAFKA_VERSION}"
ANSWER_TIMEOUT_S: Final = 5
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


def docker_answers() -> bool:
    """Whether a Docker engine really runs on this machine, not just its client; within seconds.

    An engine elsewhere does not count: its containers are not reached on 127.0.0.1.
    """
    scheme, _, path = (get_docker_host() or "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return False
    # Asked by hand: the client library leaks its socket where nobody listens.
    with socket.socket(socket.AF_UNIX) as engine:
        engine.settimeout(ANSWER_TIMEOUT_S)
        try:
            engine.connect(path)
            engine.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in engine.recv(64)
        except OSError:
            return False


class ContainerBroker(Broker):
    """One combined KRaft node in a container, reached on a free port of 127.0.0.1."""

    log_path: Path

    def __init__(self, properties: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Start it.

        Raises:
            BrokerUnavailable: the image could not be had, or the broker did not come up.
        """
        (port,) = free_ports(1)
        self.bootstrap_servers = f"{HOST}:{port}"
        self.log_path = Path(tempfile.mkdtemp(prefix="spanjoin-broker-"), "broker.log")
        own = {
            "listeners": f"PLAINTEXT://:{CLIENT_PORT},CONTROLLER://:{CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.quorum.voters": f"1@localhost:{CONTROLLER_PORT}",
        }
        self._container = DockerContainer(
            IMAGE, env=as_environment({**SHORT_RUN, **own, **properties})
        )
        # Not with_bind_ports: that would listen on every address of the machine.
        ports: dict[str, tuple[str, int]] = {f"{CLIENT_PORT}/tcp": (HOST, port)}
        self._container.ports = ports  # type: ignore[assignment]  # docker takes (host, port) too
        say(f"starting {IMAGE} in Docker")
        try:
            self._container.start()
            self._await_start(since=0)
        except (DockerException, OSError) as error:
            self.stop()
            raise BrokerUnavailable(f"{IMAGE}: {error}") from error
        except BaseException:
            self.stop()
            raise

    def _await_start(self, since: int) -> None:
        container = self._container.get_wrapped_container()
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            text = container.logs(since=since or None).decode(errors="replace")
            self.log_path.write_text(text)
            if STARTED_LINE in text:
                return
            container.reload()
            if container.status in {"exited", "dead"}:
                raise BrokerUnavailable(f"the broker ended while starting:\n{log_tail(text)}")
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"the broker did not start in {START_TIMEOUT_S:.0f} s:\n{log_tail(text)}"
                )
            time.sleep(0.2)

    def stop(self) -> None:
        """Remove the container with its data."""
        with contextlib.suppress(Exception):
            self._container.stop()

    def kill(self) -> None:
        """SIGKILL to the broker in its container."""
        container = self._container.get_wrapped_container()
        container.kill()
        container.wait()

    def restart(self) -> None:
        """Start the same container again (killing it first if it still runs)."""
        container = self._container.get_wrapped_container()
        container.reload()
        if container.status == "running":
            self.kill()
        since = int(time.time())
        container.start()
        self._await_start(since)

    def pause(self) -> None:
        """Freeze the container."""
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        """Let it go on."""
        self._container.get_wrapped_container().unpause()
