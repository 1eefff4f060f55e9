"""The demo on a few days of data: joins, kills, restarts, agrees with SQL, leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from app.broker import ENVIRONMENT_NAME, Broker

if TYPE_CHECKING:
    from pathlib import Path

DEMO = "import sys; from app.demo import run_demo; sys.exit(run_demo(days=5))"


@pytest.mark.timeout(240)
def test_the_demo_agrees_with_sql_and_leaves_nothing(broker: Broker, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        ENVIRONMENT_NAME: broker.bootstrap_servers,
        "TMPDIR": str(tmp_path),
        # A job of the user's own is none of the demo's business.
        "SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9",
        "SPANJOIN_JOIN__MAX_INTERVAL": "1s",
    }
    done = subprocess.run(
        [sys.executable, "-c", DEMO],
        capture_output=True, text=True, env=environ, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL to worker 2" in done.stdout
    assert "worker 2 is started again" in done.stdout
    assert "UA 1545, EWR 05:17-09:04: 39 F, wind 13 mph" in done.stdout
    assert "every match exactly once, none missing, none extra" in done.stdout
    assert list(tmp_path.iterdir()) == []
