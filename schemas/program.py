"""How to read the values of one schema, as the compiled loop takes it.

A program is one step for each field: a code, and a number of four bytes, little-endian. Only what
is usual has one: an id that is a string, times that are longs, a kind that is an enum, and beside
them anything but arrays and maps. The invariant is that of `schemas.extractor`: what a program
finds is what the general reader finds, and where it is in doubt the general reader decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from native.interface import Program
from schemas.reader import resolved
from schemas.records import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from schemas.extractor import Wanted
    from schemas.match_schema import Json
    from schemas.reader import Field

_BOOLEAN, _INT, _LONG, _BYTES, _STRING, _FIXED, _ENUM, _UNION, _ID, _TIME, _KIND = range(11)
_PLAIN: Final = {
    "null": (_FIXED, 0),
    "boolean": (_BOOLEAN, 0),
    "int": (_INT, 0),
    "long": (_LONG, 0),
    "float": (_FIXED, 4),
    "double": (_FIXED, 8),
    "bytes": (_BYTES, 0),
    "string": (_STRING, 0),
}
_UNKNOWN_KIND: Final = 255
_NUMBER_MAX: Final = 2**32 - 1
_STEPS_MAX: Final = 1_000
_DEPTH_MAX: Final = 20

_Step = tuple[int, int]


class _Unusual(Exception):
    """There is no program for this type."""


def program_of(
    fields: Sequence[Field], named: Mapping[str, Json], wanted: Wanted
) -> Program | None:
    """The program for records of these fields, still without a header; None if they are unusual.

    `named`: the named types of the schema. There is an extractor for these fields.
    """
    times = {name: at for at, name in enumerate(sorted({wanted.end, wanted.start, wanted.ts}))}
    kinds = b""
    steps: list[_Step] = []
    try:
        for field in fields:
            if field.name == wanted.id:
                steps.append((_ID, 0))
            elif field.name in times:
                steps.append((_TIME, times[field.name]))
            elif field.name == wanted.kind:
                steps.append((_KIND, 0))
                kinds = bytes(
                    wanted.kinds.get(symbol, _UNKNOWN_KIND) for symbol in field.kind["symbols"]
                )
            else:
                steps += _skipped(field.kind, named, 0)
    except _Unusual:
        return None
    ts, start, end = wanted.scales
    if len(steps) > _STEPS_MAX or max(wanted.scales) > INT64_MAX:
        return None
    sources = times[wanted.end], times[wanted.start], times[wanted.ts]
    return Program(b"", _written(steps), kinds, sources, (end, start, ts))


def _skipped(kind: Json, named: Mapping[str, Json], depth: int) -> list[_Step]:
    """The steps that pass over one datum of this type."""
    kind = resolved(kind, named)
    if isinstance(kind, str):
        return [_PLAIN[kind]]
    if depth > _DEPTH_MAX:
        raise _Unusual
    if isinstance(kind, list):
        branches = [_skipped(branch, named, depth + 1) for branch in kind]
        if any(len(branch) != 1 or branch[0][0] >= _UNION for branch in branches):
            raise _Unusual
        return [(_UNION, len(branches)), *(branch[0] for branch in branches)]
    if kind["type"] == "fixed" and kind["size"] <= _NUMBER_MAX:
        return [(_FIXED, kind["size"])]
    if kind["type"] == "enum":
        return [(_ENUM, len(kind["symbols"]))]
    if kind["type"] != "record":
        raise _Unusual
    return [step for field in kind["fields"] for step in _skipped(field["type"], named, depth + 1)]


def _written(steps: Iterable[_Step]) -> bytes:
    return b"".join(bytes([code]) + number.to_bytes(4, "little") for code, number in steps)
