"""What is wrong with a configuration, in words, named by dotted key.

Invariant: the text is one line, names each wrong setting as the user would write it, and never
repeats a value that may be a password: only one where a few words are all that may stand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.settings import table_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

SEPARATOR: Final = "; "
WHOLE: Final = "whole_line"
"""The type of an error whose text names its keys itself."""

_SUBJECT: Final = re.compile("^(Input|String|Value) should")
_HINTS: Final[Mapping[str, str]] = {
    "name": 'write a name for the job, such as name = "flights-weather"',
    "join.allowed_lateness": 'write an integer, or a duration such as "10s"',
    "join.max_interval": 'write an integer, or a duration such as "12h"',
}


def describe(error: ValidationError, model: type[BaseModel]) -> str:
    """All problems of a validation on one line."""
    return SEPARATOR.join(
        dict.fromkeys(_line(detail, model) for detail in error.errors(include_url=False))
    )


def _line(detail: ErrorDetails, model: type[BaseModel]) -> str:
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    message = detail["msg"]
    match detail["type"]:
        case "whole_line":
            return message
        case "value_error":
            text = message.removeprefix("Value error, ")
        case "missing":
            return SEPARATOR.join(_missing(key) for key in _mandatory(path, model))
        case "extra_forbidden":
            return f"unknown key {key}{_suggestion(path, model)}"
        case "literal_error":
            text = f"must be {detail['ctx']['expected'].replace(chr(39), chr(34))}"
            if isinstance(detail["input"], str | int | float):
                text += f", but is {detail['input']!r}"
        case "model_type" | "dict_type":
            text = "must be a table"
        case _:
            text = _SUBJECT.sub("must", message)
    return f"{key} {text}"


def _missing(key: str) -> str:
    return f"{key} is missing: {_HINTS.get(key, 'write the name of the topic')}"


def _mandatory(path: list[str], model: type[BaseModel]) -> list[str]:
    """The mandatory keys below a missing one: a whole table may be what is missing."""
    table = _table_at(model, path)
    if table is None:
        return [".".join(path)]
    return [
        ".".join([*path, field.alias or name])
        for name, field in table.model_fields.items()
        if field.is_required()
    ]


def _suggestion(path: list[str], model: type[BaseModel]) -> str:
    table = _table_at(model, path[:-1])
    known = [field.alias or name for name, field in table.model_fields.items()] if table else []
    import difflib  # noqa: PLC0415 (rarely needed, and slow to import)

    near = difflib.get_close_matches(path[-1], known, n=1)
    if near:
        return f" (did you mean {'.'.join([*path[:-1], near[0]])}?)"
    return f" (known here: {', '.join(known)})"


def _table_at(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    """The table found at `path`, as written in the file; None if there is none."""
    table: type[BaseModel] | None = model
    for part in path:
        if table is None:
            return None
        fields = table.model_fields.items()
        found = [field.annotation for name, field in fields if part == (field.alias or name)]
        table = table_in(found[0]) if found else None
    return table
