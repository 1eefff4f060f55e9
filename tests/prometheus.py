"""A Prometheus that scrapes workers, where it is installed (Debian: the package prometheus)."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from typing import TYPE_CHECKING, Any, Final, Self

from tests.kafka.workers import HOST, eventually, free_port, get

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

FOUND: Final = shutil.which("prometheus")
START_WITHIN_S: Final = 30.0
STOP_WITHIN_S: Final = 10.0
_CONFIG: Final = """\
global: {scrape_interval: %s}
scrape_configs:
  - job_name: spanjoin
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
"""

Series = tuple[dict[str, str], list[tuple[float, float]]]
"""Labels, and (seconds since 1970, value) in order."""


class Prometheus:
    """One process with its data in a directory of its own; entered, it runs."""

    def __init__(self, directory: Path, scrape_interval: str = "1s") -> None:
        assert FOUND is not None, "there is no Prometheus"
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "prometheus.yml").write_text(_CONFIG % scrape_interval, "utf-8")
        self.scrape([])
        self._port = free_port()

    def scrape(self, ports: list[int]) -> None:
        """From now on these ports of this machine, and no others."""
        targets = [{"targets": [f"{HOST}:{port}" for port in ports]}]
        new = self._directory / "targets.new"
        new.write_text(json.dumps(targets), "utf-8")
        new.rename(self._directory / "targets.json")

    def __enter__(self) -> Self:
        assert FOUND is not None, "there is no Prometheus"
        log = self._directory / "prometheus.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [FOUND, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address={HOST}:{self._port}"],
                cwd=self._directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        eventually(lambda: get(self._port, "/-/ready")[0] == 200, START_WITHIN_S, log.read_text)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def over(self, query: str, begin_s: float, end_s: float, step_s: float) -> list[Series]:
        """What a query comes to from one time to another. Raises AssertionError where it fails."""
        asked = urllib.parse.urlencode(
            {"query": query, "start": begin_s, "end": end_s, "step": step_s}
        )
        code, text = get(self._port, f"/api/v1/query_range?{asked}")
        assert code == 200, f"{query}: {text}"
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return [
            (one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found
        ]
