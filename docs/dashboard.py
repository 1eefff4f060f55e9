"""What the dashboard's panels show of a job that lives through something, as JSON.

A broker, workers and a Prometheus run for some minutes; a worker joins, one is killed, another
comes. `draw.py` makes a picture of it. Usage: python -m docs.dashboard FILE
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from app.broker import start_broker
from tests.deploy import dashboard
from tests.kafka.busy import Busy
from tests.kafka.harness import Harness
from tests.prometheus import Prometheus

STEP_S: Final = 2.0
RATE: Final = 1_000
PART_S: Final = 60.0


def main() -> None:
    """Live through it, and write what was seen."""
    with tempfile.TemporaryDirectory() as folder, start_broker(say=print) as broker:
        kafka = Harness(broker.bootstrap_servers, Path(folder))
        try:
            with Prometheus(kafka.directory / "prometheus") as prometheus:
                began = time.time()
                _live(Busy(kafka, RATE), prometheus)
                seen = _panels(prometheus, began, time.time())
        finally:
            kafka.close()
    Path(sys.argv[1]).write_text(json.dumps(seen), "utf-8")


def _live(busy: Busy, prometheus: Prometheus) -> None:
    for change in (busy.start, busy.start, busy.kill, busy.start):
        change()
        prometheus.scrape(busy.ports)
        busy.go_on(PART_S)


def _panels(prometheus: Prometheus, began_s: float, ended_s: float) -> list[dict[str, Any]]:
    """Each panel as it stands in the dashboard, and the lines of its queries."""
    panels = []
    for panel in dashboard()["panels"]:
        lines = []
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "15s").replace("$job", ".*")
            for labels, points in prometheus.over(query, began_s, ended_s, STEP_S):
                name = target["legendFormat"]
                for label, value in labels.items():
                    name = name.replace(f"{{{{{label}}}}}", value)
                lines.append({"name": name, "points": points})
        panels.append({**panel, "lines": lines})
    return panels


if __name__ == "__main__":
    main()
