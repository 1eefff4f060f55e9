"""The examination from its questions to its lines, in the order in which they are told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.doctor.broker import Asked, broker_findings
from app.doctor.broker import Cluster as Bounds
from app.doctor.finding import Finding, Level, fail, ok
from app.doctor.partitioner import partitioner_findings
from app.doctor.registry import registry_findings
from app.doctor.rights import GROUP, Resource, creation_findings, needed_by, right_findings
from app.doctor.sample import sample, sample_findings
from app.doctor.times import overlap_findings, time_findings
from app.doctor.topics import size_findings, topic_findings
from app.formats import job_schemas, make_codec
from app.kafka.inputs import consumer_properties
from app.kafka.inspection import Inspection, refused_transaction
from app.kafka.limits import Limits, producer_properties
from app.kafka.scan import Scanner
from app.topics import missing_input, names, plan
from app.validity import limits_of
from schemas.records import Side
from schemas.times import RFC3339, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.config import Config
    from app.kafka.cluster import Topic

_SESSION_TIMEOUT_MS = 45_000
"""The client's own default, where the job's configuration has none."""


def examine(config: Config) -> Iterator[Finding]:
    """Every finding, as soon as there is one. Raises Unreachable where no broker answers."""
    cluster = Inspection(config)
    yield ok(f"broker: answers at {config.bootstrap_servers}")
    brokers = cluster.brokers()
    yield from broker_findings(Bounds(brokers.number, brokers.settings), _asked(config))

    seen = cluster.look(names(config).values())
    needed = needed_by(config)
    resources = [
        Resource("topic", name, needed[name], one.rights)
        for name, one in seen.items()
        if one.topic is not None or one.refused
    ]
    group = cluster.group_rights(config.name)
    if group is not None:  # One that does not exist yet cannot be asked about.
        resources.append(Resource("group", config.name, GROUP, group))
    yield from right_findings(resources)
    refusal = refused_transaction(config)
    if refusal:
        yield fail(
            f"transactions: the broker refuses them: {refusal}",
            f"allow Describe and Write on transactional ids that begin with {config.name}-",
        )
    else:
        yield ok(f"transactions: ids that begin with {config.name}- are allowed")

    found = {name: one.topic for name, one in seen.items() if one.topic is not None}
    schemas = job_schemas(config)
    told = [] if schemas is None else registry_findings(config, schemas)
    yield from told
    readable = not told or told[0].level is Level.OK
    if any(one.refused for one in seen.values()):
        return  # What may not be looked at was told, and no more can be said.
    yield from _of_topics(config, found, brokers.number, brokers.rights)
    inputs = [seen[config.side(side).topic] for side in Side]
    readable = readable and all(one.rights is None or "Read" in one.rights for one in inputs)
    if all(one.topic is not None for one in inputs) and readable:
        yield from _of_records(config, cluster, found)


def _of_topics(
    config: Config,
    found: Mapping[str, Topic],
    brokers: int,
    rights: frozenset[str] | None,
) -> Iterator[Finding]:
    missing = [side for side in Side if config.side(side).topic not in found]
    if missing:
        for side in missing:
            yield fail(f"topics: {missing_input(config, side)}")
        return
    planned = plan(config, found, None, create_inputs=False)
    absent = {what: name for what, name in names(config).items() if name not in found}
    yield from creation_findings(absent, rights)
    yield from topic_findings(config, found, planned, brokers)


def _of_records(
    config: Config, cluster: Inspection, found: Mapping[str, Topic]
) -> Iterator[Finding]:
    """What a sample of both inputs shows."""
    codec = make_codec(config)
    scanner = Scanner(config)
    try:
        left, right = (
            sample(
                config,
                side,
                cluster.extents(config.side(side).topic, found[config.side(side).topic].partitions),
                scanner,
                codec,
            )
            for side in Side
        )
    finally:
        scanner.close()
    limits = limits_of(config.lateness, config.max_interval, None)
    now_ms = int(time.time() * 1000)
    for sampled in (left, right):
        yield from sample_findings(sampled, limits)
    yield from partitioner_findings(left.placement, right.placement)
    units = [config.fields(side).units.ts or config.unit for side in Side]
    declared = [config.unit if own == RFC3339 else own for own in units]
    left_times, right_times = (
        one.times(scale_of(own, config.unit))
        for one, own in zip((left, right), declared, strict=True)
    )
    for of_side, own in zip((left_times, right_times), declared, strict=True):
        yield from time_findings(of_side, config.unit, own, now_ms, config.max_future)
    reach = config.lateness + 2 * config.max_interval
    yield from overlap_findings(left_times, right_times, config.unit, reach)
    largest = {one.side: one.largest for one in (left, right) if one.reads}
    bound = config.producer_properties().get("message.max.bytes")
    yield from size_findings(config, found, largest, None if bound is None else int(bound))


def _asked(config: Config) -> Asked:
    consumer = consumer_properties(config, config.name)
    producer = producer_properties(config, config.name, Limits(1, 1, 1))
    return Asked(
        int(producer["transaction.timeout.ms"]),
        int(consumer.get("session.timeout.ms", _SESSION_TIMEOUT_MS)),
        consumer.get("group.protocol", "classic") == "classic",
    )
