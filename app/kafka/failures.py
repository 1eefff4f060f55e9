"""One classifier for the client's errors, by the answer they ask for; nothing above reads a code.

A transactional call that failed is answered with Renew, whatever librdkafka says of it: that the
producer is fenced, that nobody knows (a time-out, a lost connection), or that an abort will do. One
is different: a stale generation is common, healthy members get it whenever the group moves on at
the wrong moment. It is answered with Stale, but only where the abort was acknowledged *and* the
producer has never lost a connection. For an acknowledged abort alone does not say that nothing
counts:

1. Turn n is committed; the connection breaks, the client sends EndTxn again. One copy is delayed.
2. Turn n + 1 writes its outputs and its changelog record. The delayed copy arrives, commits them.
3. The offsets of turn n + 1 are refused. By being sent they have begun a new, empty transaction in
   the coordinator's eyes; it is that one which is aborted, and acknowledged.
4. Run again, turn n + 1 stands in the changelog twice.

A delayed EndTxn of an abort is as bad: it takes away the outputs of the next transaction of that
producer, whose changelog record is then committed. Both need an EndTxn that was sent twice, which
the client does only where a connection broke or a request timed out, and that is heard of
(`Transactions.doubt`).
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from app.errors import Crash, Fenced, Renew, Response, Retry, SpanjoinError, UsageError

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


_RIGHTS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "see the rights on topics in the README",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the job needs Read on the group of its name",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the job needs Write on transactional ids that begin with its name and a dash"
    ),
}
_WRONG_SETTINGS: Final = {
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "session.timeout.ms in [kafka.consumer] is outside what the broker allows "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms): change it"
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms in [kafka.producer] is more than the broker allows "
        "(transaction.max.timeout.ms): lower it"
    ),
}
"""What the broker says to settings that it will never take."""


TROUBLES: Final[tuple[type[BaseException], ...]] = (
    KafkaException,
    KafkaError,  # type: ignore[assignment] # Not by its bases, but Python can catch it.
    BufferError,
    SystemError,
)
"""What a call of the client may raise that runs callbacks.

1. The client learns that it is fenced, and sets the exception that its call is about to raise.
2. Before the call returns there is something else to tell: a delivery report, a line of its log.
   The callback is called on top of the exception, and fails for it.
3. What the call raises in the end is SystemError, or the bare error without its exception."""


def error_of(exception: KafkaException | KafkaError) -> KafkaError:
    """The error inside the client's exception."""
    if isinstance(exception, KafkaError):
        return exception
    error = exception.args[0]
    assert isinstance(error, KafkaError), f"not a client error: {error!r}"
    return error


def refusal(error: KafkaError) -> str:
    """What is said of an error that needs a person, with the right that is missing."""
    hint = _RIGHTS.get(error.code())
    return f"Kafka refuses: {error.str().rstrip('.')}" + (f": {hint}" if hint else "")


def needs_a_person(error: KafkaError) -> bool:
    """Whether asking again will not help."""
    return error.code() in _NEEDS_A_PERSON


def in_transaction(trouble: object) -> Response | SpanjoinError:
    """The answer to a failure between begin and commit, one of `TROUBLES`."""
    if not isinstance(trouble, KafkaException | KafkaError):
        return Renew(str(trouble))
    error = error_of(trouble)
    if error.code() in _NEEDS_A_PERSON:
        return Crash(refusal(error))
    return Renew(error.str())


def is_stale(trouble: object) -> bool:
    """Whether the group's coordinator refused the offsets, as its members have moved on."""
    return (
        isinstance(trouble, KafkaException)
        and error_of(trouble).code() == KafkaError.ILLEGAL_GENERATION
    )


def of_consumer(error: KafkaError) -> SpanjoinError | None:
    """The answer to an error event of a consumer; None: the client mends it by itself."""
    if error.code() in _WRONG_SETTINGS:
        return UsageError(_WRONG_SETTINGS[error.code()])
    if error.code() in _NEEDS_A_PERSON:
        return Crash(refusal(error))
    if error.fatal():
        return Fenced(f"the consumer cannot go on: {error.str()}")
    return None


def of_request(exception: KafkaException) -> Response | SpanjoinError:
    """The answer to a failed question to the broker: most pass by themselves."""
    error = error_of(exception)
    if error.code() in _WRONG_SETTINGS:
        return UsageError(_WRONG_SETTINGS[error.code()])
    if error.code() in _NEEDS_A_PERSON:
        return Crash(refusal(error))
    return Retry(error.str())
