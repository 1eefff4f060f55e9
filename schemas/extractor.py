"""The quick way to the parts of an event: one function, written for one schema.

The general way (`schemas.reader`) calls a function for each field. Here the fields of one schema
are written out one below the other, and those that stand together are taken up in one go, for what
nearly every value looks like: an id of less than 64 bytes, times of six bytes each. That takes a
third of the time.

Invariant: what an extractor returns is what the general reader finds. Where it is in doubt, and
wherever something is wrong, it raises, and the general reader decides.

Where there are compiled loops, the same is done by a program of steps (`schemas.program`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from struct import Struct
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from native import loops
from schemas.fields import KINDS
from schemas.records import Kind, Parts
from schemas.varint import FIRSTS, RESTS, SECONDS, TIME_BYTES, TIME_FORMAT, read_time

if TYPE_CHECKING:
    from native.interface import Program
    from schemas.reader import Field

Extract = Callable[[bytes], Parts]
"""A Kafka value, header included, to the parts. Raises one of DOUBTS."""

Other = TypeVar("Other")

DOUBTS: Final = (LookupError, TypeError, ValueError, StructError, RecursionError)

_SYMBOLS_MAX: Final = 64
"""So many have an index of one byte."""
_SIZE_MAX: Final = 128
"""A size below that, doubled, is one byte; and an even one, if it is not negative."""


def decoded(
    values: Iterable[bytes | None],
    extracts: Mapping[bytes, Extract],
    header_size: int,
    programs: tuple[Program, ...],
    general: Callable[[bytes | None], Other],
) -> list[Parts | Other]:
    """The parts of these Kafka values in their order, each the quickest way there is.

    `extracts`: by header. `programs` are used where each of those schemas has one. In doubt
    `general` decides.
    """
    if loops is not None and len(programs) == len(extracts):
        return loops.decode(programs, values, general)
    found: list[Parts | Other] = []
    for value in values:
        try:
            found.append(extracts[value[:header_size]](value))  # type: ignore[index, arg-type]
        except DOUBTS:  # Also where there is no value.
            found.append(general(value))
    return found


class Wanted(NamedTuple):
    """Names of the fields that an event's parts are in; without `kind` all are inserts.

    `kinds`: what the symbols of the kind stand for. `scales`: what ts, start and end are
    multiplied by.
    """

    id: str
    ts: str
    start: str
    end: str
    kind: str | None
    kinds: Mapping[str, int] = KINDS
    scales: tuple[int, int, int] = (1, 1, 1)


def extractor_of(fields: Sequence[Field], header_size: int, wanted: Wanted) -> Extract | None:
    """The extractor for records of these fields behind a header; None if there is no quick way.

    There is one where the id is a string, times are longs and the kind is an enum, none of them in
    a union. The other fields may be anything.
    """
    kinds = {field.name: field.kind for field in fields}
    kind = kinds[wanted.kind] if wanted.kind is not None else {"type": "enum", "symbols": []}
    times = {wanted.ts, wanted.start, wanted.end}
    if (
        kinds[wanted.id] != "string"
        or any(kinds[name] != "long" for name in times)
        or not isinstance(kind, dict)
        or kind["type"] != "enum"
    ):
        return None
    runs = _runs(fields, wanted, times)
    names = {
        "first": FIRSTS,
        "second": SECONDS,
        "rest": RESTS,
        "read_time": read_time,
        "doubts": (LookupError, TypeError, StructError),
        "kinds": _kinds(kind["symbols"], wanted.kinds),
        "skip": [field.skip for field in fields],
        "runs": [_unpacks([item[1] for item in run]) for run in runs],
    }
    source = "\n    ".join(_source(runs, header_size, wanted))
    # No name or text of the schema gets into the source, only numbers.
    exec(source, names)  # noqa: S102
    extract: Any = names["extract"]
    return extract  # type: ignore[no-any-return] # What `exec` makes has no type.


def _kinds(symbols: Sequence[str], kinds: Mapping[str, int]) -> dict[int, int]:
    """The byte of a symbol -> the kind."""
    quick = enumerate(symbols[:_SYMBOLS_MAX])
    return {2 * index: kinds[symbol] for index, symbol in quick if symbol in kinds}


_ID: Final = "id"
_TIME: Final = "time"
_KIND: Final = "kind"
_OTHER: Final = "other"
_Item = tuple[int, str, "Field"]
"""(number, role, field)."""


def _runs(fields: Sequence[Field], wanted: Wanted, times: set[str]) -> list[list[_Item]]:
    """The fields in their order: wanted ones that stand together in one list, others alone.

    At most one field of a list has no fixed size, the id.
    """
    roles = {wanted.id: _ID, **dict.fromkeys(times, _TIME)}
    if wanted.kind is not None:
        roles[wanted.kind] = _KIND
    items = [(at, roles.get(field.name, _OTHER), field) for at, field in enumerate(fields)]
    runs: list[list[_Item]] = []
    for is_other, grouped in groupby(items, lambda item: item[1] == _OTHER):
        run = list(grouped)
        runs += [[item] for item in run] if is_other else [run]
    return runs


def _unpacks(roles: Sequence[str]) -> list[Any]:
    """How a run is taken up, by the byte that holds the id's size, doubled.

    None where that is not one byte, or negative. A run without an id has one entry.
    """
    formats = {_TIME: TIME_FORMAT, _KIND: "B"}
    if _ID not in roles:
        return [Struct("<" + "".join(formats.get(role, "") for role in roles)).unpack_from]
    return [
        Struct("<" + "".join(formats.get(role, f"x{size >> 1}s") for role in roles)).unpack_from
        if size < _SIZE_MAX and not size & 1
        else None
        for size in range(256)
    ]


def _source(runs: Sequence[list[_Item]], header_size: int, wanted: Wanted) -> Iterator[str]:
    yield "def extract(value):"
    yield f"at = {header_size}"
    for number, run in enumerate(runs):
        if run[0][1] == _OTHER:
            yield from _passed_over(run[0])
        else:
            yield from _taken_up(number, run)
    yield "if at != len(value): raise ValueError"
    at = {field.name: f"f{number}" for run in runs for number, _, field in run}
    kind = at[wanted.kind] if wanted.kind is not None else str(int(Kind.INSERT))
    ts, start, end = (
        at[name] if scale == 1 else f"{at[name]} * {scale}"
        for name, scale in zip((wanted.ts, wanted.start, wanted.end), wanted.scales, strict=True)
    )
    yield f"return {end}, {start}, {at[wanted.id]}, {ts}, {kind}, value"


def _taken_up(number: int, run: list[_Item]) -> Iterator[str]:
    """A run at once, if it looks like nearly all do, else field by field."""
    roles = [role for _, role, _ in run]
    sizes = {_ID: 1, _TIME: TIME_BYTES, _KIND: 1}
    size, choice = str(sum(sizes[role] for role in roles)), "0"
    yield "try:"
    if _ID in roles:
        before = sum(sizes[role] for role in roles[: roles.index(_ID)])
        yield f"    size = value[at + {before}]" if before else "    size = value[at]"
        size, choice = f"{size} + (size >> 1)", "size"
    found = ", ".join(_variables(at, role) for at, role, _ in run)
    yield f"    {found}, = runs[{number}][{choice}](value, at)"
    for at, role, _ in run:
        yield f"    f{at} = {_value(at, role)}"
    yield f"    at += {size}"
    yield "except doubts:"
    for at, role, _ in run:
        yield from (f"    {line}" for line in _field(at, role))


def _variables(at: int, role: str) -> str:
    return f"a{at}, b{at}, c{at}" if role == _TIME else f"a{at}"


def _value(at: int, role: str) -> str:
    return {
        _TIME: f"first[a{at}] + second[b{at}] + rest[c{at}]",
        _ID: f"a{at}.decode()",
        _KIND: f"kinds[a{at}]",
    }[role]


def _field(at: int, role: str) -> Iterator[str]:
    if role == _TIME:
        yield f"f{at}, at = read_time(value, at)"
    elif role == _KIND:
        yield f"f{at} = kinds[value[at]]; at += 1"
    else:
        yield "size = value[at]"
        yield "if size & 129: raise ValueError"  # A length of more than a byte, or a negative one.
        yield "at += 1"
        yield f"f{at} = value[at : at + (size >> 1)].decode()"
        yield "at += size >> 1"


def _passed_over(item: _Item) -> Iterator[str]:
    """A field that nobody wants: bytes that may be null are passed over here, others elsewhere."""
    number, _, field = item
    if field.kind not in ("bytes", ["null", "bytes"]):
        yield f"at = skip[{number}](value, at)"
        return
    first = 0
    if field.kind != "bytes":
        yield "if not value[at]: at += 1"
        yield f"elif value[at] != 2 or value[at + 1] & 129: at = skip[{number}](value, at)"
        first = 1
    else:
        yield f"if value[at] & 129: at = skip[{number}](value, at)"
    yield f"else: at += {first + 1} + (value[at + {first}] >> 1)"
