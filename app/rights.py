"""What a job must be allowed to do, and which of it is not.

The README's table of ACLs is compared with this one. Groups and transactional ids cannot be asked
about beforehand; what is missing there is told when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def needed(names: Mapping[str, str], topic: str | None) -> str:
    """What `run` needs on a topic that cannot even be looked at; nothing if it is none of ours."""
    for what, name in names.items():
        if name == topic:
            return f": the job needs {', '.join(NEEDED[what])} on its {what}"
    return ""


def missing(names: Mapping[str, str], found: Mapping[str, Topic]) -> list[str]:
    """The rights that `run` lacks on the topics that were found, a line for each. Pure.

    `names`: the job's topics, by what they are to it.
    """
    lines = []
    for what, topic in names.items():
        rights = found[topic].rights if topic in found else None
        lacking = [] if rights is None else [one for one in NEEDED[what] if one not in rights]
        if lacking:
            lines.append(f'{what} "{topic}" may not be used: grant {", ".join(lacking)}')
    return lines
