"""Runs a worker that tells in its log of each key that it reads from a store.

python -m tests.kafka.telling CONFIG
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from app import log
from app.config import load_config
from app.run import run_worker
from state.store import LaneStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from state.keys import StoredRow
    from tests.kafka.workers import Worker

_WORD = "reads from its store: "
_windows = LaneStore.windows


def _telling(store: LaneStore, buckets: Sequence[int], keys: Collection[bytes]) -> list[StoredRow]:
    for key in keys:
        sys.stdout.write(f"{_WORD}{key.decode()}\n")
    sys.stdout.flush()
    return _windows(store, buckets, keys)


def read_from_store(worker: Worker) -> list[str]:
    """The keys that such a worker has read, in order."""
    lines = worker.log.read_text().splitlines()
    return [line.removeprefix(_WORD) for line in lines if line.startswith(_WORD)]


if __name__ == "__main__":
    config = load_config(Path(sys.argv[1]))
    log.configure(config.log)
    with patch.object(LaneStore, "windows", _telling):
        sys.exit(run_worker(config))
