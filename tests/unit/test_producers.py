"""A producer that failed is let go of at once, and not by the loop."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.ends import Ends
from app.errors import Renew
from app.kafka.calls import Calls
from app.kafka.producers import Producers
from app.kafka.transactions import Retired

if TYPE_CHECKING:
    from collections.abc import Iterator


class Client:
    """A producer that says who ended it."""

    def __init__(self, ended_by: list[str]) -> None:
        self._ended_by = ended_by

    def __del__(self) -> None:
        self._ended_by.append(threading.current_thread().name)


class Transactions:
    """One live producer."""

    def __init__(self, client: Client) -> None:
        self.client: Client | None = client

    def retire(self) -> Retired:
        client, self.client = self.client, None
        return Retired("job-1", cast("Any", client), ended=False)


class Authority:
    """The broker is away until it is told to come back."""

    def __init__(self) -> None:
        self.asked, self.back = threading.Event(), threading.Event()
        self.calls = Calls()

    def fence(self, _writer: str) -> None:
        self.asked.set()
        assert self.back.wait(10)


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """As in a worker."""
    gc.disable()
    yield
    gc.enable()


def test_a_retired_producer_is_ended_by_a_helper_before_its_name_is_fenced() -> None:
    ended_by: list[str] = []
    authority = Authority()
    with ThreadPoolExecutor(1, "helper") as threads:
        transactions = Transactions(Client(ended_by))
        producers = Producers(cast("Any", transactions), cast("Any", authority), threads)
        producers.retire()
        assert authority.asked.wait(10)
        assert ended_by == ["helper_0"]
        authority.back.set()


def test_a_failed_end_beside_the_join_holds_on_to_nothing() -> None:
    known: list[weakref.ref[Client]] = []

    def end() -> None:
        client = Client([])
        known.append(weakref.ref(client))
        raise Renew("the broker did not take all records in time")

    with ThreadPoolExecutor(1) as thread:
        try:
            Ends(lambda: thread).run(end)
        except Renew:
            assert known[0]() is not None
        thread.submit(lambda: None).result(10)  # The thread has forgotten it, too.
        assert known[0]() is None


def test_an_end_is_waited_for_whatever_the_join_meets() -> None:
    done = threading.Event()

    def end() -> None:
        time.sleep(0.1)
        done.set()

    def join() -> None:
        raise ValueError("a row cannot be read")

    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(ValueError, match="a row"):
            Ends(lambda: thread).run(end, join)
        assert done.is_set()
