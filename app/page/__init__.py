"""The page that a worker serves: hand-written files that ask for everything they show.

Invariant: nothing of a record is ever part of a file, or made into mark-up: what is shown is text.
Should that fail one day, the policy still lets the browser run and load nothing but these files.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/timeline.js": ("timeline.js", "text/javascript; charset=utf-8"),
}
PATHS: Final = frozenset(_FILES)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (
        "Content-Security-Policy",
        _POLICY,
    ),
    ("Referrer-Policy", "no-referrer"),
)


class File(NamedTuple):
    """One file of the page."""

    content_type: str
    body: bytes


def file(path: str) -> File | None:
    """What is at a path, None if nothing of the page is."""
    found = _FILES.get(path)
    if found is None:
        return None
    name, content_type = found
    return File(content_type, resources.files(__name__).joinpath(name).read_bytes())
