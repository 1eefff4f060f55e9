"""What a broker offers whoever started it, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Self

from app.errors import SpanjoinError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

KAFKA_VERSION: Final = "4.2.1"
START_TIMEOUT_S: Final = 180.0
"""A start takes 3 s; a busy machine gets 60 times that."""

STARTED_LINE: Final = "Kafka Server started"
"""What Kafka logs once the broker is registered with its controller and answers clients."""

LOG_TAIL_LINES: Final = 15


class BrokerUnavailable(SpanjoinError):
    """No broker could be started here; the text says what to install or what went wrong."""


class Broker(ABC):
    """One running broker; as a context manager it is stopped at the end.

    `log_path` is where its log goes, None for a broker that was given from outside. `owned` says
    whether it may be killed and paused.
    """

    bootstrap_servers: str
    log_path: Path | None = None
    owned: bool = True

    @abstractmethod
    def stop(self) -> None:
        """End it and remove its data; a second call does nothing."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, as a crash of its machine would; the data stays for `restart`."""

    @abstractmethod
    def restart(self) -> None:
        """Start it again on the same data and the same ports, and wait until it answers.

        Raises:
            BrokerUnavailable: it did not come up.
        """

    @abstractmethod
    def pause(self) -> None:
        """Freeze it: connections stay open, nothing answers."""

    @abstractmethod
    def resume(self) -> None:
        """Let a paused broker go on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def log_tail(text: str) -> str:
    """The last lines of a broker's log, for the error that says it did not come up."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-LOG_TAIL_LINES:]) or "(its log is empty)"
