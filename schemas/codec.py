"""What a job's encoding does, whichever it is: inputs to events, pairs of inputs to matches.

A match is *concatenated*: what is its own, then the two inputs' bytes as they came. That is right
only as long as every value that is let in is, from its first byte to its last, exactly one datum.

Bad input is a value: `decode_batch` never raises for what a message holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from schemas.records import Fault, Parts, Side


class UnknownSchema(ValueError):
    """A stored row or a match was written with a schema that is not known (any more)."""


class Unresolved(Exception):
    """Not to be said before a question outside is answered; nothing was changed.

    `schemas`: ids of writer schemas. `pairs`: ids of two writer schemas (left, right) whose match
    schema has no known id. `alone`: (side, id of its writer schema) of rows without a match,
    likewise. `newest`: sides the schema of whose new records is not known; `writers`: sides for
    which it has to be registered, too. `decoded`: what stands in a batch before the first value
    that has to wait.
    """

    decoded: Sequence[Parts | Fault] = ()

    def __init__(
        self,
        schemas: Iterable[int] = (),
        pairs: Iterable[tuple[int, int]] = (),
        newest: Iterable[Side] = (),
        writers: Iterable[Side] = (),
        alone: Iterable[tuple[Side, int]] = (),
    ) -> None:
        self.schemas = frozenset(schemas)
        self.pairs = frozenset(pairs)
        self.newest = frozenset(newest)
        self.writers = frozenset(writers)
        self.alone = frozenset(alone)
        super().__init__(str(self))

    def __str__(self) -> str:
        found = [f"schema {schema_id}" for schema_id in sorted(self.schemas)]
        found += [f"the match of schemas {left} and {right}" for left, right in sorted(self.pairs)]
        found += [f"rows of schema {schema_id} alone" for _, schema_id in sorted(self.alone)]
        found += [f"the schema of {side.name.lower()}" for side in self.newest | self.writers]
        return ", ".join(found)

    def and_also(self, other: Unresolved) -> Unresolved:
        """Both questions in one."""
        return Unresolved(
            self.schemas | other.schemas,
            self.pairs | other.pairs,
            self.newest | other.newest,
            self.writers | other.writers,
            self.alone | other.alone,
        )


class Codec(Protocol):
    """The encoding of one job, for both sides; pure: whatever is outside is asked by others.

    Every method may raise Unresolved where it needs an answer from there.
    """

    def decode_batch(self, side: Side, values: Iterable[bytes | None]) -> list[Parts | Fault]:
        """The parts of these Kafka values in their order; a Fault where there are none."""

    def match_value(self, start: int, end: int, left: bytes, right: bytes) -> bytes:
        """The match of these two inputs (Kafka values as they came), overlapping from start to end.

        Raises UnknownSchema for an input of a schema that is not known.
        """

    def unmatched_value(self, side: int, start: int, end: int, value: bytes) -> bytes:
        """The output record of an input that nothing matches, in an outer join.

        The other side is null. Raises as `match_value` does.
        """

    def match_schema(self) -> dict[str, Any]:
        """What matches of newly written records look like, as people are shown it."""

    def side_schema(self, side: Side) -> Any:  # noqa: ANN401 (JSON)
        """What newly written records of a side look like, as people are shown it."""

    def match_columns(self) -> list[tuple[str, Any]]:
        """The columns (name, Avro type) of a match in a table, the id first.

        A type that is none of Avro's says that its values are shown as JSON texts.
        """

    def decode_match(self, value: bytes) -> dict[str, Any]:
        """A match as a dictionary: start, end, and the two inputs as left and right.

        In an unmatched row of an outer join the other side is None. Raises UnknownSchema for a
        match of other schemas, Malformed for what is no match.
        """

    def decode_event(self, value: bytes) -> dict[str, Any]:
        """An input of either side as a dictionary of all its fields; raises as `decode_match`."""

    def encode_event(self, side: Side, record: dict[str, Any]) -> bytes:
        """A side's record as a producer would write it.

        Raises ValueError for one that does not fit.
        """
