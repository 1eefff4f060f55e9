"""Kafka's own jars, fetched once through Maven into the user's cache, and a Java to run them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.broker.interface import KAFKA_VERSION, BrokerUnavailable, log_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

JAVA_VERSION_MIN: Final = 17
FETCH_TIMEOUT_S: Final = 600.0

_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>spanjoin</groupId><artifactId>broker</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


def find_java(environ: Mapping[str, str], version_min: int = JAVA_VERSION_MIN) -> str | None:
    """The `java` of JAVA_HOME, else of PATH, if it is new enough; unless said, for this Kafka."""
    candidates = [shutil.which("java", path=environ.get("PATH"))]
    if environ.get("JAVA_HOME"):
        candidates.insert(0, str(Path(environ["JAVA_HOME"], "bin", "java")))
    for candidate in candidates:
        if candidate is not None and _java_version(candidate) >= version_min:
            return candidate
    return None


def _java_version(java: str) -> int:
    try:
        done = subprocess.run(  # noqa: S603 - a program found on PATH, fixed arguments
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else 0


def find_jars(
    environ: Mapping[str, str], say: Callable[[str], None], version: str = KAFKA_VERSION
) -> Path | None:
    """The directory of Kafka's jars, filled through Maven the first time; None without Maven.

    Raises:
        BrokerUnavailable: Maven could not fetch them.
    """

    def goal(work: Path, target: Path) -> list[str]:
        (work / "pom.xml").write_text(_POM.replace("VERSION", version))
        return [
            "-f", str(work / "pom.xml"),
            "dependency:copy-dependencies", f"-DoutputDirectory={target}",
        ]  # fmt: skip

    return fetched(f"kafka-{version}", "43 MB", goal, environ, say)


def fetched(
    name: str,
    size: str,
    goal: Callable[[Path, Path], list[str]],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> Path | None:
    """The directory of this name in the user's cache, filled through Maven the first time.

    `goal` is given a directory to work in and the one to fill, and says what Maven is to do. None
    without Maven.

    Raises:
        BrokerUnavailable: Maven could not fetch it.
    """
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "spanjoin")
    kept = cache / name
    if kept.is_dir():
        return kept
    maven = shutil.which("mvn", path=environ.get("PATH"))
    if maven is None:
        return None
    say(f"fetching {name} through Maven: {size}, once")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
        work, target = Path(folder), Path(folder, "fetched")
        # Without a project, Maven puts its markers where it is called.
        _run([maven, "-q", "-B", *goal(work, target)], work, name, environ)
        try:
            target.rename(kept)
        except OSError:
            # Somebody else fetched it meanwhile: theirs is as good.
            if not kept.is_dir():
                raise
    return kept


def _run(command: list[str], work: Path, name: str, environ: Mapping[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - a program found on PATH, fixed arguments
        command,
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
        env=dict(environ),
    )
    if done.returncode != 0:
        raise BrokerUnavailable(f"Maven could not fetch {name}: {log_tail(done.stdout)}")
