"""The server properties of a single-node broker for short runs, and how they are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT_RUN: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One node cannot replicate.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fifty partitions of each internal topic cost a second of start and nobody needs them.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # A test waits for a member that died, for a transaction that hangs, for a broker that was
    # killed: the defaults are made for machines that are away for minutes.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Small memory and little disk.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "1048576",
    "queued.max.requests": "64",
}


def as_properties_file(properties: Mapping[str, str]) -> str:
    """The text of a `server.properties`; a backslash in a value is escaped for Java's reader."""
    return "".join(
        f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in properties.items()
    )


def as_environment(properties: Mapping[str, str]) -> dict[str, str]:
    """The same as variables of Kafka's own image: `a.b-c` is KAFKA_A_B__C, `_` is `___`."""
    return {
        "KAFKA_" + name.replace("_", "___").replace("-", "__").replace(".", "_").upper(): value
        for name, value in properties.items()
    }
