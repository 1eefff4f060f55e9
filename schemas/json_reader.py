"""Reads the fields that the join needs out of a JSON text, and checks the whole of it.

Two ways to the same. The quick one is a parser in native code, which knows no number beyond
64 bits that is not rounded, and forgets that a name stood twice; so it decides only where the text
cannot hold either. The general one sees every number as it is written.

Invariant: a text is accepted only if it is one JSON object by the letter of RFC 8259, and what is
taken out of it is what every reader finds there. Its bytes go into matches as they are. What the
quick way returns is what the general one finds.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import orjson

from schemas.layout import kind_of
from schemas.records import INT64_MAX, Kind, Parts
from schemas.times import RFC3339, moment_of, scale_of, shown, whole_number
from schemas.varint import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from schemas.extractor import Extract
    from schemas.fields import Fields

NESTING_MAX: Final = 200
"""Objects and lists within each other; the readers of other languages allow 1000 or so."""

DOUBTS: Final = (LookupError, TypeError, ValueError, RecursionError)
"""What the quick way raises where the general one is to decide."""

_INSERT: Final = int(Kind.INSERT)
_ESCAPED: Final = frozenset('"\\/')
"""Characters that a name may be written with in more than one way, escapes by number aside."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """An object as it is written: (name, value), in order, names that stand twice included."""

    __slots__ = ()


def _no_number(name: str) -> None:
    raise Malformed(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_constant=_no_number
)
_ANY_SIZE: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=_no_number
)
"""For numbers of more digits than Python is willing to make an integer of."""
_PLAIN: Final = json.JSONDecoder(parse_constant=_no_number)


class JsonReader:
    """How one side's records are read. `unit` is the job's."""

    def __init__(self, fields: Fields, unit: str) -> None:
        self._fields = fields
        self._times = tuple(_time_reader(own, unit) for own in fields.units)
        names = {fields.id, fields.ts, fields.start, fields.end}
        self._wanted = names | {fields.kind} if fields.kind is not None else names
        self.extract: Extract = _quick(fields, unit, self._times, sorted(names)) or self.read

    def read(self, value: bytes) -> Parts:
        """The parts of a Kafka value. Raises Malformed."""
        members = members_of(value)
        found = dict(members)
        if len(found) != len(members):
            self._check_names([name for name, _ in members])
        fields = self._fields
        ts, start, end = (
            _taken(name, found, read_time)
            for name, read_time in zip(
                (fields.ts, fields.start, fields.end), self._times, strict=True
            )
        )
        kind = _INSERT
        if fields.kind is not None and (fields.kind in found or not fields.kind_may_miss):
            kind = _taken(fields.kind, found, self._kind)
        return end, start, _taken(fields.id, found, _id_of), ts, kind, value

    def _check_names(self, names: list[str]) -> None:
        for name in self._wanted:
            if names.count(name) > 1:
                raise Malformed(f"field {name!r} is there twice")

    def _kind(self, item: object) -> int:
        if type(item) is not str:
            raise Malformed(f"is {_word_of(item)}, not a string")
        return kind_of(item, self._fields.kinds)


def members_of(value: bytes) -> Members:
    """The members of the one object that these bytes are. Raises Malformed."""
    found = _decoded(value, _DECODER, _ANY_SIZE)
    if not isinstance(found, Members):
        raise Malformed(f"not a JSON object, but {_word_of(found)}")
    if b"\\u" in value or value.count(b"{") + value.count(b"[") > NESTING_MAX:
        _inspect(found)
    return found


def object_of(value: bytes) -> dict[str, Any]:
    """The object as a dictionary, its numbers as Python has them. Raises Malformed."""
    found = _decoded(value, _PLAIN)
    if not isinstance(found, dict):
        raise Malformed(f"not a JSON object, but {_word_of(found)}")
    return found


def _decoded(value: bytes, decoder: json.JSONDecoder, more: json.JSONDecoder | None = None) -> Any:  # noqa: ANN401 (JSON)
    """What the text says; `more` is for where the decoder meets a number that is too long."""
    try:
        return decoder.decode(value.decode())
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except Malformed:
        raise
    except ValueError as error:
        if more is not None:
            return _decoded(value, more)
        raise Malformed(str(error)) from None


def _inspect(found: Members) -> None:
    """Raises Malformed for what other readers may refuse: deep nesting, half a character."""
    level: list[Any] = [found]
    for _ in range(NESTING_MAX):
        inner: list[Any] = []
        for each in level:
            for part in chain.from_iterable(each) if isinstance(each, Members) else each:
                if isinstance(part, list):
                    inner.append(part)
                elif isinstance(part, str) and not part.isascii():
                    _check_text(part)
        level = inner
        if not level:
            return
    raise Malformed(f"nested more than {NESTING_MAX} deep")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Malformed(f"{shown(text)} has half of a surrogate pair") from None


def _taken(name: str, found: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 (int or str)
    try:
        return read(found[name])
    except KeyError:
        raise Malformed(f"there is no field {name!r}") from None
    except Malformed as error:
        text = str(error)
        raise Malformed(f"field {name!r} {text}" if text.startswith("is ") else text) from None


def _id_of(item: object) -> str:
    if type(item) is str:
        return item
    try:
        if type(item) is int or type(item) is Number:
            return str(whole_number(str(item)))
    except Malformed:
        pass  # It is told below.
    raise Malformed(f"is {_word_of(item)}, not a string or an integer")


def _time_reader(own: str | None, unit: str) -> Callable[[object], int]:
    """How a time is read that was declared to be in `own`; of an int or a text, too."""
    scale = scale_of(own, unit)

    def read_number(item: object) -> int:
        if type(item) is int:
            return whole_number(str(item), scale) if abs(item) > INT64_MAX else item * scale
        if not isinstance(item, str):
            raise Malformed(f"is {_word_of(item)}, not a number")
        return whole_number(item, scale)

    def read_text(item: object) -> int:
        if type(item) is not str:
            raise Malformed(f"is {_word_of(item)}, not an RFC 3339 text")
        return moment_of(item, unit)

    return read_text if own == RFC3339 else read_number


def _word_of(item: object) -> str:
    """What an item is, in JSON's words."""
    if isinstance(item, Members | dict):
        return "an object"
    if isinstance(item, list):
        return "a list"
    if item is None or isinstance(item, bool):
        return {None: "null", True: "true", False: "false"}[item]
    if isinstance(item, Number | int | float):
        return f"the number {str(item)[:20]}"
    return f"the text {shown(item)}"


