"""Reads the fields that the join needs out of an Avro body, and checks the whole of it.

Invariant: a body is accepted only if it is, from its first byte to its last, exactly one datum of
its schema. Its bytes go into matches as they are, so what is let in here must be readable by every
Avro library. The general reader does not promise that: it takes a negative index of an enum or a
union for one counted from the end and a varint of any length, and a body that nests deeply enough
ends the process. It also makes a dictionary of everything, in twice the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas.varint import Malformed, read_int, read_long, take_long

if TYPE_CHECKING:
    from schemas.match_schema import Json

Skip = Callable[[bytes, int], int]
"""(buffer, position) -> position after one datum. Raises Malformed or IndexError."""

Take = Callable[[bytes, int, list[Any]], int]
"""Like Skip; appends the datum to the list."""

EMPTY_ITEMS_MAX: Final = 1_000
"""Items of a block that take no bytes. More would make a few bytes fill the memory of a reader."""
_ONE_BYTE_MAX: Final = 127


class _Step(NamedTuple):
    """One field of the record: taken if it is wanted, else passed over."""

    take: Take | None
    skip: Skip


Plan = list[_Step]
"""How to go through a record."""


class Field(NamedTuple):
    """One field of a record, whoever wants it: its resolved type, and how to pass over it."""

    name: str
    kind: Json
    skip: Skip


def plan_of(schema: Json, named: Mapping[str, Json], wanted: Mapping[str, frozenset[str]]) -> Plan:
    """How to read the wanted fields of a record, in the record's own order.

    `wanted`: field name -> the Avro types that it may have, "string", "enum", "int" or "long";
    it may also be a union with one of them. `schema` and `named` (the named types) are as
    `fastavro.parse_schema` leaves them. Raises ValueError where the schema does not fit.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("the schema is not a record")
    missing = set(wanted) - {field["name"] for field in schema["fields"]}
    if missing:
        raise ValueError(f"the schema has no field {min(missing)!r}")
    types = _Types(named)
    plan: Plan = []
    for field in schema["fields"]:
        name, kind = field["name"], types.resolved(field["type"])
        if name in wanted:
            plan.append(_Step(types.take(kind, name, wanted[name]), _skip_null))
        else:
            plan.append(_Step(None, types.skip(kind)))
    return plan


def fields_of(schema: Json, named: Mapping[str, Json]) -> list[Field]:
    """The fields of a record; the arguments are as for `plan_of`."""
    types = _Types(named)
    return [
        Field(field["name"], types.resolved(field["type"]), types.skip(field["type"]))
        for field in schema["fields"]
    ]


def read_fields(plan: Plan, body: bytes, at: int) -> list[Any]:
    """The wanted fields of the one record that `body` is from `at` on.

    Numbers are int; strings and enum symbols are str. Raises Malformed.
    """
    found: list[Any] = []
    try:
        for take, skip in plan:
            at = skip(body, at) if take is None else take(body, at, found)
    except IndexError:
        raise Malformed("the value ends in the middle of a field") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"a string is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise Malformed("the value is nested too deeply") from None
    if at != len(body):
        surplus = at - len(body)
        raise Malformed(
            f"the value ends {surplus} bytes too early"
            if surplus > 0
            else f"{-surplus} bytes follow the end of the record"
        )
    return found


# A size or an index in one byte, not negative, is an even number below 128. Nearly all are, and the
# functions below take that short way first.


def _read_size(body: bytes, at: int) -> tuple[int, int]:
    size, at = read_long(body, at)
    if size < 0:
        raise Malformed(f"a length is {size}")
    return size, at


def _take_string(body: bytes, at: int, found: list[Any]) -> int:
    size = body[at]
    if size <= _ONE_BYTE_MAX and not size & 1:
        size >>= 1
        at += 1
    else:
        size, at = _read_size(body, at)
    end = at + size
    found.append(body[at:end].decode())
    return end


def _take_int(body: bytes, at: int, found: list[Any]) -> int:
    number, at = read_int(body, at)
    found.append(number)
    return at


def _skip_null(_body: bytes, at: int) -> int:
    return at


def _skip_boolean(body: bytes, at: int) -> int:
    if body[at] > 1:
        raise Malformed(f"a boolean is {body[at]}")
    return at + 1


def _skip_int(body: bytes, at: int) -> int:
    return read_int(body, at)[1]


def _skip_long(body: bytes, at: int) -> int:
    return read_long(body, at)[1]


def _skip_bytes(body: bytes, at: int) -> int:
    size = body[at]
    if size <= _ONE_BYTE_MAX and not size & 1:
        return at + 1 + (size >> 1)
    size, at = _read_size(body, at)
    return at + size


def _skip_string(body: bytes, at: int) -> int:
    return _take_string(body, at, [])


_SKIPS: Final[Mapping[str, Skip]] = {
    "null": _skip_null,
    "boolean": _skip_boolean,
    "int": _skip_int,
    "long": _skip_long,
    "float": lambda _body, at: at + 4,
    "double": lambda _body, at: at + 8,
    "bytes": _skip_bytes,
    "string": _skip_string,
}
_TAKES: Final[Mapping[str, Take]] = {
    "int": _take_int,
    "long": take_long,
    "string": _take_string,
}


def _index_of(body: bytes, at: int, count: int, what: str) -> tuple[int, int]:
    index, at = read_long(body, at)
    if not 0 <= index < count:
        raise Malformed(f"{what} has no number {index}")
    return index, at


