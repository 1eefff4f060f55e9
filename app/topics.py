"""The five topics of a job: what they should be, what they are, and creating what is missing.

Invariant: nothing that exists is ever changed. Where something existing stands in the way, a
person is told which topic, what it is, what it should be and how to mend it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from app.errors import UsageError
from app.kafka.cluster import Cluster, NewSpec, Refused, Topic
from app.rights import missing, needed
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.config import Config

SPARE_BYTES: Final = 1 << 20
"""Room in changelog and rejects for what is added to a largest input: rows, headers, checkpoint."""

_WORKER_WAIT_SECONDS: Final = 10.0
"""A worker waits for ever, but says so in between."""

_INPUTS: Final = ("left topic", "right topic")
_OUTPUT_TOPIC: Final = "output topic"
_MAX_BYTES: Final = "max.message.bytes"
_IN_SYNC: Final = "min.insync.replicas"
_FOR_EVER: Final[Mapping[str, str]] = {"retention.ms": "-1"}
_CHANGELOG: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
_OUTPUT: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}

_log: Final = structlog.get_logger()


class Difference(NamedTuple):
    """A setting of an existing topic that only a person may change."""

    topic: str
    text: str


class Plan(NamedTuple):
    """What is to be done about the topics.

    problems: what a person must settle before anything is created. differences: what a person must
    change, which keeps nothing from being created. notes: what is merely worth knowing.
    """

    lanes: int
    create: list[NewSpec]
    problems: list[str]
    differences: list[Difference]
    notes: list[str]


def names(config: Config) -> dict[str, str]:
    """The job's topics, by what they are to it."""
    return {
        "left topic": config.left.topic,
        "right topic": config.right.topic,
        _OUTPUT_TOPIC: config.output.topic,
        "changelog topic": config.changelog_topic,
        "rejects topic": config.rejects_topic,
    }


def plan(
    config: Config, found: Mapping[str, Topic], partitions: int | None, *, create_inputs: bool
) -> Plan:
    """Compare the topics that were found with what the job needs. Pure.

    `partitions` is what was asked for; None takes it from the inputs.
    """
    counts = {
        side: found[config.side(side).topic].partitions
        for side in Side
        if config.side(side).topic in found
    }
    problems = _count_problems(config, counts, partitions)
    lanes = next(iter(counts.values()), partitions or 0)
    if problems:
        return Plan(lanes, [], problems, [], [])
    if len(counts) < len(Side) and not create_inputs:
        problems += [missing_input(config, side) for side in Side if side not in counts]
    elif lanes == 0:
        problems.append(
            f'neither left topic "{config.left.topic}" nor right topic "{config.right.topic}" '
            "exists: say how many partitions they shall have with --partitions N"
        )
    made = Plan(lanes, [], problems, [], [])
    for what, spec in zip(names(config), _wanted(config, found, lanes), strict=True):
        if spec.name not in found:
            made.create.append(spec)
        elif what not in _INPUTS:
            _compare(what, spec, found[spec.name], made)
    return made._replace(create=[]) if problems else made


def missing_input(config: Config, side: Side) -> str:
    """What is said of an input that does not exist."""
    return (
        f'{side.name.lower()} topic "{config.side(side).topic}" does not exist: create it, for '
        f"example with: spanjoin topics -c {config.path} --partitions N"
    )


def unequal(config: Config, left: int, right: int) -> str:
    """What is said of inputs whose partition counts differ."""
    return (
        f'left topic "{config.left.topic}" has {_counted(left)}, right topic '
        f'"{config.right.topic}" has {_counted(right)}: they must have the same number; '
        f"if the job has state, `spanjoin reshard --partitions {max(left, right)}` gives the other "
        f"as many and moves it; if not, recreate one of them and load it again, because keys "
        f"do not move when partitions are added"
    )


def _count_problems(
    config: Config, counts: Mapping[Side, int], partitions: int | None
) -> list[str]:
    if len(set(counts.values())) > 1:
        return [unequal(config, counts[Side.LEFT], counts[Side.RIGHT])]
    if partitions is None:
        return []
    return [
        f'{side.name.lower()} topic "{config.side(side).topic}" has {_counted(count)}, '
        f"not {partitions}: run this without --partitions, or recreate the topic"
        for side, count in counts.items()
        if count != partitions
    ]


def _wanted(config: Config, found: Mapping[str, Topic], lanes: int) -> list[NewSpec]:
    """All five as they would be created."""
    input_bytes = [
        int(found[config.side(side).topic].settings[_MAX_BYTES])
        for side in Side
        if config.side(side).topic in found
    ]
    # An input that does not exist yet will have the broker's default, unknown until then; the
    # broker's own default for the new topics is then the same, so nothing is said.
    larger = {_MAX_BYTES: str(max(input_bytes) + SPARE_BYTES)} if input_bytes else {}
    return [
        NewSpec(config.left.topic, lanes, _FOR_EVER),
        NewSpec(config.right.topic, lanes, _FOR_EVER),
        NewSpec(config.output.topic, lanes, _OUTPUT),
        NewSpec(config.changelog_topic, lanes, {**_CHANGELOG, **larger}),
        NewSpec(config.rejects_topic, lanes, larger),
    ]


