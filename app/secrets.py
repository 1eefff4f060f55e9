"""Secrets of a configuration: where they may come from, and that they are never shown.

Invariant: what a person or a program is shown goes through `hide`. An error's text may be the
client's, and may repeat what it was given; nobody here knows when.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FROM_FILE: Final = "from_file"
"""A setting that is a table of this key alone has what stands in that file."""
BYTES_MAX: Final = 1 << 20
HIDDEN: Final = "***"
_LENGTH_MIN: Final = 3
"""Shorter ones are not looked for: every second word would be hidden."""
_LINE_MIN: Final = 16
"""Of a secret of several lines, such as a key, each line of this length is one, too."""
_WORDS: Final = (
    "password", "secret", "token", "assertion", "jaas", "key.pem", "user.info",
    "oauthbearer.config",
)  # fmt: skip
_NO_SECRETS: Final = (".url", ".location", ".file", ".ms", ".enabled", ".algorithm", ".source")
"""Ends of names of what tells where a secret is, or how it is used."""

_known: Final[set[str]] = set()


def is_secret(name: str) -> bool:
    """Whether a property of this name must not be shown."""
    lower = name.lower()
    return any(word in lower for word in _WORDS) and not lower.endswith(_NO_SECRETS)


def remember(value: str) -> None:
    """Hide this value from now on."""
    lines = [line.strip() for line in value.splitlines()]
    _known.update(line for line in lines if len(line) >= _LINE_MIN)
    if len(value) >= _LENGTH_MIN:
        _known.add(value)


def remember_all(table: Mapping[str, object]) -> None:
    """Hide every value in a table, and in the tables in it, whose name says that it is a secret."""
    for name, value in _flat(table):
        if is_secret(name) and isinstance(value, str):
            remember(value)


def hide(text: str) -> str:
    """The text without any secret that is known."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def resolve(document: Mapping[str, object], folder: Path) -> dict[str, object]:
    """A copy of a document in which files have been read for the settings that name one.

    A relative path begins at `folder`. Raises ValueError that names the setting and the file.
    """
    return {name: _resolved(name, value, folder) for name, value in document.items()}


def _resolved(key: str, value: object, folder: Path) -> object:
    if not isinstance(value, dict):
        return value
    if set(value) != {FROM_FILE}:
        return {name: _resolved(f"{key}.{name}", inner, folder) for name, inner in value.items()}
    path = value[FROM_FILE]
    if not isinstance(path, str) or not path:
        raise ValueError(f"{key}.{FROM_FILE} must be the path of a file")
    secret = _read(key, folder / Path(path).expanduser())
    remember(secret)
    return secret


def _read(key: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = file.read(BYTES_MAX + 1)
        text = found.decode()
    except OSError as error:
        raise ValueError(f"{key}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{key}: {path} is not UTF-8 text") from None
    if len(found) > BYTES_MAX:
        raise ValueError(f"{key}: {path} is larger than {BYTES_MAX} bytes")
    # An editor ends a file with a newline, which is no part of a password.
    return text.removesuffix("\n").removesuffix("\r")


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
