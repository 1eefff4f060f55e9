"""Answers of the admin client that are none, and errors that hold on to nothing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from app.errors import Retry, Unreachable
from app.kafka.authority import Authority
from app.kafka.cluster import Cluster
from tests.unit.jobs import job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.config import Config

PATIENCE_S: Final = 0.3
NO_LEADERS: Final = KafkaException(KafkaError(KafkaError._NOENT, "No leaders found"))


class Admin:
    """Answers with one after the other, and with the last one for ever."""

    answers: list[int | KafkaException]
    made: list[weakref.ref[Admin]]

    def __init__(self, _properties: object) -> None:
        self.looked = 0
        self.made.append(weakref.ref(self))

    def list_topics(self, **_time: float) -> object:
        self.looked += 1
        return SimpleNamespace(brokers={1: "a broker"})

    def poll(self, _timeout: float) -> None:
        pass

    def list_offsets(self, wanted: dict[Any, Any], **_how: object) -> dict[Any, Future[Any]]:
        return {place: self._future() for place in wanted}

    def describe_configs(self, wanted: list[Any], **_time: float) -> dict[Any, Future[Any]]:
        return {resource: self._future() for resource in wanted}

    def _future(self) -> Future[Any]:
        answer = self.answers[0]
        if len(self.answers) > 1:
            del self.answers[0]
        future: Future[Any] = Future()
        if isinstance(answer, KafkaException):
            future.set_exception(KafkaException(*answer.args))
        else:
            future.set_result(SimpleNamespace(offset=answer))
        return future


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> type[Admin]:
    monkeypatch.setattr("app.kafka.authority.AdminClient", Admin)
    monkeypatch.setattr("app.kafka.cluster.AdminClient", Admin)
    monkeypatch.setattr(Admin, "answers", [], raising=False)
    monkeypatch.setattr(Admin, "made", [], raising=False)
    return Admin


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return job(tmp_path)


@pytest.mark.parametrize("missing", [OFFSET_INVALID, -1, NO_LEADERS])
def test_an_offset_that_is_none_is_asked_for_again(
    admin: type[Admin], config: Config, missing: int | KafkaException
) -> None:
    authority = Authority(config, "asks", threading.Event())
    client = authority._admin.newest
    admin.answers = [missing, 7]
    assert authority.stable(0) == 7
    assert client.looked == 1, "it may be somebody else who leads the partition now"  # type: ignore[attr-defined]
    admin.answers = [3, missing, 3, 9]
    assert authority.changelog(0) == (3, 9)


@pytest.mark.parametrize("missing", [OFFSET_INVALID, NO_LEADERS])
def test_a_command_asks_again_for_an_offset_that_is_none(
    admin: type[Admin], config: Config, missing: int | KafkaException
) -> None:
    cluster = Cluster(config, 5)
    admin.answers = [0, missing, 7, 7]
    assert cluster.extents("out", 1) == [(0, 7, 7)]
    assert cluster._admin.looked == 2, "once to find a broker at all"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("missing", "why"),
    [(OFFSET_INVALID, "a partition's leader did not answer"), (NO_LEADERS, "No leaders found")],
)
def test_a_command_calls_leaders_that_do_not_come_back_no_refusal(
    admin: type[Admin], config: Config, missing: int | KafkaException, why: str
) -> None:
    cluster, began = Cluster(config, PATIENCE_S), time.monotonic()
    admin.answers = [missing]
    with pytest.raises(Unreachable, match=rf"^no broker answered at localhost:9092 .*\({why}\)"):
        cluster.extents("out", 1)
    assert time.monotonic() - began > PATIENCE_S


@pytest.fixture
def no_collection() -> Iterator[None]:
    """As in a worker."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Authority.seen, OFFSET_INVALID),
        (Authority.seen, NO_LEADERS),
        (Authority.limits_now, NO_LEADERS),
    ],
)
def test_a_client_that_was_replaced_is_forgotten(
    admin: type[Admin],
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    question: Callable[[Authority], object],
    answer: int | KafkaException,
) -> None:
    """It has threads of its own, so nothing may hold on to it until some collection of garbage."""
    monkeypatch.setattr("app.kafka.replaced.SILENT_S", 0)
    monkeypatch.setattr("app.kafka.replaced.FORGOTTEN_S", 0)
    authority = Authority(config, "asks", threading.Event())
    known = weakref.ref(authority._admin.newest)
    admin.answers = [answer]
    with pytest.raises(Retry):
        question(authority)
    assert authority._admin.newest is not known(), "it is replaced at once here"
    deadline = time.monotonic() + 10
    while known() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert known() is None
