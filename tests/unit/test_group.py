"""What a group's own description says of whether it will share out its lanes again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from app.kafka.group import unsettled

STABLE = ConsumerGroupState.STABLE


def asked(answer: object, lanes: int = 4) -> bool:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    elif answer is not None:
        future.set_result(answer)
    admin = SimpleNamespace(describe_consumer_groups=lambda names, **_time: {names[0]: future})
    return unsettled(cast("Any", admin), "job", lanes)


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
