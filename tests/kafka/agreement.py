"""What `spanjoin check` says of a job when its test is over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.checking.run import check_output
from app.config import load_config
from app.errors import UsageError
from app.topics import names
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.config import Config
    from tests.kafka.reading import Cluster

DECIDED_WITHIN_S: Final = 30
"""A worker that was killed may have left a transaction open."""
NAMED_MAX: Final = 5


def job_of(command: Sequence[str], environ: Mapping[str, str]) -> Config | None:
    """The job that a worker of this command runs; None where its configuration is refused.

    Without what makes its consumers slow.
    """
    paths = [word for word in command if word.endswith(".toml")]
    if not paths:
        return None
    try:
        found = load_config(Path(paths[0]), {**os.environ, **environ})
    except UsageError:
        return None
    common = {name: value for name, value in found.kafka.items() if name != "consumer"}
    return found.model_copy(update={"kafka": common})


def assert_agrees(cluster: Cluster, job: Config) -> None:
    """Compare the output of a job that no worker has now with a batch join over its inputs.

    In this process, for Python's start would take longer. A job whose worker never made its topics
    has nothing to compare.
    """
    topics = names(job).values()
    if not all(cluster.partitions(topic) for topic in topics):
        return
    eventually(
        lambda: all(cluster.decided(topic) for topic in topics),
        DECIDED_WITHIN_S,
        lambda: f"a transaction of {job.name} is open",
    )
    verdict = check_output(job, NAMED_MAX)
    assert verdict.equal, f"{verdict.faults} in {job.output.topic}: {verdict.examples}"
