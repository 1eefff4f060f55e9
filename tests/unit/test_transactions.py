"""What the client's producer raises, and what is held of it."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

import app.ends
from app.ends import Ends
from app.errors import Renew, Retry, Stale
from app.kafka import transactions
from app.kafka.clients import Listener
from app.kafka.limits import Limits
from app.kafka.transactions import LaneWrite, Topics, Transactions, Written

TOPICS = Topics("l", "r", "o", "c", "x")
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
    topics, limits = TOPICS, Limits(1, 1, 1)
    with pytest.raises(Retry) as kept:
        Transactions("job", {}, topics, limits).prepare()
    assert kept.value.__traceback__ is not None
    assert [producer() for producer in made] == [None]


def write(one: Transactions, kind: str, writes: list[LaneWrite]) -> dict[int, Written]:
    """A whole transaction of a member."""
    return one.end(one.begin(kind, writes), lambda: b"")


class Failing(Producer):
    """Its flush raises what it was given."""

    raises: object = None

    def begin_transaction(self) -> None:
        """Nothing."""

    def produce(self, *_arguments: object) -> None:
        """Nothing."""

    def flush(self, _timeout: float) -> int:
        """What the vendor's raises where callbacks run on top of an exception."""
        raise self.raises  # type: ignore[misc]

    def poll(self, _timeout: float) -> int:
        """Nothing."""
        return 0


@pytest.mark.parametrize(
    "raised",
    [
        KafkaException(KafkaError(KafkaError._FENCED)),
        KafkaError(KafkaError._FENCED),
        SystemError("a delivery report was called with an exception set"),
        BufferError("the queue is full"),
    ],
    ids=lambda raised: type(raised).__name__,
)
def test_whatever_a_flush_raises_renews(raised: object) -> None:
    producer: Any = Failing({})
    producer.raises = raised
    transactions = Transactions("job", {}, TOPICS, Limits(1, 1, 1))
    transactions.install("job-1", producer, Listener())
    with pytest.raises(Renew) as renew:
        write(transactions, "turn", [LaneWrite(0, (1, 1), matches=[(b"k", b"v", 1)])])
    assert str(renew.value)
    # People may be shown it: an error that is no exception cannot be part of a traceback.
    assert renew.value.__cause__ is None


class Noting(Producer):
    """A broker that takes everything: records of the changelog from an offset on."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.reports: list[tuple[Any, Message]] = []
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        """Nothing."""

    def produce(self, topic: str, _value: bytes, *, on_delivery: Any, **_about: Any) -> None:
        """To be delivered with the next flush."""
        self.reports.append((on_delivery, Message(topic, 0, self.next_offset)))
        self.next_offset += 1

    def flush(self, _timeout: float) -> int:
        """Deliver."""
        while self.reports:
            report, message = self.reports.pop(0)
            report(None, message)
        return 0

    def poll(self, _timeout: float) -> int:
        """Nothing."""
        return 0

    def send_offsets_to_transaction(self, *_arguments: object) -> None:
        """Nothing."""

    def commit_transaction(self, _timeout: float) -> None:
        """Note it."""
        self.calls.append("commit")

    def abort_transaction(self, _timeout: float) -> None:
        """Note it."""
        self.calls.append("abort")


def claiming(next_offset: int) -> tuple[Noting, Transactions, list[LaneWrite]]:
    """A claim of a lane whose changelog ended at 7, and where its record will be."""
    producer: Any = Noting(next_offset)
    transactions = Transactions("job", {}, TOPICS, Limits(1, 1, 1))
    transactions.install("job-1", producer, Listener())
    return producer, transactions, [LaneWrite(0, (1, 1), lambda: [b"one", b"two"], after=7)]


def test_a_claim_right_behind_what_was_replayed_counts() -> None:
    producer, transactions, writes = claiming(next_offset=7)
    assert write(transactions, "claim", writes) == {0: Written(7, 9)}
    assert producer.calls == ["commit"]


@pytest.mark.parametrize("next_offset", [6, 8, 9])
def test_a_claim_behind_somebody_elses_record_is_aborted(next_offset: int) -> None:
    producer, transactions, writes = claiming(next_offset)
    with pytest.raises(Renew, match="the changelog of lane 0 went on from 7"):
        write(transactions, "claim", writes)
    assert producer.calls == ["abort"]


class Slow(Noting):
    """Every call answers, after nearly all of the time it was given."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(7)
        self.clock = clock

    def waited(self, timeout: float) -> None:
        """The clock goes on."""
        self.clock[0] += timeout - 0.01

    def flush(self, timeout: float) -> int:
        """Deliver, late."""
        self.waited(timeout)
        return super().flush(timeout)

    def send_offsets_to_transaction(self, *arguments: object) -> None:
        """Late, and the transaction has to be aborted."""
        timeout = arguments[2]
        assert isinstance(timeout, float)
        self.waited(timeout)

    def commit_transaction(self, timeout: float) -> None:
        """Late, too."""
        self.waited(timeout)
        super().commit_transaction(timeout)