def _compare(what: str, wanted: NewSpec, found: Topic, made: Plan) -> None:
    """Add to the plan how an existing topic of ours differs from what it should be."""
    topic = f'{what} "{wanted.name}"'
    if what != _OUTPUT_TOPIC and found.partitions != wanted.partitions:
        made.problems.append(
            f"{topic} has {_counted(found.partitions)}, but the inputs have {wanted.partitions}: "
            "the number must not change under existing state; "
            + _mend(found.partitions, wanted.partitions)
        )
    wanted_copies = int(found.settings.get(_IN_SYNC, 1))
    if wanted_copies > found.replicas:
        made.problems.append(
            f"{topic} has {_IN_SYNC}={wanted_copies}, but only {found.replicas} replicas: nothing "
            f"can be written to it; lower the one with kafka-configs.sh, or raise the other with "
            f"kafka-reassign-partitions.sh"
        )
    for setting, value in wanted.settings.items():
        has = found.settings.get(setting, "")
        if setting == _MAX_BYTES:
            if int(has) < int(value):
                made.notes.append(
                    f"{topic} has {setting}={has}; {value} would hold the inputs' largest records"
                )
        elif has != value:
            why = ", or matches of old events are deleted at once" * (what == _OUTPUT_TOPIC)
            text = (
                f"{topic} has {setting}={has}, but must have {setting}={value}{why}: change it "
                f"with kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {wanted.name} "
                f"--add-config {setting}={value}"
            )
            made.differences.append(Difference(wanted.name, text))


def _mend(lanes: int, partitions: int) -> str:
    """What can be done about inputs with another number of partitions than the state has lanes."""
    if lanes < partitions:
        return f"move it with `spanjoin reshard --partitions {partitions}`"
    return "recreate the inputs as they were, or start over with `spanjoin reset`"


def _counted(partitions: int) -> str:
    return f"{partitions} partition" + ("" if partitions == 1 else "s")


def create_topics(
    cluster: Cluster, config: Config, partitions: int | None, *, create_inputs: bool
) -> Plan:
    """Create what is missing, unless something existing stands in the way.

    The plan's problems are for the caller to tell; with any, nothing was created.
    """
    found = cluster.topics(names(config).values())
    first = plan(config, found, partitions, create_inputs=create_inputs)
    if first.problems:
        return first
    inputs = [s for s in first.create if s.name in {config.left.topic, config.right.topic}]
    if not inputs:
        cluster.create(first.create)
        return first
    # The inputs first: what they got as the largest record decides about the others.
    cluster.create(inputs)
    rest = plan(config, cluster.topics(names(config).values()), None, create_inputs=False)
    cluster.create(rest.create)
    return rest._replace(create=[*inputs, *rest.create])


def describe(config: Config, done: Plan) -> list[str]:
    """What was done, one line for each topic, and what is worth knowing."""
    created = {spec.name: spec for spec in done.create}
    lines = []
    for what, name in names(config).items():
        spec = created.get(name)
        if spec is None:
            lines.append(f'{what} "{name}" exists')
            continue
        settings = ", ".join(f"{key}={value}" for key, value in spec.settings.items())
        line = f'{what} "{name}" created with {_counted(spec.partitions)}'
        line += f", {settings}" if settings else ""
        if spec.settings is _FOR_EVER:
            line += " (its records are kept for ever)"
        lines.append(line)
    return [*lines, *(f"note: {note}" for note in done.notes)]


def prepare_topics(config: Config) -> int:
    """Make the topics ready for a worker: all but the inputs are created when missing.

    Returns the number of lanes. Raises Unreachable where no broker answers for a while, UsageError
    where a person must change something.
    """
    cluster = Cluster(config, _WORKER_WAIT_SECONDS)
    try:
        done = create_topics(cluster, config, None, create_inputs=False)
    except Refused as refusal:
        if not refusal.unauthorized:
            raise
        raise UsageError(f"{refusal}{needed(names(config), refusal.thing)}") from None
    # An output that is not compacted only grows; a changelog that is not kept loses the state.
    fatal = [text for topic, text in done.differences if topic != config.output.topic]
    if done.problems or fatal:
        raise UsageError("; ".join([*done.problems, *fatal]))
    if lacking := missing(names(config), cluster.topics(names(config).values())):
        raise UsageError("; ".join(lacking))
    for difference in done.differences:
        _log.warning("topic differs", note=difference.text)
    for spec in done.create:
        _log.info("topic created", topic=spec.name, partitions=spec.partitions)
    for note in done.notes:
        _log.warning("topic differs", note=note)
    return done.lanes
