"""A client that stays silent makes room for another one."""

from __future__ import annotations

import threading
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.errors import Retry
from app.kafka import replaced
from app.kafka.replaced import Replaced

SILENT_S: Final = 30.0


class Client:
    """Hears nothing, unless it is told otherwise."""

    def __init__(self) -> None:
        self.hears = False
        self.closed = threading.Event()

    def ask(self) -> str:
        if not self.hears:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return "answer"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(replaced, "FORGOTTEN_S", 0)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def made() -> list[Client]:
    return []


@pytest.fixture
def clients(made: list[Client], clock: list[float]) -> Replaced[Client]:
    assert clock

    def make() -> Client:
        made.append(Client())
        return made[-1]

    return Replaced(make, lambda client: client.closed.set())


def silent(clients: Replaced[Client]) -> None:
    with pytest.raises(KafkaException):
        clients.asked(Client.ask)


def test_it_is_replaced_once_it_was_silent_for_long(
    clients: Replaced[Client], made: list[Client], clock: list[float]
) -> None:
    silent(clients)
    clock[0] += SILENT_S - 1
    silent(clients)
    assert len(made) == 1
    clock[0] += 1
    silent(clients)
    assert clients.newest is made[1]
    assert made[0].closed.wait(10)
    # The new one has as much time.
    silent(clients)
    clock[0] += SILENT_S - 1
    silent(clients)
    assert len(made) == 2
    made[1].hears = True
    assert clients.asked(Client.ask) == "answer"
    assert not made[1].closed.is_set()


def test_an_answer_ends_the_silence(
    clients: Replaced[Client], made: list[Client], clock: list[float]
) -> None:
    for hears in (False, True, False):
        made[0].hears = hears
        if hears:
            assert clients.asked(Client.ask) == "answer"
        else:
            silent(clients)
        clock[0] += SILENT_S - 1
    made[0].hears = False
    silent(clients)
    assert len(made) == 1


def test_who_still_asks_one_that_was_closed_asks_again(
    clients: Replaced[Client], made: list[Client], clock: list[float]
) -> None:
    silent(clients)
    clock[0] += SILENT_S

    def asks(client: Client) -> str:
        if client is made[0]:
            silent(clients)
            assert client.closed.wait(10)
        raise RuntimeError("Consumer closed")

    with pytest.raises(Retry, match="Consumer closed"):
        clients.asked(asks)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        clients.asked(asks)  # Nobody has closed that one: it is a fault.


def test_it_is_replaced_once_by_all_that_have_asked(
    clients: Replaced[Client], made: list[Client], clock: list[float]
) -> None:
    silent(clients)
    clock[0] += SILENT_S

    def asks(client: Client) -> str:
        # Somebody else hears of the silence first.
        if len(made) == 1:
            silent(clients)
        return client.ask()

    with pytest.raises(KafkaException):
        clients.asked(asks)
    assert len(made) == 2
