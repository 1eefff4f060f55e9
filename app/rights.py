"""What a job must be allowed to do, and which of it is not.

The README's table of ACLs is compared with this one. Groups and transactional ids cannot be asked
about beforehand; what is missing there is told when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.kafka.cluster import Topic

_INPUT: Final = ("Describe", "DescribeConfigs", "Read")
_OUTPUT: Final = ("Describe", "DescribeConfigs", "Write")
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "left topic": _INPUT,
    "right topic": _INPUT,
    "output topic": _OUTPUT,
    "changelog topic": ("Delete", "Describe", "DescribeConfigs", "Read", "Write"),
    "rejects topic": _OUTPUT,
}
"""By what a topic is to the job: the rights that `run` needs on it."""


RESET: Final[Mapping[str, tuple[str, ...]]] = {
    **NEEDED,
    "output topic": (*_OUTPUT, "Read"),
    "rejects topic": (*_OUTPUT, "Delete"),
}
"""The rights that `reset` needs on each, if none of them lacks partitions."""
RESHARD: Final[Mapping[str, tuple[str, ...]]] = {
    what: rights if what == "output topic" else (*rights, "Alter")
    for what, rights in NEEDED.items()
}
"""The rights that `reshard` needs on each."""
OF_GROUP: Final = ("Read", "Delete")
"""What both need on the group of the job's name."""


def to_reset(
    names: Mapping[str, str], found: Mapping[str, Topic], lanes: int
) -> dict[str, tuple[str, ...]]:
    """The rights that `reset` needs on each: where the inputs grew, two topics follow them."""
    followers = [
        what
        for what in ("changelog topic", "rejects topic")
        if names[what] in found and found[names[what]].partitions < lanes
    ]
    return {**RESET, **{what: (*RESET[what], "Alter") for what in followers}}


def needed(names: Mapping[str, str], topic: str | None) -> str:
    """What `run` needs on a topic that cannot even be looked at; nothing if it is none of ours."""
    for what, name in names.items():
        if name == topic:
            return f": the job needs {', '.join(NEEDED[what])} on its {what}"
    return ""


def may_write(topic: Topic) -> bool:
    """Whether nobody says that this client may not."""
    return topic.rights is None or "Write" in topic.rights


def missing(
    names: Mapping[str, str],
    found: Mapping[str, Topic],
    wanted: Mapping[str, tuple[str, ...]] = NEEDED,
) -> list[str]:
    """The rights that `run` lacks on the topics that were found, a line for each. Pure.

    `names`: the job's topics, by what they are to it. `wanted`: what another command needs.
    """
    lines = []
    for what, topic in names.items():
        rights = found[topic].rights if topic in found else None
        lacking = [] if rights is None else [one for one in wanted[what] if one not in rights]
        if lacking:
            lines.append(f'{what} "{topic}" may not be used: grant {", ".join(lacking)}')
    return lines


def missing_on_group(group: str, allowed: Collection[str] | None) -> list[str]:
    """The same of the group, for `reset` and `reshard`; None: nobody says what is allowed."""
    lacking = [] if allowed is None else [one for one in OF_GROUP if one not in allowed]
    return [f'group "{group}" may not be used: grant {", ".join(lacking)}'] if lacking else []
