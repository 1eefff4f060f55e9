"""The queries of dashboard and alerts, evaluated by Prometheus' own tool, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.deploy import DEPLOY, alerts, exposed, panel_queries

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client.samples import Sample

PROMTOOL: Final = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: the package prometheus)"
)

PATIENCE_S: Final = 60
SAMPLES: Final = 4 * 60
"""One in 15 s, for an hour: longer than any alert waits or looks back."""
ASCENDING: Final = f"0+20x{SAMPLES}"

IN_TROUBLE: Final = {
    "up": "0",
    "spanjoin_lanes": "2",
    "spanjoin_input_lag": f"20000+20x{SAMPLES}",
    "spanjoin_watermark": "7",
}
"""A job that has every trouble at once; any other gauge is 1, any other counter goes up."""

GOES_UP: Final = (
    "records", "inserts", "matches", "turn_seconds", "commit_seconds", "windows_opened",
)  # fmt: skip
"""Counters that go up while all is well."""
WELL: Final = {"up": "1", "spanjoin_lanes": "1", "spanjoin_watermark": ASCENDING}


def values(sample: Sample, said: dict[str, str], *, slow: bool, up: tuple[str, ...]) -> str:
    """What it was over the hour, in promtool's notation."""
    if sample.name in said:
        one = said[sample.name]
    elif sample.name.endswith("_bucket"):
        # Turns of 1 s at most, or of more than 5 s.
        counts = float(sample.labels["le"]) > 5 or not slow
        one = ASCENDING if counts and sample.name.startswith(up) else "0"
    elif sample.name.endswith(("_total", "_count", "_sum")):
        one = ASCENDING if sample.name.startswith(up) else "0"
    elif "phase" in sample.labels:
        one = str(int(sample.labels["phase"] == "running"))
    else:
        one = "1" if slow else "0"
    return one if "x" in one else f"{one}x{SAMPLES}"


def series(said: dict[str, str], *, slow: bool, up: tuple[str, ...]) -> list[dict[str, str]]:
    """All that a worker exposes, as it is scraped."""
    found = []
    for sample in exposed():
        labels = {**sample.labels, "job": "spanjoin", "instance": "worker:8080"}
        named = ",".join(f'{name}="{value}"' for name, value in labels.items())
        found.append({
            "series": f"{sample.name}{{{named}}}",
            "values": values(sample, said, slow=slow, up=up),
        })  # fmt: skip
    return found


def firing(alert: str) -> str:
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


def is_there(query: str) -> dict[str, Any]:
    """That the query finds something at the end of the hour."""
    one = [{"labels": "{}", "value": 1}]
    return {"expr": f"count({query}) > bool 0", "eval_time": "1h", "exp_samples": one}


def judge(tests: list[dict[str, Any]], directory: Path) -> None:
    file = directory / "tests.yml"
    rules = str(DEPLOY / "alerts.yml")
    # JSON is YAML, too.
    file.write_text(
        json.dumps({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests})
    )
    run("test", "rules", str(file))


def run(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_the_configuration() -> None:
    run("check", "rules", str(DEPLOY / "alerts.yml"))
    run("check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml"))


def test_every_panel_has_data_and_every_alert_fires_where_there_is_trouble(tmp_path: Path) -> None:
    queries = [query.replace("$job", "spanjoin") for _, query in panel_queries()]
    expected = [is_there(query) for query in queries]
    expected += [is_there(firing(alert["alert"])) for alert in alerts()]
    trouble = series(IN_TROUBLE, slow=True, up=("spanjoin_", "process_"))
    judge([{"interval": "15s", "input_series": trouble, "promql_expr_test": expected}], tmp_path)


def test_no_alert_fires_where_all_is_well(tmp_path: Path) -> None:
    well = series(WELL, slow=False, up=tuple(f"spanjoin_{name}" for name in GOES_UP))
    nothing = {"expr": "ALERTS", "eval_time": "1h", "exp_samples": []}
    judge([{"interval": "15s", "input_series": well, "promql_expr_test": [nothing]}], tmp_path)


def test_a_job_without_any_worker_is_told_of(tmp_path: Path) -> None:
    well = series(WELL, slow=False, up=tuple(f"spanjoin_{name}" for name in GOES_UP))
    until = SAMPLES // 4
    gone = [
        {**one, "values": one["values"].replace(f"x{SAMPLES}", f"x{until} stale")} for one in well
    ]
    expected = [
        {"expr": "up", "eval_time": "1h", "exp_samples": []},
        is_there(firing("SpanjoinLanesNotRunning")),
    ]
    judge([{"interval": "15s", "input_series": gone, "promql_expr_test": expected}], tmp_path)
