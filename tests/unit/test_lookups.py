"""Who asks the Schema Registry, when, and who waits: with one that is made up."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, cast

import pytest

import app.lookups
import schemas.registry_codec
from app.errors import Retry, Unreachable, UsageError
from app.lookups import ABSENT_FOR_S, PAUSE_S, WAIT_S, Answered, Lookups, answers_to
from schemas.codec import Unresolved
from schemas.match_schema import match_schema
from schemas.records import Fault, JoinType, Side
from schemas.registry_codec import Absent, RegistryCodec
from tests.unit.test_registry_codec import NEW, NEW_VALUE, OLD, OLD_VALUE, POINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.match_schema import Json


class Registry:
    """Has two schemas; `failure` is raised instead of an answer."""

    address = "somewhere"
    join = JoinType.INNER

    def __init__(self) -> None:
        self.schemas = {1: OLD, 2**31 - 1: NEW}
        self.matches: list[Json] = []
        self.failure: Exception | None = None
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure

    def by_id(self, schema_id: int) -> Json | Absent:
        self._ask()
        return self.schemas.get(schema_id, Absent(f"schema {schema_id} is nowhere"))

    def newest(self, side: Side) -> Json:
        self._ask()
        return [OLD, NEW][side]

    def writer(self, side: Side) -> tuple[int, Json]:
        self._ask()
        return [(1, OLD), (2**31 - 1, NEW)][side]

    def register_match(self, schema: Json) -> int:
        self._ask()
        self.matches.append(schema)
        self.schemas[100] = schema
        return 100


class Threads(Executor):
    """A helper thread that runs what it was given when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, call: Any, /, *arguments: Any, **_named: Any) -> Future[Any]:
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*arguments))
            except Exception as error:  # noqa: BLE001 - for whoever asks the future
                answer.set_exception(error)

        self.waiting.append(run)
        return answer

    def run(self) -> None:
        for one in self.waiting:
            one()
        self.waiting.clear()


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(app.lookups, "time", clock)
    return clock


class Worker:
    def __init__(self) -> None:
        self.codec, self.registry, self.threads = (
            RegistryCodec((POINT, POINT)), Registry(), Threads(),
        )  # fmt: skip
        self.lookups = Lookups(self.codec, self.registry, self.threads)

    def decode(self, *values: bytes) -> bool:
        """Whether nothing had to be asked."""
        try:
            self.codec.decode_batch(Side.LEFT, values)
        except Unresolved as unresolved:
            self.lookups.ask(unresolved)
            return False
        return True

    def trouble(self) -> str | None:
        return self.lookups.trouble

    def rounds(self, count: int = 2) -> list[bool]:
        found = []
        for _ in range(count):
            found.append(self.lookups.step())
            self.threads.run()
        return found


def test_a_worker_asks_on_another_thread(clock: Clock) -> None:
    worker = Worker()
    assert worker.rounds() == [False, False]
    assert not worker.decode(OLD_VALUE, NEW_VALUE)
    assert not worker.lookups.step()
    assert not worker.lookups.step()
    assert worker.registry.asked == 0
    worker.threads.run()
    assert worker.lookups.step()
    assert worker.decode(OLD_VALUE, NEW_VALUE)
    assert worker.registry.asked == 2
    assert worker.rounds() == [False, False]


def test_a_registry_that_is_away_is_asked_again(clock: Clock) -> None:
    worker = Worker()
    worker.registry.failure = Retry("it is away")
    worker.decode(OLD_VALUE)
    assert worker.rounds(5) == [False] * 5
    assert worker.trouble() == "it is away"
    assert worker.registry.asked == 1
    clock.now += PAUSE_S
    worker.rounds(3)
    assert worker.registry.asked == 2
    worker.registry.failure = None
    clock.now += PAUSE_S
    assert worker.rounds() == [False, True]
    assert worker.trouble() is None
    assert worker.decode(OLD_VALUE)


