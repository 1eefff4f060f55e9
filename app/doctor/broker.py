"""What the brokers allow against what the job asks for: version, transactions, group, sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.doctor.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

_SINCE_3_6: Final = "transaction.partition.verification.enable"
"""A setting that brokers have from 3.6 on, which is what exactly-once needs."""
_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"


class Asked(NamedTuple):
    """What the job's clients ask for; times in ms, sizes in bytes."""

    transaction_timeout_ms: int
    session_timeout_ms: int
    classic: bool
    """Whether the group uses the classic protocol, where the client chooses its session."""


class Cluster(NamedTuple):
    """The brokers: how many, and the settings of one; None where they may not be looked at."""

    brokers: int
    settings: Mapping[str, str] | None


def broker_findings(cluster: Cluster, asked: Asked) -> list[Finding]:
    """Whether the brokers are new enough, and allow what the job asks for."""
    settings = cluster.settings
    if settings is None:
        return [
            warn(
                "broker: its settings may not be looked at, so version and bounds are unknown",
                "allow DescribeConfigs on the cluster to see them",
            )
        ]
    return [_version(settings), _transactions(settings, asked), _session(settings, asked)]


def _version(settings: Mapping[str, str]) -> Finding:
    if _SINCE_3_6 not in settings:
        return fail(
            "broker: older than 3.6, which cannot verify transactions",
            "upgrade it: results may be written twice",
        )
    if settings[_SINCE_3_6] != "true":
        return fail(
            f"broker: {_SINCE_3_6} is off, so transactions are not verified",
            f"set {_SINCE_3_6}=true",
        )
    return ok("broker: 3.6 or newer, transactions are verified")


def _transactions(settings: Mapping[str, str], asked: Asked) -> Finding:
    bound = _number(settings, "transaction.max.timeout.ms")
    if bound is not None and asked.transaction_timeout_ms > bound:
        return fail(
            f"transactions: transaction.timeout.ms is {asked.transaction_timeout_ms}, and the "
            f"broker allows {bound} (transaction.max.timeout.ms)",
            "lower it in [kafka.producer]",
        )
    return ok(f"transactions: may take {asked.transaction_timeout_ms} ms")


def _session(settings: Mapping[str, str], asked: Asked) -> Finding:
    if not asked.classic:
        protocols = settings.get(_PROTOCOLS, "")
        if "consumer" not in protocols:
            return fail(
                'group: the broker does not offer group.protocol "consumer"',
                "remove it from [kafka.consumer]",
            )
        session_ms = settings.get("group.consumer.session.timeout.ms", "?")
        return warn(
            f"group: a dead worker is noticed after {session_ms} ms, as the broker says; with "
            f'group.protocol "consumer" a broker that was restarted may be unable to load the '
            f"group for good (seen with 4.2.1)",
            "remove it from [kafka.consumer], unless you need it",
        )
    low = _number(settings, "group.min.session.timeout.ms")
    high = _number(settings, "group.max.session.timeout.ms")
    session_ms_asked = asked.session_timeout_ms
    if (low is not None and session_ms_asked < low) or (
        high is not None and session_ms_asked > high
    ):
        return fail(
            f"group: session.timeout.ms is {session_ms_asked}, and the broker allows {low} to "
            f"{high}",
            "change it in [kafka.consumer]",
        )
    return ok(f"group: a dead worker is noticed after {session_ms_asked} ms")


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