def _skip_blocks(skip: Skip, body: bytes, at: int) -> int:
    """The blocks of an array, or of a map whose entries `skip` passes."""
    while True:
        count, at = read_long(body, at)
        if count == 0:
            return at
        end = None
        if count < 0:  # Then the block says how many bytes it takes.
            count = -count
            size, at = _read_size(body, at)
            end = at + size
        for _ in range(count):
            before = at
            at = skip(body, at)
            if at == before:
                # Nothing takes no bytes, however often: but whoever reads the list makes it.
                if count > EMPTY_ITEMS_MAX:
                    raise Malformed(f"a block of a list has {count} items without a byte")
                break
            if at > len(body):
                raise Malformed("the value ends in the middle of a list")
        if end is not None and at != end:
            raise Malformed("a block of a list has another length than it says")


def resolved(kind: Json, named: Mapping[str, Json]) -> Json:
    """The definition behind a name; a primitive type as its name alone."""
    while not isinstance(kind, list):
        inner = kind if isinstance(kind, str) else kind["type"]
        if isinstance(inner, str) and inner not in named:
            return inner if inner in _SKIPS else kind
        kind = inner if not isinstance(inner, str) else named[inner]
    return kind


class _Types:
    """Makes the functions that read or pass over each type of one schema."""

    def __init__(self, named: Mapping[str, Json]) -> None:
        self._named = named
        self._skips: dict[str, Skip] = {}

    def resolved(self, kind: Json) -> Json:
        """The definition behind a name; a primitive type as its name alone."""
        return resolved(kind, self._named)

    def skip(self, kind: Json) -> Skip:
        """The function that passes over one datum of this type."""
        kind = self.resolved(kind)
        if isinstance(kind, str):
            return _SKIPS[kind]
        if isinstance(kind, list):
            branches = [self.skip(branch) for branch in kind]
            return lambda body, at: _skip_union(branches, body, at)
        if "name" not in kind:
            return self._skip_list(kind)
        name = kind["name"]
        if name not in self._skips:
            # A type may contain itself: its own function is looked up when it is called.
            self._skips[name] = partial(self._skip_by_name, name)
            self._skips[name] = self._skip_named(kind)
        return self._skips[name]

    def _skip_by_name(self, name: str, body: bytes, at: int) -> int:
        return self._skips[name](body, at)

    def _skip_list(self, kind: Json) -> Skip:
        if kind["type"] == "array":
            item = self.skip(kind["items"])
            return lambda body, at: _skip_blocks(item, body, at)
        value = self.skip(kind["values"])
        return lambda body, at: _skip_blocks(
            lambda body, at: value(body, _skip_string(body, at)), body, at
        )

    def _skip_named(self, kind: Json) -> Skip:
        if kind["type"] == "fixed":
            size = kind["size"]
            return lambda _body, at: at + size
        if kind["type"] == "enum":
            count, what = len(kind["symbols"]), f"enum {kind['name']}"
            return lambda body, at: _index_of(body, at, count, what)[1]
        fields = [self.skip(field["type"]) for field in kind["fields"]]
        return lambda body, at: _skip_record(fields, body, at)

    def take(self, kind: Json, field: str, allowed: frozenset[str]) -> Take:
        """The function that takes one wanted field of this type, or a union with it."""
        branches = [self.resolved(branch) for branch in kind] if isinstance(kind, list) else [kind]
        if allowed.isdisjoint(map(_name_of, branches)):
            names = " or ".join(map(_name_of, branches))
            raise ValueError(f"field {field!r} is {names}, not {' or '.join(sorted(allowed))}")
        if not isinstance(kind, list):
            return _taker(kind)
        takes = [
            _taker(branch) if _name_of(branch) in allowed else _refuser(field, _name_of(branch))
            for branch in branches
        ]

        def take(body: bytes, at: int, found: list[Any]) -> int:
            index, at = _index_of(body, at, len(takes), "a union")
            return takes[index](body, at, found)

        return take


def _skip_union(branches: list[Skip], body: bytes, at: int) -> int:
    index = body[at]
    if index < len(branches) * 2 <= _ONE_BYTE_MAX and not index & 1:
        return branches[index >> 1](body, at + 1)
    index, at = _index_of(body, at, len(branches), "a union")
    return branches[index](body, at)


def _skip_record(fields: list[Skip], body: bytes, at: int) -> int:
    for skip in fields:
        at = skip(body, at)
    return at


def _name_of(kind: Json) -> str:
    return "union" if isinstance(kind, list) else kind["type"] if isinstance(kind, dict) else kind


def _taker(kind: Json) -> Take:
    if not isinstance(kind, dict):
        return _TAKES[kind]
    symbols = list(kind["symbols"])

    def take(body: bytes, at: int, found: list[Any]) -> int:
        index = body[at]
        if index < len(symbols) * 2 <= _ONE_BYTE_MAX and not index & 1:
            found.append(symbols[index >> 1])
            return at + 1
        index, at = _index_of(body, at, len(symbols), f"enum {kind['name']}")
        found.append(symbols[index])
        return at

    return take


def _refuser(field: str, name: str) -> Take:
    def refuse(_body: bytes, _at: int, _found: list[Any]) -> int:
        raise Malformed(f"field {field!r} is {name}")

    return refuse