def test_what_needs_a_person_ends_the_worker(clock: Clock) -> None:
    worker = Worker()
    worker.registry.failure = UsageError("refused")
    worker.decode(OLD_VALUE)
    with pytest.raises(UsageError, match="refused"):
        worker.rounds()


def test_an_id_that_nobody_had_is_asked_for_again_later(clock: Clock) -> None:
    worker = Worker()
    strange = b"\0\0\0\0\x09..."
    worker.decode(strange)
    worker.rounds()
    assert worker.decode(strange)
    worker.registry.schemas[9] = OLD
    clock.now += ABSENT_FOR_S + 1
    worker.decode(OLD_VALUE)
    worker.rounds()
    assert not worker.decode(strange)
    worker.rounds()
    assert worker.decode(strange)


def test_a_pair_is_asked_for_with_its_schemas() -> None:
    registry = Registry()
    answers = answers_to(Unresolved(pairs=[(1, 2**31 - 1), (1, 5)]), registry)
    assert answers.pairs == {(1, 2**31 - 1): 100}
    assert registry.matches == [match_schema(OLD, NEW)]
    assert answers.schemas == {1: OLD, 2**31 - 1: NEW, 5: Absent("schema 5 is nowhere")}


def test_a_row_without_a_match_is_asked_for_with_the_other_sides_newest_schema() -> None:
    registry = Registry()
    registry.join = JoinType.LEFT
    alone = [(Side.LEFT, 1), (Side.RIGHT, 1), (Side.LEFT, 5)]
    answers = answers_to(Unresolved(alone=alone), registry)
    assert answers.alone == {(Side.LEFT, 1): 100, (Side.RIGHT, 1): 100}
    assert registry.matches == [
        match_schema(OLD, NEW, JoinType.LEFT),
        match_schema(OLD, OLD, JoinType.LEFT),
    ]


def test_a_command_is_answered_at_once(clock: Clock) -> None:
    registry = Registry()
    codec = Answered(RegistryCodec((POINT, POINT)), registry)
    assert len(codec.decode_batch(Side.LEFT, iter([OLD_VALUE, NEW_VALUE]))) == 2
    value = codec.match_value(1, 2, OLD_VALUE, NEW_VALUE)
    assert codec.decode_match(value)["left"] == {"id": "a", "ts": 5}
    assert codec.decode_event(NEW_VALUE)["id"] == "b"
    assert codec.match_schema() == match_schema(OLD, NEW)
    assert codec.side_schema(Side.LEFT) == OLD
    assert codec.match_columns()[0] == ("id", "string")
    assert codec.encode_event(Side.LEFT, {"id": "a", "ts": 5}) == OLD_VALUE


def test_any_number_of_strange_ids_is_got_past(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas.registry_codec, "ABSENT_MAX", 7)
    monkeypatch.setattr(schemas.registry_codec, "UNKNOWN_MAX", 3)
    values = [b"\0\0\0\1" + bytes([n]) for n in range(50)]
    codec = Answered(RegistryCodec((POINT, POINT)), Registry())
    found = codec.decode_batch(Side.LEFT, [*values, OLD_VALUE])
    assert [isinstance(one, Fault) for one in found] == [True] * 50 + [False]


def test_a_command_waits_for_the_registry_but_not_for_ever(clock: Clock) -> None:
    registry = Registry()
    registry.failure = Retry("it is away")
    codec = Answered(RegistryCodec((POINT, POINT)), registry)
    began = clock.now
    with pytest.raises(Unreachable, match="no answer within 30 s: it is away"):
        codec.decode_event(OLD_VALUE)
    assert WAIT_S <= clock.now - began <= WAIT_S + 2 * PAUSE_S


def test_without_a_registry_there_are_no_questions() -> None:
    lookups = Lookups(cast("Any", None), None, Threads())
    assert not lookups.step()
