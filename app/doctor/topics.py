"""Whether the job's topics are what they should be: settings, copies, sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.doctor.finding import Finding, fail, ok, warn
from app.effects import MATCH_OVERHEAD
from app.topics import Plan, names
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.config import Config
    from app.kafka.cluster import Topic

_MAX_BYTES: Final = "max.message.bytes"
_POLICY: Final = "cleanup.policy"
_IN_SYNC: Final = "min.insync.replicas"
_COPIES: Final = 2
"""Copies in sync that a write waits for, so that the loss of one broker loses nothing."""
_OLDEST: Final = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""How old a record's timestamp may be, by its name since 3.6 and the one before."""
_UNBOUNDED: Final = 2**62


def topic_findings(
    config: Config, found: Mapping[str, Topic], plan: Plan, brokers: int
) -> list[Finding]:
    """What `spanjoin topics` would say, and what is odd beyond that."""
    findings = [fail(f"topics: {text}") for text in plan.problems]
    findings += [
        warn(f"topics: {text}") if topic == config.output.topic else fail(f"topics: {text}")
        for topic, text in plan.differences
    ]
    findings += [warn(f"topics: {note}") for note in plan.notes]
    missing = [name for name in names(config).values() if name not in found]
    if missing and not plan.problems:
        findings.append(ok(f"topics: run creates {', '.join(missing)}"))
    if not findings or not any((plan.problems, plan.differences, plan.notes)):
        findings.append(ok(f"topics: {plan.lanes} lanes, and all settings as they should be"))
    for side in Side:
        topic = found.get(config.side(side).topic)
        if topic is not None:
            findings += _input(side.name.lower(), config.side(side).topic, topic)
    output = found.get(config.output.topic)
    if output is not None:
        findings += _output(config.output.topic, output)
    for name in (config.output.topic, config.changelog_topic):
        if name in found:
            findings += _copies(name, found[name], brokers)
    return findings


def _input(what: str, name: str, topic: Topic) -> list[Finding]:
    if "compact" in topic.settings.get(_POLICY, ""):
        return [
            warn(
                f'topics: {what} topic "{name}" is compacted: of each join key only the newest '
                f"row stays",
                f"set {_POLICY}=delete, if rows of one key are different rows",
            )
        ]
    return []


def _output(name: str, topic: Topic) -> list[Finding]:
    findings = []
    for setting in _OLDEST:
        bound = topic.settings.get(setting, "")
        if bound.isdigit() and int(bound) < _UNBOUNDED:
            findings.append(
                warn(
                    f'topics: output topic "{name}" refuses records older than {bound} ms '
                    f"({setting}), and matches carry their events' time",
                    f"set {setting}={2**63 - 1}, or history stops the job",
                )
            )
    return findings


def _copies(name: str, topic: Topic, brokers: int) -> list[Finding]:
    in_sync = int(topic.settings.get(_IN_SYNC, 1))
    if topic.replicas < _COPIES:
        if brokers < _COPIES:
            return [
                warn(f"topics: {name} has one copy, as there is one broker: losing it loses all")
            ]
        return [
            warn(
                f"topics: {name} has one copy, although there are {brokers} brokers",
                "raise its replication factor with kafka-reassign-partitions.sh",
            )
        ]
    if in_sync < _COPIES <= topic.replicas:
        return [
            warn(
                f"topics: {name} has {_IN_SYNC}={in_sync}: what one broker has acknowledged is "
                f"lost with it",
                f"set {_IN_SYNC}={_COPIES}",
            )
        ]
    return [ok(f"topics: {name} has {topic.replicas} copies, and waits for {in_sync}")]


def size_findings(
    config: Config, found: Mapping[str, Topic], largest: Mapping[Side, int], message_max: int | None
) -> list[Finding]:
    """Whether matches of the largest sampled records fit into the output.

    `largest`: bytes of key and value, by side. `message_max`: the client's own bound, if one was
    configured.
    """
    output = found.get(config.output.topic)
    if output is None or len(largest) < len(Side):
        return []
    bound = int(output.settings[_MAX_BYTES])
    if message_max is not None and message_max < bound:
        bound = message_max
    match = sum(largest.values()) + MATCH_OVERHEAD
    if match > bound:
        return [
            warn(
                f"sizes: a match of the largest sampled records takes {match} bytes, more than "
                f"the {bound} that {config.output.topic} takes, and would be rejected as too_large",
                f"raise {_MAX_BYTES} of that topic (and message.max.bytes in [kafka.producer])",
            )
        ]
    return [ok(f"sizes: a match of the largest sampled records takes {match} of {bound} bytes")]
