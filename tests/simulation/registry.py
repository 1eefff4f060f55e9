"""A codec with questions, and a registry that is slow, away, or asked while its asker dies.

Records stay what they are, but each counts as written with one of a few schemas. The codec of a
process knows none of them at first: it has to ask for each, and for each pair that matches. What
comes out in the end must be what comes out without questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import Retry
from schemas.codec import Unresolved
from schemas.fields import Fields
from schemas.records import JoinType, Side
from schemas.registry_codec import Answers, RegistryCodec
from tests.simulation.world import current

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.codec import Codec
    from schemas.match_schema import Json
    from schemas.records import Fault, Parts

SCHEMAS: Final = 3
AWAY: Final = 0.3
"""Share of questions that are not answered."""
EVENT: Final[Json] = {"type": "record", "name": "Event", "fields": []}


def schema_of(value: bytes) -> int:
    """The schema that a record counts as written with."""
    return sum(value) % SCHEMAS


class Forgetful(RegistryCodec):
    """Encodes as `inner` does, once it has been told enough."""

    def __init__(self, inner: Codec) -> None:
        super().__init__((Fields(), Fields()))
        self._inner = inner
        self._told: set[object] = set()

    def learn(self, answers: Answers) -> None:
        """Take what the registry said."""
        self._told |= {*answers.schemas, *answers.pairs, *answers.alone}

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """As `inner`."""
        listed = list(values)
        found = self._inner.decode_batch(side, listed)
        schemas = [0 if value is None else schema_of(value) for value in listed]
        unknown = [at for at, schema in enumerate(schemas) if schema not in self._told]
        if unknown:
            unresolved = Unresolved(schemas={schemas[at] for at in unknown})
            unresolved.decoded = found[: unknown[0]]
            raise unresolved
        return found

    def match_value(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """As `inner`."""
        pair = schema_of(left), schema_of(right)
        if pair not in self._told:
            raise Unresolved(pairs=[pair])
        return self._inner.match_value(start, end, left, right)

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """As `inner`."""
        alone = Side(side), schema_of(value)
        if alone not in self._told:
            raise Unresolved(alone=[alone])
        return self._inner.unmatched_value(side, start, end, value)

    def decode_event(self, value: bytes) -> dict[str, object]:
        """As `inner`."""
        if schema_of(value) not in self._told:
            raise Unresolved(schemas=[schema_of(value)])
        return self._inner.decode_event(value)


class Registry:
    """In place of a Schema Registry."""

    address = "simulated"
    join = JoinType.INNER

    def _answer(self) -> None:
        world = current().process.world
        world.sleep(world.latency())
        if world.random.random() < AWAY:
            raise Retry("the simulated registry is away")

    def by_id(self, _schema_id: int) -> Json:
        """Any will do."""
        self._answer()
        return EVENT

    def newest(self, _side: Side) -> Json:
        """Any will do."""
        self._answer()
        return EVENT

    def writer(self, _side: Side) -> tuple[int, Json]:
        """Nobody asks."""
        raise NotImplementedError

    def register_match(self, _schema: Json) -> int:
        """Any will do."""
        self._answer()
        return 1
