"""How `--help` looks: the order of the commands, and no type beside what takes no value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

_ORDER: Final = (
    "validate", "topics", "doctor", "run", "load", "read", "status", "query", "explain", "rejects",
    "check", "replay", "schema", "watermark", "reset", "reshard", "state", "demo",
)  # fmt: skip
"""As a person comes to need them."""


class Command(TyperCommand):
    """A command of `spanjoin`."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 (the vendor's)
        """Its options and arguments."""
        return _untyped(super().get_params(ctx))


class Group(TyperGroup):
    """`spanjoin` itself, or a command that has commands."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 (the vendor's)
        """Its options and arguments."""
        return _untyped(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 (the vendor's)
        """Their names, in the order in which they are shown."""
        return sorted(super().list_commands(ctx), key=_place)


def _place(command: str) -> int:
    return _ORDER.index(command) if command in _ORDER else len(_ORDER)


def _untyped(parameters: Iterable[Any]) -> list[Any]:
    """The same; a flag is shown without the `<bool>` that nobody can write there."""
    found = list(parameters)
    for one in found:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return found
