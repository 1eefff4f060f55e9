"""The transactional producer: outputs, flush, changelog, flush, offsets, commit; in this order.

Why the changelog comes after the flushed outputs: the client speaks transaction protocol v1, in
which an EndTxn carries no more than producer id and epoch. So:

1. Turn n is committed; the connection breaks before the answer, the client sends EndTxn again.
2. The second copy is delayed; the first one is answered; turn n + 1 begins and writes.
3. The delayed copy arrives and commits what turn n + 1 has written so far.

With this order that half can only be outputs, never a recorded turn whose matches are missing. But
whoever runs the turn again may find other records waiting, and take some of these rows for late:

4. The worker dies; the next owner does not find the turn in the changelog, and runs it again.
5. More of the other side is there by now. A row comes later in the order than it did, and is
   rejected. Its match stays in the output.

So a producer whose connection broke is not used again, acknowledged as the commit may be (`doubt`).
Transactional ids are new for every producer object: a name that is used twice lets two workers
fence each other for ever.

Why the end of a transaction may be left behind: the client's `send_offsets_to_transaction` outlives
the time it is given. A request to the group's coordinator that loses its connection is put back
until a broker can be reached, and nothing looks at its time-out (`rd_kafka_coord_req_fsm`). So:

1. The broker dies while the offsets are on their way: the call does not return.
2. Its worker gives it up (`app.ends`), retires the producer, and takes its lanes over anew.
3. The broker is back, and answers. The call returns, on a thread nobody waits for any more: that
   must not commit. It finds that its producer is not the live one, and says Renew to nobody.
4. Should it have looked just before it was given up: the commit is one that nobody acknowledged.
   The takeover fences it, and finds in the changelog whether it came first.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from confluent_kafka import KafkaException, Message, Producer, TopicPartition

from app.errors import Renew, Stale
from app.kafka.clients import Listener, noting, report
from app.kafka.failures import TROUBLES, error_of, in_transaction, is_stale, of_request
from app.kafka.limits import TRANSACTION_TIMEOUT_MS, Limits
from app.kafka.rejects import Copied, copied_from, record_of
from app.steps import Reached, nobody
from schemas.records import NO_OFFSET, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from app.kafka.rejects import Headers
    from schemas.records import Rejected

_BY_KEY: Final = -1
"""In place of a partition: the partitioner chooses one."""
CALL_TIMEOUT_S: Final = 8.0
"""Budget of one flush, send_offsets or commit; below the transaction timeout."""
ABORT_WITHIN_S: Final = 2.0
"""Budget of an abort, which only spares the next fence half a second."""
ENDS_WITHIN_S: Final = TRANSACTION_TIMEOUT_MS / 1_000
"""Budget of all calls that end a transaction but the abort: the broker aborts it after so long, and
one more call would only keep the worker from its polls."""
CALL_TIMEOUT_MIN_S: Final = 0.5
"""What a call gets that comes last: less would fail at a broker that is merely slow."""
HEADER_WRITER: Final = "writer"
HEADER_KIND: Final = "kind"

Prepared = tuple[str, Producer, Listener]
"""A new producer, with its transactional id and who hears of its troubles."""


class Retired(NamedTuple):
    """A producer that is not used any more, and whether the broker has confirmed its last end."""

    writer: str
    producer: Producer | None
    ended: bool


_log: Final = structlog.get_logger()


class Written(NamedTuple):
    """Where a lane's changelog records of one transaction are: first offset and next offset."""

    first: int
    position: int


@dataclass(frozen=True, slots=True)
class LaneWrite:
    """What one lane puts into a transaction."""

    lane: int
    positions: tuple[int, int]
    changelog: Callable[[], Sequence[bytes]] = tuple
    """Makes the records; asked for them while the outputs are on their way."""
    matches: Sequence[tuple[bytes, bytes | None, int]] = ()
    """(match id, value or None, Kafka timestamp in ms)."""
    rejects: Sequence[Rejected] = ()
    after: int | None = None
    """Where the changelog must end: if somebody has written since, the transaction is aborted."""


@dataclass(slots=True)
class Live:
    """A producer in use."""

    writer: str
    """Its transactional id."""
    producer: Producer
    listener: Listener
    ended: bool = True
    """Whether its last transaction was committed or aborted, and that acknowledged."""


class Begun(NamedTuple):
    """A transaction that is open: its outputs are with the client, its end is still to come."""

    live: Live
    kind: str
    writes: Sequence[LaneWrite]
    records: Mapping[int, Sequence[bytes]]
    """The changelog records of each lane."""


class Topics(NamedTuple):
    """Names of the topics a transaction touches."""

    left: str
    right: str
    output: str
    changelog: str
    rejects: str