def test_a_transaction_has_one_budget_for_all_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    producer: Any = Slow(clock)
    one = Transactions("job", {}, TOPICS, Limits(1, 1, 1))
    one.install("job-1", producer, Listener())
    write(one, "turn", [LaneWrite(0, (1, 1), lambda: [b"one"])])
    assert producer.calls == ["commit"]
    # The broker aborts it after ten seconds, whatever the client still waits for.
    assert 9 < clock[0] - 100 < 12


class Hanging(Noting):
    """Its offsets come back long after their time."""

    def __init__(self) -> None:
        super().__init__(7)
        self.asked, self.back = threading.Event(), threading.Event()

    def send_offsets_to_transaction(self, *_arguments: object) -> None:
        """As the vendor's, where the group's coordinator is away."""
        self.asked.set()
        assert self.back.wait(10)


def test_a_transaction_that_was_given_up_is_not_committed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app.ends, "LEFT_AFTER_S", 0.1)
    threads: list[ThreadPoolExecutor] = []

    def thread() -> ThreadPoolExecutor:
        threads.append(ThreadPoolExecutor(1))
        return threads[-1]

    hanging = Hanging()
    client: Any = hanging
    one = Transactions("job", {}, TOPICS, Limits(1, 1, 1))
    one.install("job-1", client, Listener())
    ends = Ends(thread)
    begun = one.begin("turn", [LaneWrite(0, (1, 1), lambda: [b"one"])])
    with pytest.raises(Renew, match="does not come back"):
        ends.run(partial(one.end, begun, lambda: b""))
    assert hanging.asked.is_set()
    retired = one.retire()
    assert not retired.ended, "it has to be fenced"
    # The next one has a thread, and a producer, of its own; the first one comes back beside it.
    following: Any = Noting(8)
    one.install("job-2", following, Listener())
    begun = one.begin("turn", [LaneWrite(0, (2, 2), lambda: [b"two"])])
    hanging.back.set()
    assert ends.run(partial(one.end, begun, lambda: b"")) == {0: Written(8, 9)}
    ends.close()
    for each in threads:
        each.shutdown()
    assert len(threads) == 2
    assert hanging.calls == []
    assert following.calls == ["commit"]
    assert one.retire().ended


class Refused(Noting):
    """Its offsets are not taken; by default for a generation that is over."""

    code = KafkaError.ILLEGAL_GENERATION
    aborted = True

    def send_offsets_to_transaction(self, *_arguments: object) -> None:
        """As the vendor's: an abort will do."""
        raise KafkaException(KafkaError(self.code, "refused", txn_requires_abort=True))

    def abort_transaction(self, timeout: float) -> None:
        """Acknowledged, or not."""
        super().abort_transaction(timeout)
        if not self.aborted:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def refused(producer: Refused, heard: str = "") -> Renew:
    client: Any = producer
    one, listener = made_of(client)
    begun = one.begin("turn", [LaneWrite(0, (1, 1), lambda: [b"one"])])
    listener.heard = heard
    with pytest.raises(Renew) as raised:
        one.end(begun, lambda: b"")
    assert producer.calls == ["abort"]
    return raised.value


def made_of(client: Any) -> tuple[Transactions, Listener]:
    one, listener = Transactions("job", {}, TOPICS, Limits(1, 1, 1)), Listener()
    one.install("job-1", client, listener)
    return one, listener


def test_a_turn_of_a_generation_that_is_over_may_be_run_again() -> None:
    assert type(refused(Refused(7))) is Stale


@pytest.mark.parametrize(
    ("code", "aborted", "heard"),
    [
        (KafkaError.UNKNOWN_MEMBER_ID, True, ""),
        (KafkaError.INVALID_TXN_STATE, True, ""),
        (KafkaError.ILLEGAL_GENERATION, False, ""),
        (KafkaError.ILLEGAL_GENERATION, True, "Disconnected (after 7ms in state UP)"),
    ],
)
def test_any_other_is_not(code: int, aborted: bool, heard: str) -> None:
    """Some other member may have the lanes, or the last end may have been sent twice."""
    producer = Refused(7)
    producer.code, producer.aborted = code, aborted
    assert type(refused(producer, heard)) is Renew


def test_a_turn_that_was_given_up_is_not_run_again() -> None:
    client: Any = Refused(7)
    one, _ = made_of(client)
    begun = one.begin("turn", [LaneWrite(0, (1, 1), lambda: [b"one"])])

    def metadata() -> bytes:
        one.retire()
        return b""

    with pytest.raises(Renew) as raised:
        one.end(begun, metadata)
    assert type(raised.value) is Renew
