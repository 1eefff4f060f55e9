"""What a codec has to ask of the Schema Registry, and who waits for the answers meanwhile.

The codec is pure: it says what it does not know, and is told. A worker asks on a helper thread and
goes on polling, so that it keeps its place in the group; only the lanes that need the answer wait.
A command asks at once.

Invariant: a registry that does not answer delays records, and rejects none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from app.errors import Retry, Unreachable
from schemas.codec import Unresolved
from schemas.match_schema import match_schema
from schemas.registry_codec import Absent, Answers, RegistryCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor, Future

    from schemas.codec import Codec
    from schemas.match_schema import Json
    from schemas.records import Fault, JoinType, Parts, Side

PAUSE_S: Final = 1.0
"""Between two attempts to ask."""
ABSENT_FOR_S: Final = 60.0
"""So long an id that nobody had registered is not asked for again."""
WAIT_S: Final = 30.0
"""How long a command waits for an answer."""

_log: Final = structlog.get_logger()
_Result = TypeVar("_Result")


class Schemas(Protocol):
    """A Schema Registry, as a job uses it. Any call may wait, and raise Retry or UsageError."""

    address: str
    join: JoinType

    def by_id(self, schema_id: int) -> Json | Absent:
        """The schema with this id, or that there is none, and why."""

    def newest(self, side: Side) -> Json:
        """The schema that new records of a side have."""

    def writer(self, side: Side) -> tuple[int, Json]:
        """The same with its id; registers it if need be."""

    def register_match(self, schema: Json) -> int:
        """The id of a match schema; registers it if need be."""


def answers_to(asked: Unresolved, schemas: Schemas) -> Answers:
    """Asks all that is asked. Raises Retry, UsageError."""
    ids = asked.schemas | {schema_id for pair in asked.pairs for schema_id in pair}
    ids |= {schema_id for _, schema_id in asked.alone}
    found = {schema_id: schemas.by_id(schema_id) for schema_id in sorted(ids)}

    def match_of(left: Json, right: Json) -> int:
        return schemas.register_match(match_schema(left, right, schemas.join))

    def output_of(side: Side, schema: Json) -> int:
        other = schemas.newest(side.other)
        return match_of(*((other, schema) if side else (schema, other)))

    return Answers(
        schemas=found,
        pairs={
            (left, right): match_of(found[left], found[right])
            for left, right in sorted(asked.pairs)
            if not isinstance(found[left], Absent) and not isinstance(found[right], Absent)
        },
        alone={
            (side, schema_id): output_of(side, found[schema_id])
            for side, schema_id in sorted(asked.alone)
            if not isinstance(found[schema_id], Absent)
        },
        newest={side: schemas.newest(side) for side in sorted(asked.newest)},
        writers={side: schemas.writer(side) for side in sorted(asked.writers)},
    )


@dataclass(slots=True)
class Lookups:
    """The questions of a worker's codec; on the worker's thread, but for the asking itself."""

    codec: Codec
    schemas: Schemas | None
    threads: Executor
    trouble: str | None = None
    """Why the registry did not answer the last time; None while nothing is wrong."""
    _wanted: Unresolved | None = None
    _asked: Future[Answers] | None = None
    _pause_until: float = 0.0
    _absent_since: float | None = None

    def ask(self, unresolved: Unresolved) -> None:
        """Have this answered; `step` says when."""
        self._wanted = unresolved if self._wanted is None else self._wanted.and_also(unresolved)

    def step(self) -> bool:
        """Ask what is to be asked; returns whether the codec knows more than before.

        Raises UsageError where a person must change something about the registry.
        """
        if self._wanted is None:
            return False
        now = time.monotonic()
        if self._asked is None:
            if now >= self._pause_until:
                assert self.schemas is not None, "only a codec with a registry has questions"
                self._asked = self.threads.submit(answers_to, self._wanted, self.schemas)
            return False
        if not self._asked.done():
            return False
        asked, self._asked = self._asked, None
        try:
            answers = asked.result()
        except Retry as retry:
            self._pause_until = now + PAUSE_S
            if self.trouble is None:
                _log.warning("waiting for the Schema Registry", reason=str(retry))
            self.trouble = str(retry)
            return False
        if self.trouble is not None:
            _log.info("the Schema Registry answers again")
        # What was asked for meanwhile is asked for again: whoever waits tries anew.
        self.trouble, self._wanted = None, None
        self._learn(answers, now)
        return True

    def _learn(self, answers: Answers, now: float) -> None:
        assert isinstance(self.codec, RegistryCodec)
        if self._absent_since is None or now - self._absent_since > ABSENT_FOR_S:
            self._absent_since = now
            self.codec.forget_absent()
        self.codec.learn(answers)


class Answered:
    """A `schemas.codec.Codec` whose questions are answered at once, for a command.

    Every method raises what the codec's does, UsageError, and Unreachable where the registry gives
    no answer in WAIT_S.
    """

    def __init__(self, codec: RegistryCodec, schemas: Schemas) -> None:
        self._codec = codec
        self._schemas = schemas

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """As the codec's."""
        found: list[Parts | Fault] = []
        left = list(values)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return found + self._codec.decode_batch(side, left)
            except Unresolved as asked:
                found += asked.decoded
                left = left[len(asked.decoded) :]
                deadline = self._learn(asked, deadline)

    def match_value(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """As the codec's."""
        return self._answered(lambda: self._codec.match_value(start, end, left, right))

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """As the codec's."""
        return self._answered(lambda: self._codec.unmatched_value(side, start, end, value))

    def match_schema(self) -> dict[str, Any]:
        """As the codec's."""
        return self._answered(self._codec.match_schema)

    def side_schema(self, side: Side) -> Any:  # noqa: ANN401 (JSON)
        """As the codec's."""
        return self._answered(lambda: self._codec.side_schema(side))

    def match_columns(self) -> list[tuple[str, Any]]:
        """As the codec's."""
        return self._answered(self._codec.match_columns)

    def decode_match(self, value: bytes) -> dict[str, Any]:
        """As the codec's."""
        return self._answered(lambda: self._codec.decode_match(value))

    def decode_event(self, value: bytes) -> dict[str, Any]:
        """As the codec's."""
        return self._answered(lambda: self._codec.decode_event(value))

    def encode_event(self, side: Side, record: dict[str, Any]) -> bytes:
        """As the codec's."""
        return self._answered(lambda: self._codec.encode_event(side, record))

    def _answered(self, call: Callable[[], _Result]) -> _Result:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return call()
            except Unresolved as asked:
                deadline = self._learn(asked, deadline)

    def _learn(self, asked: Unresolved, deadline: float) -> float:
        """Ask, or wait a little; returns when to give up, which an answer puts off."""
        try:
            self._codec.learn(answers_to(asked, self._schemas))
        except Retry as retry:
            if time.monotonic() > deadline:
                raise Unreachable(f"no answer within {WAIT_S:g} s: {retry}") from None
            time.sleep(PAUSE_S)
            return deadline
        return time.monotonic() + WAIT_S