class Transactions:
    """One live producer; thrown away after every outcome that nobody acknowledged."""

    def __init__(
        self,
        name: str,
        properties: dict[str, str | int | bool],
        topics: Topics,
        limits: Limits,
        reached: Reached = nobody,
    ) -> None:
        self._reached = reached
        self._name = name
        self._properties = properties
        self._topics = topics
        self._limits = limits
        self._live: Live | None = None
        self.entered_s = 0.0
        """How long it took until the broker had the first records of the last transaction."""

    def prepare(self) -> Prepared:
        """Make a new producer under a new name. Blocks; off the worker's thread.

        Raises Retry where no coordinator answered in time.
        """
        writer, listener = f"{self._name}-{uuid.uuid4()}", Listener()
        properties = {**listener.properties(self._properties), "transactional.id": writer}
        producer = Producer({**properties, "error_cb": report})
        try:
            producer.init_transactions(CALL_TIMEOUT_S)
        except KafkaException as error:
            # Else whoever keeps the exception keeps the client, and its threads: in a long outage
            # one after the other.
            del producer
            raise of_request(error) from error
        return writer, producer, listener

    def install(self, writer: str, producer: Producer, listener: Listener) -> None:
        """Take a prepared producer into use; no commit of it can be on its way."""
        producer.poll(0)
        listener.heard = ""
        self._live = Live(writer, producer, listener)

    def retire(self) -> Retired:
        """Stop using the live producer; returns it, for a thread that may wait for its end."""
        live, self._live = self._live, None
        return (
            Retired("", None, ended=True)
            if live is None
            else Retired(live.writer, live.producer, live.ended)
        )

    @property
    def writer(self) -> str:
        """Transactional id of the live producer; empty while there is none."""
        return self._live.writer if self._live is not None else ""

    @property
    def doubt(self) -> str | None:
        """Why the producer must not begin another transaction, although the last one is committed.

        A copy of what ended it may still be on its way, and would end the next one half-way.
        """
        heard = self._live.listener.heard if self._live is not None else ""
        return f"a second end of the last transaction may come: {heard}" if heard else None

    @property
    def ready(self) -> bool:
        """Whether there is a producer to write with."""
        return self._live is not None

    def begin(self, kind: str, writes: Sequence[LaneWrite]) -> Begun:
        """The first half of a transaction: what the worker's thread has to do for it.

        `kind` is turn, claim or release, readable in a record's headers without decoding it; or
        proof, which writes no record: its offsets alone show whether the group still counts us in.

        Raises Renew where it failed, whatever became of it, Crash where Kafka refuses for good.
        """
        live = self._live
        assert live is not None, "no live producer"
        if self.doubt is not None:
            raise Renew(self.doubt)
        live.ended = False
        try:
            live.producer.begin_transaction()
        except KafkaException as error:
            raise Renew(str(error)) from error
        self._reached(f"{kind}.begun")
        try:
            for write in writes:
                self._outputs(live.producer, write)
        except TROUBLES as error:
            raise self._failure(live, error) from None
        self._reached(f"{kind}.produced")
        records = {write.lane: write.changelog() for write in writes}
        return Begun(live, kind, writes, records)

    def end(self, begun: Begun, metadata: Callable[[], bytes]) -> dict[int, Written]:
        """The second half, which mostly waits for the broker; on any thread, while no poll runs.

        Rebalance callbacks run in a poll only, so `metadata`, which is read in the midst of it, is
        still that of the member whose lanes these are. Returns where each lane's changelog records
        are. Raises as `begin` does, and Renew where its producer was retired meanwhile.
        """
        live, kind, writes, records = begun
        producer = live.producer
        outputs = any(write.matches or write.rejects for write in writes)
        began = time.monotonic()
        until = began + ENDS_WITHIN_S
        try:
            if outputs:
                _flush(producer, until)
                self.entered_s = time.monotonic() - began
            self._passed(live, f"{kind}.flushed")
            written = self._changelog(live, kind, records, until)
            if not outputs:
                self.entered_s = time.monotonic() - began
            self._passed(live, f"{kind}.logged")
            self._expect_end(live, writes, written)
            offsets = [offset for write in writes for offset in self._offsets(write)]
            member = self._membership(live, metadata)
            producer.send_offsets_to_transaction(offsets, member, _left(until))
            self._passed(live, f"{kind}.offsets")
            producer.commit_transaction(_left(until))
            live.ended = True
            self._passed(live, f"{kind}.committed")
            # What the client had to say meanwhile is heard now.
            producer.poll(0)
        except TROUBLES as error:
            raise self._failure(live, error) from None
        return written

    def _passed(self, live: Live, step: str) -> None:
        """Raises Renew where this transaction was given up while a call of it hung."""
        if live is not self._live:
            raise Renew("the transaction was given up")
        self._reached(step)

    def _expect_end(
        self, live: Live, writes: Sequence[LaneWrite], written: Mapping[int, Written]
    ) -> None:
        """Raises Renew where a changelog went on: its leader alone has taken the record."""
        for write in writes:
            if write.after is not None and written[write.lane].first != write.after:
                self._abort(live)
                raise Renew(f"the changelog of lane {write.lane} went on from {write.after}")

    def _failure(self, live: Live, trouble: object) -> Exception:
        """What a call in a transaction has met, as what is to be done about it."""
        if isinstance(trouble, KafkaException) and error_of(trouble).txn_requires_abort():
            self._abort(live)
        failure = in_transaction(trouble)
        if is_stale(trouble) and self._counts_for_nothing(live):
            return Stale(str(failure))
        return failure

    def _counts_for_nothing(self, live: Live) -> bool:
        """Whether all of the last transaction is certainly aborted, see `app.kafka.failures`."""
        with contextlib.suppress(*TROUBLES):
            live.producer.poll(0)
            return live.ended and live is self._live and not live.listener.heard
        return False

    def _membership(self, live: Live, metadata: Callable[[], bytes]) -> bytes:
        """The group metadata of this moment; raises Renew when we are no member."""
        try:
            return metadata()
        except Renew:
            self._abort(live)
            raise

    @staticmethod
    def _abort(live: Live) -> None:
        """Spare the fence an open transaction: ending one takes it half a second.

        Only where the broker has just answered. Whatever comes of it, the producer is not used
        again; if it is acknowledged, its name need not be fenced.
        """
        with contextlib.suppress(*TROUBLES):
            live.producer.abort_transaction(ABORT_WITHIN_S)
            live.ended = True

    def _outputs(self, producer: Producer, write: LaneWrite) -> None:
        """Hand a lane's matches and rejects to the client."""
        self._matches(producer, write.matches)
        for reject in write.rejects:
            self._reject(producer, write.lane, reject)

    def _changelog(
        self, live: Live, kind: str, records: Mapping[int, Sequence[bytes]], until: float
    ) -> dict[int, Written]:
        """The changelog records of every lane; when it returns the broker has them."""
        headers: Headers = [(HEADER_WRITER, live.writer.encode()), (HEADER_KIND, kind.encode())]
        delivered: dict[int, list[int]] = {lane: [] for lane in records}
        for lane, values in records.items():
            for value in values:
                live.producer.produce(
                    self._topics.changelog,
                    value,
                    partition=lane,
                    headers=headers,
                    on_delivery=noting(delivered[lane]),
                )
        _flush(live.producer, until)
        for lane, values in records.items():
            if len(delivered[lane]) != len(values):
                raise Renew(f"changelog records of lane {lane} were not delivered")
        return {
            lane: Written(offsets[0], offsets[-1] + 1)
            for lane, offsets in delivered.items()
            if offsets
        }

    def _matches(
        self, producer: Producer, matches: Iterable[tuple[bytes, bytes | None, int]]
    ) -> None:
        """The hot loop: one produce a match, without a delivery report each.

        A record that fails makes the commit fail. To name the arguments takes the client a fifth
        of the call, so they stand in its own order.
        """
        produce, topic = producer.produce, self._topics.output
        for key, value, timestamp in matches:
            try:
                produce(topic, value, key, _BY_KEY, None, None, timestamp)
            except BufferError:
                # The local queue is full: let some of it leave.
                producer.poll(0.1)
                produce(topic, value, key, _BY_KEY, None, None, timestamp)

    def _reject(self, producer: Producer, lane: int, reject: Rejected) -> None:
        source = reject.source
        if isinstance(source, Side):
            # A row that nothing matches: what it came from is long gone.
            copied = Copied((self._topics[source], lane, NO_OFFSET), None, None, [])
        else:
            assert isinstance(source, Message), "a reject needs its message"
            copied = copied_from(source)
        key, value, headers = record_of(reject, copied, self._limits.rejects)
        producer.produce(self._topics.rejects, value, key, partition=lane, headers=headers)

    def _offsets(self, write: LaneWrite) -> list[TopicPartition]:
        return [
            TopicPartition(topic, write.lane, position)
            for topic, position in zip(
                (self._topics.left, self._topics.right), write.positions, strict=True
            )
        ]


def _left(until: float) -> float:
    """Budget of the next call of a transaction that has to be over by then, in seconds."""
    return max(CALL_TIMEOUT_MIN_S, min(CALL_TIMEOUT_S, until - time.monotonic()))


def _flush(producer: Producer, until: float) -> None:
    """Wait until the broker has everything; raises Renew if it has not within the budget."""
    if producer.flush(_left(until)) > 0:
        raise Renew("the broker did not take all records in time")
