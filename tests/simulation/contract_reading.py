"""What the simulated Kafka promises to readers: positions, ends, pauses, seeks. See `contract`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.simulation.contract_words import (
    ABOVE,
    EOF,
    commit,
    decided,
    delete,
    ends,
    error_of,
    eventually,
    following,
    high_of,
    nothing,
    reader,
    ready,
    write,
)

if TYPE_CHECKING:
    from tests.simulation.contract_words import Cluster, Seen

ATTEMPTS: Final = 6
OUTDATED_S: Final = 1.2
"""After which a question has been put again, and answered."""


def transactions_show_when_they_are_committed(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2)
    uncommitted = reader(kafka, topic, 0, "read_uncommitted")
    committed = reader(kafka, topic, 0)
    assert following(kafka, uncommitted, 3) == [(1, 0), (2, 1), (EOF, 2)]
    assert following(kafka, committed, 1) == [(EOF, 0)]
    commit(kafka, producer, topic)
    assert following(kafka, committed, 3) == [(1, 0), (2, 1), (EOF, 3)], (
        "the marker takes an offset"
    )
    write(producer, topic, 3)
    producer.abort_transaction(10)
    assert following(kafka, committed, 1) == [(EOF, 5)]


def ends_differ_while_a_transaction_is_open(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1)
    producer.commit_transaction(10)
    eventually(kafka, lambda: ends(kafka, topic) == (0, 2, 2))
    write(producer, topic, 2, 3)
    assert ends(kafka, topic) == (0, 2, 4)
    consumer = reader(kafka, topic, 0)
    assert following(kafka, consumer, 2) == [(1, 0), (EOF, 2)]
    place = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(place, 5)[1] == 2, "the last stable offset, if it asks"
    assert consumer.get_watermark_offsets(place, cached=True)[1] == 4
    producer.abort_transaction(10)
    eventually(kafka, lambda: ends(kafka, topic) == (0, 5, 5))


def an_end_is_not_told_to_who_is_beyond_it(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2, 3)
    above = reader(kafka, topic, 2)
    assert nothing(above)
    commit(kafka, producer, topic)
    assert following(kafka, above, 2) == [(3, 2), (EOF, 4)]


def a_seek_reads_again_and_a_pause_throws_away(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2, 3)
    commit(kafka, producer, topic)
    place = TopicPartition(topic, 0)
    consumer = reader(kafka, topic, 0)
    everything: list[Seen] = [(1, 0), (2, 1), (3, 2), (EOF, 4)]
    assert following(kafka, consumer, 4) == everything
    consumer.seek(TopicPartition(topic, 0, 1))
    assert following(kafka, consumer, 3) == everything[1:]
    consumer.pause([place])
    consumer.seek(TopicPartition(topic, 0, 2))
    assert nothing(consumer)
    consumer.resume([place])
    consumer.seek(TopicPartition(topic, 0, 2))
    assert following(kafka, consumer, 2) == everything[2:]
    consumer.pause([place])
    consumer.resume([place])
    assert following(kafka, consumer, 1) == everything[3:], "an end is told again"


def a_pause_outlives_the_assignment(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1)
    commit(kafka, producer, topic)
    place = TopicPartition(topic, 0, 0)
    consumer = reader(kafka, topic, 0)
    assert following(kafka, consumer, 2) == [(1, 0), (EOF, 2)]
    consumer.pause([place])
    consumer.incremental_unassign([place])
    consumer.incremental_assign([place])
    assert nothing(consumer)
    consumer.resume([place])
    assert following(kafka, consumer, 2) == [(1, 0), (EOF, 2)]


def the_beginning_and_the_end_are_found(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2)
    commit(kafka, producer, topic)
    delete(kafka, topic, 1)
    assert following(kafka, reader(kafka, topic, OFFSET_BEGINNING), 2) == [(2, 1), (EOF, 3)]
    write(producer, topic, 3)
    uncommitted = reader(kafka, topic, OFFSET_END, "read_uncommitted")
    assert following(kafka, uncommitted, 1) == [(EOF, 4)]
    committed = reader(kafka, topic, OFFSET_END)
    assert following(kafka, committed, 1) == [(EOF, 3)], "the last stable offset"
    commit(kafka, producer, topic)
    assert following(kafka, committed, 2) == [(3, 3), (EOF, 5)]


def a_seek_is_undone_by_an_answer_that_it_has_outdated(kafka: Cluster) -> None:
    """So what lies before the end is not read at all, and what follows the beginning once more.

    The answer may come before the seek does, hence the attempts; the beginning is not asked for
    once it is known, so each of them has a partition of its own.
    """
    topic, producer = kafka.topic(ATTEMPTS), ready(kafka)
    producer.begin_transaction()
    for lane in range(ATTEMPTS):
        for value in (1, 2, 3):
            producer.produce(topic, b"%d" % value, partition=lane)
    producer.commit_transaction(10)
    for lane in range(ATTEMPTS):
        decided(kafka, topic, lane)
    consumer = reader(kafka, topic, 0)
    whole: list[Seen] = [(1, 0), (2, 1), (3, 2), (EOF, 4)]
    assert following(kafka, consumer, 4) == whole, "it knows the leader now"
    assert any(beginning_undoes_a_seek(kafka, consumer, topic, lane) for lane in range(1, ATTEMPTS))
    assert any(end_undoes_a_seek(kafka, consumer, topic) for _ in range(ATTEMPTS))


def beginning_undoes_a_seek(kafka: Cluster, consumer: Any, topic: str, lane: int) -> bool:
    consumer.incremental_assign([TopicPartition(topic, lane, OFFSET_BEGINNING)])
    consumer.seek(TopicPartition(topic, lane, 1))
    seen = following(kafka, consumer, 3)
    kafka.sleep(OUTDATED_S)
    seen += following(kafka, consumer, 0)
    assert seen[0] == (2, 1)
    return seen[-4:] == [(1, 0), (2, 1), (3, 2), (EOF, 4)]


def end_undoes_a_seek(kafka: Cluster, consumer: Any, topic: str) -> bool:
    place = TopicPartition(topic, 0)
    consumer.incremental_unassign([place])
    consumer.incremental_assign([TopicPartition(topic, 0, OFFSET_END)])
    eventually(kafka, lambda: sought(consumer, TopicPartition(topic, 0, 1)))
    consumer.pause([place])
    kafka.sleep(OUTDATED_S)
    consumer.resume([place])
    return following(kafka, consumer, 1) == [(EOF, 4)]


def sought(consumer: Any, place: TopicPartition) -> bool:
    """Whether the seek was taken: not while an earlier assignment is still coming to its end."""
    try:
        consumer.seek(place)
    except KafkaException:
        return False
    return True


def assignments_grow_and_shrink(kafka: Cluster) -> None:
    topic, producer = kafka.topic(2), ready(kafka)
    producer.begin_transaction()
    for lane in range(2):
        producer.produce(topic, b"%d" % lane, partition=lane)
    producer.commit_transaction(10)
    for lane in range(2):
        decided(kafka, topic, lane)
    zero, one = (TopicPartition(topic, lane, 0) for lane in range(2))
    consumer = kafka.consumer()
    consumer.incremental_assign([zero])
    assert error_of(lambda: consumer.incremental_assign([zero])).code() == KafkaError._CONFLICT
    assert following(kafka, consumer, 2) == [(0, 0), (EOF, 2)]
    consumer.incremental_assign([one])
    assert following(kafka, consumer, 2) == [(1, 0), (EOF, 2)]
    consumer.incremental_unassign([zero])
    again = error_of(lambda: consumer.incremental_unassign([zero]))
    assert again.code() == KafkaError._INVALID_ARG
    assert error_of(lambda: consumer.seek(zero)).code() == KafkaError._STATE
    consumer.pause([zero])  # What is not assigned is passed over.
    consumer.seek(one)
    assert following(kafka, consumer, 2) == [(1, 0), (EOF, 2)]


def what_was_deleted_is_below_the_log(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2, 3)
    commit(kafka, producer, topic)
    assert delete(kafka, topic, 2).low_watermark == 2
    assert delete(kafka, topic, 1).low_watermark == 2
    assert error_of(lambda: delete(kafka, topic, 9)).code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert ends(kafka, topic) == (2, 4, 4)
    assert following(kafka, reader(kafka, topic, 2), 2) == [(3, 2), (EOF, 4)]
    assert following(kafka, reader(kafka, topic, 1), 1) == [(ABOVE, 1)]
    refused, place = reader(kafka, topic, 9), TopicPartition(topic, 0, 2)
    assert following(kafka, refused, 1) == [(ABOVE, 9)]
    assert error_of(lambda: refused.seek(place)).code() == KafkaError._STATE
    refused.incremental_unassign([place])
    refused.incremental_assign([place])
    assert following(kafka, refused, 2) == [(3, 2), (EOF, 4)]


def the_last_stable_offset_may_be_below_the_beginning(kafka: Cluster) -> None:
    topic, late, other = kafka.topic(), ready(kafka), ready(kafka)
    write(late, topic, 1)
    write(other, topic, 2, 3)
    other.commit_transaction(10)
    eventually(kafka, lambda: ends(kafka, topic) == (0, 0, 4))
    delete(kafka, topic, 2)
    start, stable, high = ends(kafka, topic)
    assert (start, high) == (2, 4)
    assert stable < start, "the first transaction is still open"
    assert following(kafka, reader(kafka, topic, 2, "read_uncommitted"), 2) == [(3, 2), (EOF, 4)]
    late.abort_transaction(10)
    eventually(kafka, lambda: ends(kafka, topic) == (2, 5, 5))


def an_end_is_none_where_the_connection_breaks(kafka: Cluster) -> None:
    topic, producer = kafka.topic(), ready(kafka)
    write(producer, topic, 1, 2)
    commit(kafka, producer, topic)
    assert ends(kafka, topic) == (0, 3, 3)
    with kafka.breaking():
        assert high_of(kafka, topic) == OFFSET_INVALID, "and no error"
    kafka.admin.list_topics(timeout=10)  # The real client may need that to find the leader.
    assert ends(kafka, topic) == (0, 3, 3)


READING: Final = (
    transactions_show_when_they_are_committed,
    ends_differ_while_a_transaction_is_open,
    an_end_is_not_told_to_who_is_beyond_it,
    a_seek_reads_again_and_a_pause_throws_away,
    a_pause_outlives_the_assignment,
    the_beginning_and_the_end_are_found,
    a_seek_is_undone_by_an_answer_that_it_has_outdated,
    assignments_grow_and_shrink,
    what_was_deleted_is_below_the_log,
    the_last_stable_offset_may_be_below_the_beginning,
)
BREAKING: Final = (an_end_is_none_where_the_connection_breaks,)
"""Promises of connections that break."""