def _quick(
    fields: Fields, unit: str, times: tuple[Callable[[object], int], ...], names: list[str]
) -> Extract | None:
    """The quick way to the parts; None where a name can be spelt in more ways than one."""
    kind, kinds = fields.kind, fields.kinds
    spelt = [*names, *([kind] if kind is not None else [])]
    if any(not name.isprintable() or not _ESCAPED.isdisjoint(name) for name in spelt):
        return None
    quoted = [f'"{name}"'.encode() for name in dict.fromkeys(spelt)]
    may_miss = fields.kind_may_miss
    id_name, ts_name, start_name, end_name = fields[:4]
    read_ts, read_start, read_end = times
    # What most times are: numbers in the job's unit. Larger ones than int64 are seen by the join.
    plain = all(own is None or own == unit for own in fields.units)
    loads, dumps = orjson.loads, orjson.dumps

    def extract(value: bytes) -> Parts:
        count = value.count
        # A name that stands once in the text stands once in the object. It cannot be hidden but
        # by an escape.
        if b"\\u" in value or count(b"{") + count(b"[") > NESTING_MAX:
            raise ValueError
        found = loads(value)
        for name in quoted:
            if count(name) > 1:
                # It may be a text, or in an inner object. Where it is a second time in the object,
                # the parser has kept one of the two only.
                kept = dumps(found)
                if any(kept.count(one) != count(one) for one in quoted):
                    raise ValueError
                break
        kind_code = _INSERT
        if kind is not None and (kind in found or not may_miss):
            kind_code = kinds[found[kind]]
        row_id = found[id_name]
        if type(row_id) is not str:
            if type(row_id) is not int:
                raise TypeError
            row_id = str(row_id)
        end, start, ts = found[end_name], found[start_name], found[ts_name]
        if plain and type(end) is type(start) is type(ts) is int:
            return end, start, row_id, ts, kind_code, value
        return read_end(end), read_start(start), row_id, read_ts(ts), kind_code, value

    return extract
