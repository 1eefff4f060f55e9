"""A producer that never came to be is let go of, although the reason of that is kept."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.errors import Retry
from app.kafka import transactions
from app.kafka.transactions import Limits, Topics, Transactions

made: list[weakref.ref[object]] = []


class Producer:
    """Has no broker."""

    def __init__(self, _properties: dict[str, Any]) -> None:
        made.append(weakref.ref(self))

    @staticmethod
    def init_transactions(_timeout: float) -> None:
        """As the vendor's, it leaves no frame that holds the producer."""
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_producer_that_could_not_be_prepared_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "Producer", Producer)
    topics, limits = Topics("l", "r", "o", "c", "x"), Limits(1, 1, 1)
    with pytest.raises(Retry) as kept:
        Transactions("job", {}, topics, limits).prepare()
    assert kept.value.__traceback__ is not None
    assert [producer() for producer in made] == [None]
