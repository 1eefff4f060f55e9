"""The vendor's Producer as the worker uses it: transactional, with a sender in the background.

What librdkafka does, as seen on a real broker: records leave partition by partition whenever the
sender likes; EndTxn is sent again when the connection breaks; an error that only the abort can
heal stays until the abort; a fatal one stays for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from app.kafka.membership import read_membership
from tests.simulation.broker import Sender
from tests.simulation.client import CONCURRENT, Client, failure, timed_out, wrong_state
from tests.simulation.coordinator import OFFSETS
from tests.simulation.log import Entry
from tests.simulation.network import RETRY_S, Flight, Refused, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulation.coordinator import Place

T = TypeVar("T")
Report = Any
"""A delivery callback."""
_FENCED_BY: Final = frozenset({KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
_FATAL: Final = frozenset({KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING})
_AGAIN: Final = CONCURRENT
LATE_MOMENTS: Final = (
    "produce answered",
    "produce answered",
    "add_partitions",
    "turn.flushed",
    "turn.logged",
    "turn.offsets",
    "release.logged",
)
"""Where in a later transaction of the same producer it does most harm."""
INIT_AGAIN_S: Final = 0.1
"""After how long a producer asks again for a name whose transaction is ending; really 0.5 s."""
LATE_END_S: Final = 4.0
"""How late the first copy of an EndTxn may come."""


@dataclass(slots=True)
class Queued:
    """A record that has not been acknowledged."""

    entry: Entry
    report: Report
    since: float


class Producer(Client):
    """A producer, transactional if it has a transactional id."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._name: str | None = self.config.get("transactional.id")
        self._state = "Init" if self._name else "InTransaction"
        self._error: KafkaException | None = None
        self._sender = Sender()
        self._queue: dict[Place, list[Queued]] = {}
        self._reports: list[tuple[Report, KafkaError | None, Message]] = []
        self._added: set[Place] = set()
        self._sending = False
        self._unraised: KafkaException | None = None
        """A fatal error that no call has told yet."""
        self._lines: list[str] = []
        """Of its log; a poll or a flush hands them over."""

    # --- the vendor's surface -------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1) -> None:
        """Get a producer id, ending what the name has open: if time is up before, it says so."""
        name = self._name
        assert name is not None, "not a transactional producer"
        limit = self.ms("transaction.timeout.ms", 60_000)
        self.broker.on_producer(name, str(self.config.get("client.id", "")))
        deadline = self.deadline(timeout)
        while True:
            try:
                producer, epoch = self._call(
                    "init_transactions",
                    lambda: self.broker.coordinator.init(name, limit),
                    deadline,
                    _AGAIN - {KafkaError.CONCURRENT_TRANSACTIONS},
                )
                break
            except KafkaException as error:
                if error.args[0].code() != KafkaError.CONCURRENT_TRANSACTIONS:
                    raise
                self.world.sleep(min(INIT_AGAIN_S, max(deadline - self.world.now, 0.0)))
                if self.world.now >= deadline:
                    raise
        self._sender, self._state, self._error = Sender(producer, epoch), "Ready", None

    def begin_transaction(self) -> None:
        """Local only."""
        self._expect("Ready")
        self._state, self._added = "InTransaction", set()

    def produce(  # noqa: PLR0917 - the vendor's signature
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Report = None,
        on_delivery: Report = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Queue a record."""
        if self._state == "Fatal":
            raise failure(KafkaError._FATAL, "Unable to produce message: Local: Fatal error")
        if self._state != "InTransaction":
            raise failure(KafkaError._STATE, "Unable to produce message: Local: Erroneous state")
        if len(value or b"") + len(key or b"") > int(self.config.get("message.max.bytes", 10**6)):
            raise failure(KafkaError.MSG_SIZE_TOO_LARGE)
        if partition < 0:
            partition = self.broker.partition_of(topic, key)
        fields = [(name, _bytes(text)) for name, text in headers or []]
        now = timestamp or self.world.wall_ms()
        queued = Queued(Entry(key, value, fields, now), on_delivery, self.world.now)
        self._queue.setdefault((topic, partition), []).append(queued)
        if not self._sending:
            self._sending = True
            self.process.spawn("sender", self._send, self.world.latency())

    def poll(self, timeout: float = 0) -> int:
        """Call what is to be called."""
        self.world.step("poll")
        return self._serve()

    def flush(self, timeout: float = -1) -> int:
        """Wait until everything was acknowledged or has failed; returns what is left."""
        deadline = self.deadline(timeout)
        self.world.step("flush")
        while self._queue and self.world.now < deadline:
            self._serve()
            self.world.sleep(0.002 + 0.004 * self.world.random.random())
        self._serve()
        return sum(map(len, self._queue.values()))

    def __len__(self) -> int:
        return sum(map(len, self._queue.values()))

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        """Add the group's offsets to the transaction. Does not flush."""
        self._expect("InTransaction")
        deadline = self.deadline(timeout)
        generation, member = read_membership(group_metadata)
        assert isinstance(group_metadata, bytes), "metadata is bytes"
        group = self.broker.group(group_metadata[11:].split(b"\0")[0].decode())
        offsets = {(one.topic, one.partition): one.offset for one in positions}
        self._add([(OFFSETS + group.name, 0)], deadline)
        weather = self.network.weather
        while weather.away_until > self.world.now:
            # Whatever time it was given: see `app.kafka.transactions`.
            self.world.sleep(weather.away_until - self.world.now + 0.001)
        self._call(
            "send_offsets",
            lambda: self.broker.commit_offsets(self._sender, group, (member, generation), offsets),
            deadline,
        )

    def commit_transaction(self, timeout: float = -1) -> None:
        """Flush, then EndTxn."""
        self._expect("InTransaction")
        deadline = self.deadline(timeout)
        while self._queue:
            if self.world.now >= deadline:
                raise timed_out("commit_transaction")
            self.world.sleep(0.003)
        self._expect("InTransaction")
        self._end(deadline, commit=True)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Drop what is queued, then EndTxn."""
        self._expect("InTransaction", "Abortable")
        deadline = self.deadline(timeout)
        self._fail_queued(KafkaError._PURGE_QUEUE)
        while self._sending and self.world.now < deadline:
            self.world.sleep(0.003)
        self._expect("InTransaction", "Abortable")
        self._end(deadline, commit=False)

    # --- the sender -----------------------------------------------------------------------------

    def _send(self) -> None:
        """The background thread: adds partitions, then sends records, in no order among them."""
        try:
            while self._queue and self._state == "InTransaction":
                self._send_some()
        finally:
            self._sending = False

    def _send_some(self) -> None:
        random = self.world.random
        new = [place for place in self._queue if place not in self._added]
        oldest = min(queued[0].since for queued in self._queue.values())
        deadline = oldest + min(
            self.ms("message.timeout.ms", 300_000), self.ms("transaction.timeout.ms", 60_000)
        )
        try:
            if new and self._name:
                self._add(new, deadline)
            if not self._queue:
                return  # Purged meanwhile.
            place = random.choice(list(self._queue))
            queued = self._queue[place]
            batch = queued[: random.randint(1, len(queued))]
            entries = [one.entry for one in batch]
            # The broker knows a batch that is sent again by its sequence number.
            sent: list[int] = []

            def produce() -> int:
                if not sent:
                    sent.append(self.broker.produce(self._sender, place, entries))
                return sent[0]

            first = self.network.ask("produce", produce, deadline, _AGAIN, self._note_break)
        except Refused as refused:
            self._refused(refused, f"ProduceRequest failed: {refused.code}")
            self._fail_queued(refused.code)
        except (TimedOut, KafkaException):
            if self._state == "InTransaction":
                self._state = "Abortable"
                self._error = failure(KafkaError._MSG_TIMED_OUT, "a record timed out", abort=True)
            self._fail_queued(KafkaError._MSG_TIMED_OUT)
        else:
            self._delivered(place, batch, first)

    def _delivered(self, place: Place, batch: list[Queued], first: int) -> None:
        queued = self._queue.get(place, [])
        if queued[:1] != batch[:1]:
            return  # Purged meanwhile, and reported as failed.
        left = queued[len(batch) :]
        if left:
            self._queue[place] = left
        else:
            self._queue.pop(place, None)
        for number, one in enumerate(batch):
            if one.report is not None:
                message = Message(*place, first + number, one.entry.key, one.entry.value)
                self._reports.append((one.report, None, message))

    def _fail_queued(self, code: int) -> None:
        for place, queued in self._queue.items():
            for one in queued:
                if one.report is not None:
                    message = Message(*place, key=one.entry.key, value=one.entry.value)
                    self._reports.append((one.report, KafkaError(code), message))
        self._queue.clear()

    def _serve(self) -> int:
        """The log, delivery reports, and the fatal error that the vendor raises out of them."""
        lines, self._lines = self._lines, []
        for line in lines:
            self.config["logger"].log(logging.INFO, "%s [%s] %s", "FAIL", self._name, line)
        reports, self._reports = self._reports, []
        unraised, self._unraised = self._unraised, None
        if unraised is not None:
            if reports:
                raise SystemError("a delivery report was called with an exception set")
            # A line of the log that comes after it leaves the bare error, which is no exception.
            raise unraised.args[0] if lines else unraised
        for report, error, message in reports:
            report(error, message)
        return len(reports)

    # --- requests -------------------------------------------------------------------------------

    def _add(self, places: list[Place], deadline: float) -> None:
        if all(place in self._added for place in places):
            return
        name = self._name
        assert name is not None, "not a transactional producer"
        new = [place for place in places if place not in self._added]
        self._added.update(new)
        sender = self._sender
        self._call(
            "add_partitions",
            lambda: self.broker.coordinator.add(name, sender.producer, sender.epoch, new),
            deadline,
        )

    def _call(
        self,
        label: str,
        request: Callable[[], T],
        deadline: float,
        again: frozenset[int] = _AGAIN,
    ) -> T:
        try:
            return self.network.ask(label, request, deadline, again, self._note_break)
        except Refused as refused:
            raise self._refused(refused, f"{label} failed: {refused.code}") from None
        except TimedOut:
            raise timed_out(label) from None

    def _refused(self, refused: Refused, text: str) -> KafkaException:
        """What the client makes of a refusal; most of it stays."""
        if refused.code in _FENCED_BY:
            self._error = failure(KafkaError._FENCED, text, fatal=True)
        elif refused.code in _FATAL and not text.startswith("ProduceRequest"):
            self._error = failure(refused.code, text, fatal=True)
        else:
            self._state = "Abortable"
            self._error = failure(refused.code, text, abort=True)
            return self._error
        self._state, self._unraised = "Fatal", self._error
        return self._error

    def _end(self, deadline: float, *, commit: bool) -> None:
        """EndTxn, again and again until it is answered; the first copy may be late."""
        name, sender, coordinator = self._name, self._sender, self.broker.coordinator
        assert name is not None, "not a transactional producer"
        label = "commit" if commit else "abort"

        def end() -> None:
            coordinator.end(name, sender.producer, sender.epoch, commit=commit)

        if self._added:
            self._mishap(label, end, deadline)
            try:
                self._call(label, end, deadline)
            except KafkaException:
                self._unraised = None
                raise
        self._state, self._error, self._added = "Ready", None, set()

    def _mishap(self, label: str, end: Callable[[], None], deadline: float) -> None:
        """What else can happen to an EndTxn: a late copy of it, and an outcome nobody learns."""
        weather, world = self.network.weather, self.world
        if weather.late_end and world.random.random() < weather.late_end:
            self._be_late(label, end)
            unknown = world.random.random() < 0.1
        elif unknown := bool(weather.lose_end) and world.random.random() < weather.lose_end:
            world.note(f"{self.process.name}: {label}: nobody learns what became of it")
            if world.random.random() < 0.5:
                Flight(end).land()
        if unknown:
            world.sleep(max(0.0, deadline - world.now))
            raise timed_out(label)

    def _be_late(self, label: str, end: Callable[[], None]) -> None:
        """The connection breaks; what was sent on it arrives some time later."""
        world, network, name = self.world, self.network, self.process.name
        flight = Flight(end)
        network.late += 1

        def arrive() -> None:
            if not flight.landed:
                network.late -= 1
                flight.land()
                world.note(f"network: late {label} of {self._name}: {flight.outcome()}")
                if flight.outcome() == "done":
                    network.on_late_end(self.process)

        self._note_break()
        world.note(f"{name}: {label}: the connection breaks, a copy is on its way")
        world.at(world.random.random() ** 3 * LATE_END_S, arrive)
        if world.random.random() < 0.7:
            self.process.traps.append((world.random.choice(LATE_MOMENTS), arrive))
        world.sleep(RETRY_S)

    def _note_break(self) -> None:
        self._lines.append("127.0.0.1:9092: Disconnected (after 7ms in state UP)")

    def _expect(self, *states: str) -> None:
        if self._state == "Fatal" or (self._state == "Abortable" and "Abortable" not in states):
            self._unraised = None
            assert self._error is not None, "an error has a reason"
            raise self._error
        if self._state not in states:
            raise wrong_state(self._state)


def _bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value  # type: ignore[return-value]  # bytes
