"""What stands in deploy/, read for the tests: the queries of the dashboard and of the alerts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import promql_parser
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from app.effects import Counts
from app.metrics import LaneFigures, Metrics, SideFigures
from schemas.records import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
DEPLOY: Final = ROOT / "deploy"


def dashboard() -> dict[str, Any]:
    """Grafana's."""
    found = json.loads((DEPLOY / "grafana" / "spanjoin.json").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def panel_queries() -> Iterator[tuple[str, str]]:
    """The dashboard's: the title of the panel, and the query."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m")


def alerts() -> list[dict[str, Any]]:
    """Prometheus' rules."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
    return list(group["rules"])


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Every series that a query names. Raises ValueError where it is no PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def grouped_by(query: str) -> set[str]:
    """The labels that its aggregations keep."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.update(node.modifier.labels)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


QUERIES: Final = [
    *panel_queries(),
    *((alert["alert"], alert["expr"]) for alert in alerts()),
]
NAMES: Final = {str(one.name) for _, query in QUERIES for one in selectors(query)}
"""Every metric that is named, with the ending of its samples."""

NOT_OURS: Final = ("up", "process_cpu_seconds_total", "process_resident_memory_bytes")
"""What Prometheus and its client expose by themselves."""


def exposed() -> list[Sample]:
    """Every sample of a worker with a lane."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    side = SideFigures(1, 1, 1)
    metrics.lane(0, LaneFigures("running", 1, 1, 1, 1, (side, side), 1.0, 1.0, 1, 1, 1, 1))
    metrics.counted(0, Counts(rejected={Reason.LATE: 1}), (1, 1))
    metrics.worker(1, away=False)
    metrics.suspect(())
    metrics.turn(1, 1)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    ours = [sample for family in families for sample in family.samples]
    return [*ours, *(Sample(name, {}, 1.0) for name in NOT_OURS)]
