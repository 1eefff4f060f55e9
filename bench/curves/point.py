"""One point of a curve, measured in a process of its own; prints its figures as JSON.

Usage: python -m bench.curves.point SETTING (JSON)
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.curves.events import Setting, events
from bench.curves.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.curves.events import Incoming


def main() -> None:
    setting = Setting(**json.loads(sys.argv[1]))
    coming = events(setting)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spanjoin-bench-")))
        lanes = Lanes(setting, directory)
        stack.callback(lanes.close)
        gc.collect()
        gc.freeze()
        gc.disable()
        for batch in _batches(islice(coming, setting.fill), setting.turn):
            lanes.step(lanes.polled(batch))
        print(json.dumps(_measured(lanes, setting, coming)))


def _batches(coming: Iterator[Incoming], size: int) -> Iterator[list[Incoming]]:
    while batch := list(islice(coming, size)):
        yield batch


def _measured(lanes: Lanes, setting: Setting, coming: Iterator[Incoming]) -> dict[str, Any]:
    """Processor time of the whole process, RocksDB's threads included, and each turn's own."""
    matches, loads = lanes.matches, lanes.loads
    cpu_s, turns = 0.0, []
    for batch in _batches(coming, setting.turn):
        polled, dropped = lanes.polled(batch), lanes.dropped
        began, cpu = time.perf_counter(), time.process_time()
        lanes.step(polled)
        cpu_s += time.process_time() - cpu
        turns.append([(time.perf_counter() - began) * 1000, lanes.dropped - dropped])
    return {
        "us": cpu_s / setting.records * 1e6,
        "matches": (lanes.matches - matches) / setting.records,
        "loads": (lanes.loads - loads) / setting.records,
        "rows": lanes.rows,
        "turns": turns,
    }


if __name__ == "__main__":
    main()
