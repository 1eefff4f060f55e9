"""The first moments of a worker: what it imports when, and what a signal does meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.jobs import MINIMAL, write_job

NOWHERE = MINIMAL.replace("localhost:9092", "127.0.0.1:1")


def imported(code: str) -> set[str]:
    """The packages that Python has after running this."""
    shown = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_nothing_is_imported_before_a_signal_is_heard() -> None:
    own = imported("import app.__main__") - imported("import signal, typing")
    assert own <= {"__future__", "app"}


def test_a_worker_imports_no_more_than_it_needs() -> None:
    found = imported("import app.__main__; app.__main__._import_log(); import app.cli, app.run")
    assert {"structlog", "pydantic", "confluent_kafka", "rocksdict"} <= found
    assert found & {"rich", "pyarrow", "duckdb", "pygments"} == set()
    # And yet it is there for whoever draws a table.
    assert "rich" in imported("import app.__main__; app.__main__._import_log(); import rich.table")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_stops_as_soon_as_it_has_begun(tmp_path: Path, number: signal.Signals) -> None:
    config = write_job(tmp_path, NOWHERE)
    worker = subprocess.Popen(
        [sys.executable, "-m", "app", "run", "-c", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with worker:
        until = time.monotonic() + 30
        while signal.SIGTERM not in caught(worker.pid):
            assert time.monotonic() < until
        worker.send_signal(number)
        assert worker.wait(30) == 0
        assert worker.stderr is not None
        assert worker.stderr.read() == b""


def caught(pid: int) -> set[int]:
    """The signals for which a process has handlers."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}
