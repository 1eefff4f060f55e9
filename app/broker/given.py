"""A broker that somebody else runs: used as it is, never stopped."""

from __future__ import annotations

from typing import NoReturn

from app.broker.interface import Broker, BrokerUnavailable


class GivenBroker(Broker):
    """A broker named from outside; killing or pausing it is refused."""

    owned = False

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def stop(self) -> None:
        """Do nothing: it is not ours."""

    def _refuse(self) -> NoReturn:
        raise BrokerUnavailable(
            f"the broker at {self.bootstrap_servers} was given and is not ours to disturb"
        )

    def kill(self) -> None:
        """Refuse."""
        self._refuse()

    def restart(self) -> None:
        """Refuse."""
        self._refuse()

    def pause(self) -> None:
        """Refuse."""
        self._refuse()

    def resume(self) -> None:
        """Refuse."""
        self._refuse()
