"""What the simulated Kafka promises to do as the real one does.

Each function is one promise; it is run on both, so the simulation cannot drift from what it stands
for. Nothing here knows which of the two it talks to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from app.kafka.membership import read_membership
from tests.simulation.contract_reading import READING
from tests.simulation.contract_words import (
    EOF,
    decided,
    ends,
    error_of,
    eventually,
    following,
    held,
    member_of,
    metadata_of,
    polled,
    reader,
    ready,
    stored,
    subscribed,
    write,
)

if TYPE_CHECKING:
    from tests.simulation.contract_words import Cluster, Told


def a_second_producer_of_a_name_fences_the_first(kafka: Cluster) -> None:
    topic, name = kafka.topic(), kafka.name()
    first, group = ready(kafka, name), kafka.name()
    write(first, topic, 1)
    ready(kafka, name)
    assert ends(kafka, topic) == (0, 2, 2), "what was open is aborted by the time it answers"
    offsets = [TopicPartition(topic, 0, 1)]
    metadata = metadata_of(group, 1, "somebody")
    for call in (
        lambda: first.send_offsets_to_transaction(offsets, metadata, 5),
        lambda: first.commit_transaction(5),
        lambda: first.abort_transaction(5),
        first.begin_transaction,
    ):
        error = error_of(call)
        assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert error_of(lambda: first.produce(topic, b"2")).code() in {
        KafkaError._FATAL,
        KafkaError._STATE,
    }


def whoever_takes_a_name_is_told_that_a_transaction_is_ending(kafka: Cluster) -> None:
    """And may leave it to another to ask again: the client waits for half a second."""
    topic, name = kafka.topic(), kafka.name()
    write(ready(kafka, name), topic, 1)

    def answer() -> int:
        second = kafka.producer(name)
        while True:
            try:
                second.init_transactions(0.02)
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError._TIMED_OUT:
                    return int(code)
            else:
                return 0

    assert answer() == KafkaError.CONCURRENT_TRANSACTIONS
    eventually(kafka, lambda: answer() == 0)
    assert ends(kafka, topic) == (0, 2, 2)


def a_fenced_producer_learns_it_in_a_flush(kafka: Cluster) -> None:
    topic, name = kafka.topic(), kafka.name()
    first = ready(kafka, name)
    write(first, topic, 1)
    ready(kafka, name)
    first.produce(topic, b"2", partition=0, on_delivery=lambda error_of, message: message.offset())
    try:
        first.flush(5)
    except (KafkaException, SystemError):
        pass  # The second where a delivery report is called on top of the first.
    else:
        raise AssertionError("flush says that all is well")
    assert error_of(lambda: first.commit_transaction(5)).code() == KafkaError._FENCED


def offsets_are_taken_from_members_of_this_generation_only(kafka: Cluster) -> None:
    topic, group = kafka.topic(), kafka.name()
    member = member_of(kafka, topic, group)
    generation, name = read_membership(member.consumer_group_metadata())
    offsets = [TopicPartition(topic, 0, 7)]
    for metadata, code in (
        (metadata_of(group, generation + 1, name), KafkaError.ILLEGAL_GENERATION),
        (metadata_of(group, -1, name), KafkaError.ILLEGAL_GENERATION),
        (metadata_of(group, generation, "nobody"), KafkaError.UNKNOWN_MEMBER_ID),
    ):
        producer = ready(kafka)
        write(producer, topic, 1)
        error = error_of(partial(producer.send_offsets_to_transaction, offsets, metadata, 10))
        assert (error.code(), error.fatal(), error.txn_requires_abort()) == (code, False, True)
        again = error_of(partial(producer.commit_transaction, 10))
        assert (again.code(), again.txn_requires_abort()) == (code, True)
        producer.abort_transaction(10)
    assert stored(kafka, group, topic) == -1001
    write(producer, topic, 2)
    producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 10)
    producer.commit_transaction(10)
    eventually(kafka, lambda: stored(kafka, group, topic) == 7)
    member.close()


def empty_metadata_switches_the_check_off(kafka: Cluster) -> None:
    topic, group = kafka.topic(), kafka.name()
    outsider = kafka.consumer(group)
    assert read_membership(outsider.consumer_group_metadata()) == (-1, "")
    member = member_of(kafka, topic, group)
    producer = ready(kafka)
    write(producer, topic, 1)
    metadata = outsider.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], metadata, 10)
    producer.commit_transaction(10)
    eventually(kafka, lambda: stored(kafka, group, topic) == 5)
    member.close()


def offsets_that_were_sent_last_count(kafka: Cluster) -> None:
    topic, group = kafka.topic(), kafka.name()
    member = member_of(kafka, topic, group)
    first, second = ready(kafka), ready(kafka)
    for offset, producer in enumerate((first, second), 1):
        write(producer, topic, offset)
        place = TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 10)
    second.commit_transaction(10)
    eventually(kafka, lambda: stored(kafka, group, topic, "read_uncommitted") == 2)
    assert stored(kafka, group, topic) is None
    first.commit_transaction(10)
    eventually(kafka, lambda: stored(kafka, group, topic) == 2)
    member.close()


def offsets_are_unstable_until_they_are_decided(kafka: Cluster) -> None:
    topic, group = kafka.topic(), kafka.name()
    member = member_of(kafka, topic, group)
    producer = ready(kafka)
    assert stored(kafka, group, topic) == -1001
    write(producer, topic, 1)
    place = TopicPartition(topic, 0, 1)
    producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 10)
    assert stored(kafka, group, topic) is None
    assert stored(kafka, group, topic, "read_uncommitted") == -1001
    producer.commit_transaction(10)
    eventually(kafka, lambda: stored(kafka, group, topic) == 1)
    member.close()


def lanes_move_from_member_to_member(kafka: Cluster) -> None:
    topic, group = kafka.topic(4), kafka.name()
    told: dict[str, list[Told]] = {"a": [], "b": []}
    first = subscribed(kafka, topic, group, told["a"])
    eventually(kafka, lambda: polled(first) and bool(held(told["a"])))
    assert told["a"] == [("assign", (0, 1, 2, 3))]
    generation, name = read_membership(first.consumer_group_metadata())
    second = subscribed(kafka, topic, group, told["b"])
    eventually(kafka, lambda: polled(first) and polled(second) and len(held(told["b"])) == 2, 30)
    revoked = next(lanes for what, lanes in told["a"] if what == "revoke")
    assert len(revoked) == 2, "only what moves is revoked"
    assert held(told["b"]) == set(revoked)
    later = read_membership(first.consumer_group_metadata())
    assert (later.member, later.generation > generation) == (name, True)
    second.close()
    eventually(kafka, lambda: polled(first) and len(held(told["a"])) == 4, 30)
    first.close()


def an_assignment_of_nothing_is_told(kafka: Cluster) -> None:
    topic, group = kafka.topic(1), kafka.name()
    told: dict[str, list[Told]] = {"a": [], "b": []}
    first = subscribed(kafka, topic, group, told["a"])
    eventually(kafka, lambda: polled(first) and bool(held(told["a"])))
    second = subscribed(kafka, topic, group, told["b"])
    eventually(kafka, lambda: polled(first) and polled(second) and bool(told["b"]), 30)
    assert told["b"][0] == ("assign", ())
    assert held(told["a"]) == {0}, "nothing moves for it"
    second.close()
    first.close()


def a_newcomer_may_join_again_from_its_callback(kafka: Cluster) -> None:
    topic, group = kafka.topic(4), kafka.name()
    told: dict[str, list[Told]] = {"a": [], "b": []}
    first = subscribed(kafka, topic, group, told["a"])
    eventually(kafka, lambda: polled(first) and bool(held(told["a"])))
    second = subscribed(kafka, topic, group, told["b"], again=True)
    eventually(kafka, lambda: polled(first) and polled(second) and len(held(told["b"])) == 2, 30)
    # A round that is overtaken by the next one goes untold: the first assignment may have lanes.
    assert told["b"][0][0] == "assign"
    assert held(told["a"]) | held(told["b"]) == {0, 1, 2, 3}
    before = read_membership(second.consumer_group_metadata())
    for _ in range(15):
        kafka.sleep(0.1)
        assert polled(first)
        assert polled(second)
    assert read_membership(second.consumer_group_metadata()) == before, "once is enough"
    second.close()
    first.close()


def a_member_that_does_not_poll_is_lost(kafka: Cluster) -> None:
    topic, group = kafka.topic(), kafka.name()
    told: list[Told] = []
    member = subscribed(kafka, topic, group, told)
    eventually(kafka, lambda: polled(member) and bool(held(told)))
    before = read_membership(member.consumer_group_metadata())
    kafka.sleep(9)
    assert told == [("assign", (0,))], "callbacks are called in a poll only"
    assert not read_membership(member.consumer_group_metadata()).valid
    eventually(kafka, lambda: polled(member) and ("lost", (0,)) in told)
    eventually(kafka, lambda: polled(member) and bool(held(told)), 30)
    after = read_membership(member.consumer_group_metadata())
    assert after.member != before.member
    member.close()


def a_late_commit_ends_whatever_is_open(kafka: Cluster) -> None:
    """The abort that is acknowledged then is one of a transaction that AddOffsets has begun."""
    topic, group, name = kafka.topic(), kafka.name(), kafka.name()
    member, producer = member_of(kafka, topic, group), ready(kafka, name)
    write(producer, topic, 1)
    assert kafka.end_late(name, producer, commit=True) == 0
    eventually(kafka, lambda: ends(kafka, topic) == (0, 2, 2))
    generation, member_name = read_membership(member.consumer_group_metadata())
    stale = metadata_of(group, generation + 1, member_name)
    offsets = [TopicPartition(topic, 0, 1)]
    error = error_of(lambda: producer.send_offsets_to_transaction(offsets, stale, 10))
    assert error.code() == KafkaError.ILLEGAL_GENERATION
    producer.abort_transaction(10)
    assert following(kafka, reader(kafka, topic, 0), 2) == [(1, 0), (EOF, 2)], (
        "committed all the same"
    )
    member.close()


def a_late_abort_takes_half_a_transaction(kafka: Cluster) -> None:
    topic, name = kafka.topic(2), kafka.name()
    producer = ready(kafka, name)
    write(producer, topic, 1)
    assert kafka.end_late(name, producer, commit=False) == 0
    eventually(kafka, lambda: ends(kafka, topic) == (0, 2, 2))
    producer.produce(topic, b"2", partition=1)
    assert producer.flush(10) == 0
    producer.commit_transaction(10)
    decided(kafka, topic, 1)
    assert following(kafka, reader(kafka, topic, 0), 1) == [(EOF, 2)]
    assert following(kafka, reader(kafka, topic, 0, lane=1), 2) == [(2, 0), (EOF, 2)]


def nothing_is_added_where_a_late_end_has_been(kafka: Cluster) -> None:
    topic, name = kafka.topic(), kafka.name()
    producer = ready(kafka, name)
    write(producer, topic, 1)
    assert kafka.end_late(name, producer, commit=True) == 0
    eventually(kafka, lambda: ends(kafka, topic) == (0, 2, 2))
    producer.produce(topic, b"2", partition=0)
    assert producer.flush(10) == 0
    error = error_of(lambda: producer.commit_transaction(10))
    assert (error.code(), error.txn_requires_abort()) == (KafkaError.INVALID_TXN_STATE, True)
    error = error_of(lambda: producer.abort_transaction(10))
    assert (error.code(), error.fatal()) == (KafkaError.INVALID_TXN_STATE, True)


def calls_have_their_time(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    assert error_of(lambda: producer.commit_transaction(5)).code() == KafkaError._STATE
    assert error_of(lambda: producer.produce(topic, b"1")).code() == KafkaError._STATE
    producer.begin_transaction()
    assert error_of(producer.begin_transaction).code() == KafkaError._STATE
    producer.commit_transaction(10)
    producer.begin_transaction()
    error = error_of(lambda: producer.produce(topic, b"1" * 2_000_000))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    producer.abort_transaction(10)


PROMISES: Final = (
    *READING,
    a_second_producer_of_a_name_fences_the_first,
    whoever_takes_a_name_is_told_that_a_transaction_is_ending,
    a_fenced_producer_learns_it_in_a_flush,
    offsets_are_taken_from_members_of_this_generation_only,
    empty_metadata_switches_the_check_off,
    offsets_are_unstable_until_they_are_decided,
    offsets_that_were_sent_last_count,
    lanes_move_from_member_to_member,
    an_assignment_of_nothing_is_told,
    a_newcomer_may_join_again_from_its_callback,
    a_member_that_does_not_poll_is_lost,
    a_late_commit_ends_whatever_is_open,
    a_late_abort_takes_half_a_transaction,
    nothing_is_added_where_a_late_end_has_been,
    calls_have_their_time,
)
