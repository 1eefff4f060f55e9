"""What a group's own description says of whether it will share out its lanes again."""

from __future__ import annotations

import gc
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from app.kafka.group import NEVER_S, GroupState

STABLE = ConsumerGroupState.STABLE


def asked(answer: object, lanes: int = 4) -> bool:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    elif answer is not None:
        future.set_result(answer)
    admin = SimpleNamespace(describe_consumer_groups=lambda names, **_time: {names[0]: future})
    return GroupState(lambda: cast("Any", admin), "job").unsettled(lanes)


def described(state: ConsumerGroupState, *owned: int) -> object:
    members = [
        SimpleNamespace(assignment=SimpleNamespace(topic_partitions=[None] * count))
        for count in owned
    ]
    return SimpleNamespace(state=state, members=members)


@pytest.mark.parametrize(
    ("answer", "is_unsettled"),
    [
        (described(STABLE, 2, 2), False),
        (described(STABLE, 2, 1, 0), True),
        (described(ConsumerGroupState.PREPARING_REBALANCING, 2, 2), True),
        (described(ConsumerGroupState.COMPLETING_REBALANCING, 2, 2), True),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), False),
        (None, False),
    ],
)
def test_lanes_that_are_nobodys_are_given_out_soon(answer: object, is_unsettled: bool) -> None:
    assert asked(answer) is is_unsettled


@pytest.mark.parametrize("fails", [False, True])
def test_a_client_that_does_not_answer_is_replaced(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr("app.kafka.group.LOOK_S", 0.01)
    monkeypatch.setattr("app.kafka.replaced.FORGOTTEN_S", 0.01)
    made: list[weakref.ref[Any]] = []

    class Admin:
        """Answers if it is the second one."""

        def __init__(self) -> None:
            made.append(weakref.ref(self))
            self.future: Future[Any] = Future()
            if len(made) > 1:
                self.future.set_result(described(STABLE, 1))
            elif fails:
                self.future.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))

        def describe_consumer_groups(
            self, names: list[str], *, request_timeout: float
        ) -> dict[str, Future[Any]]:
            """Not to be timed out: the client would abort the process later."""
            assert request_timeout >= NEVER_S
            return {names[0]: self.future}

    gc.disable()  # As in a worker.
    group = GroupState(cast("Any", Admin), "job")
    assert [group.unsettled(4) for _ in range(3)] == [False, True, True]
    assert len(made) == 2
    deadline = time.monotonic() + 10
    while made[0]() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    gc.enable()
    assert made[0]() is None, "it would keep threads and connections"
    assert made[1]() is not None
