"""One classifier for the client's errors, by the answer they ask for; nothing above reads a code.

What librdkafka tells about a failed transactional call, and what it means here:

    txn_requires_abort   the transaction cannot commit. Once the abort is acknowledged it is as if
                         it had never been: Abort. (Stale generation is the common one; a healthy
                         member gets it whenever the group moved on in between.)
    fatal, _FENCED       the producer is finished, and whether its last transaction counts is known
                         to the changelog alone: Renew.
    anything else        time-outs and lost connections during commit or abort: as unknown: Renew.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from app.errors import Abort, Crash, Fenced, Renew, Response, Retry, SpanjoinError

_NEEDS_A_PERSON: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - the client's public name for it
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    }
)


def error_of(exception: KafkaException) -> KafkaError:
    """The error inside the client's exception."""
    error = exception.args[0]
    assert isinstance(error, KafkaError), f"not a client error: {error!r}"
    return error


def in_transaction(exception: KafkaException) -> Response | SpanjoinError:
    """The answer to a failure between begin and commit."""
    error = error_of(exception)
    if error.code() in _NEEDS_A_PERSON:
        return Crash(f"Kafka refuses: {error.str()}")
    if error.txn_requires_abort():
        return Abort(error.str())
    return Renew(error.str())


def of_consumer(error: KafkaError) -> SpanjoinError | None:
    """The answer to an error event of a consumer; None: the client mends it by itself."""
    if error.code() in _NEEDS_A_PERSON:
        return Crash(f"Kafka refuses: {error.str()}")
    if error.fatal():
        return Fenced(f"the consumer cannot go on: {error.str()}")
    return None


def of_request(exception: KafkaException) -> Response | SpanjoinError:
    """The answer to a failed question to the broker: most pass by themselves."""
    error = error_of(exception)
    if error.code() in _NEEDS_A_PERSON:
        return Crash(f"Kafka refuses: {error.str()}")
    return Retry(error.str())
