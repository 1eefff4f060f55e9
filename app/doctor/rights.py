"""Which operations a job needs to be allowed, and which of them it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.doctor.finding import Finding, fail, ok, warn
from app.rights import NEEDED
from app.topics import names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.config import Config

GROUP: Final = ("Describe", "Read")
"""What a job needs on the group of its name."""


class Resource(NamedTuple):
    """A topic or the group, with what is allowed: None where the cluster does not tell."""

    kind: str
    name: str
    needed: Collection[str]
    allowed: Collection[str] | None


def needed_by(config: Config) -> dict[str, tuple[str, ...]]:
    """The rights on each topic of the job."""
    return {topic: NEEDED[what] for what, topic in names(config).items()}


def right_findings(resources: list[Resource]) -> list[Finding]:
    """What is not allowed, by resource."""
    found = []
    for kind, name, needed, allowed in resources:
        missing = [] if allowed is None else [right for right in needed if right not in allowed]
        if missing:
            operations = " ".join(f"--operation {right}" for right in missing)
            found.append(
                fail(
                    f"rights: {' and '.join(missing)} on {kind} {name} is missing",
                    f"kafka-acls.sh --add --allow-principal User:... {operations} --{kind} {name}",
                )
            )
    unknown = [one.name for one in resources if one.allowed is None]
    if unknown:
        found.append(warn(f"rights: the cluster does not tell those on {', '.join(unknown)}"))
    return found or [ok("rights: all that is needed on topics and group is allowed")]


def creation_findings(missing: Mapping[str, str], allowed: Collection[str] | None) -> list[Finding]:
    """Whether topics that are missing (what they are -> name) can be created."""
    if not missing or allowed is None or "Create" in allowed:
        return []
    return [
        warn(
            f"rights: Create on the cluster is not allowed, and {', '.join(missing.values())} must "
            f"be created",
            "allow it there or on these topics, or let somebody else run spanjoin topics",
        )
    ]
