"""Asking workers over HTTP for the rows of a key, as a client would that knows their address."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.kafka.workers import HOST

if TYPE_CHECKING:
    from tests.kafka.workers import Worker

PATIENCE_S: Final = 30


class Said(NamedTuple):
    """An answer: its code, and what it says of the key if there is any."""

    code: int
    text: str

    @property
    def answer(self) -> dict[str, Any]:
        """The whole of it; only if the code is 200."""
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found

    @property
    def rows(self) -> set[str]:
        """The ids of the rows of both sides; only if the code is 200."""
        return {row["id"] for rows in self.answer["rows"].values() for row in rows}


def ask(worker: Worker, key: str, consistency: str = "linearizable") -> Said:
    """One question; code 0 where nobody listens, or the answer was cut off."""
    connection = http.client.HTTPConnection(HOST, worker.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", f"/matches?key={key}&consistency={consistency}")
        response = connection.getresponse()
        return Said(response.status, response.read().decode())
    except (OSError, http.client.HTTPException) as error:
        return Said(0, str(error))
    finally:
        connection.close()


class Asked:
    """Questions that are on their way, each on a thread of its own: a worker may be asleep."""

    def __init__(self, worker: Worker, key: str, count: int = 1) -> None:
        self.said: list[Said] = []
        self._threads = [
            threading.Thread(target=lambda: self.said.append(ask(worker, key)), daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def answers(self) -> list[Said]:
        """What all of them were told, once they were."""
        deadline = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        assert len(self.said) == len(self._threads), "a question was never answered"
        return self.said
