"""What stands in deploy/, read for the tests: the queries of the dashboard and of the alerts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import promql_parser
import yaml

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
