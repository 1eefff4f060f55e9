"""Follows the output topic while the workers run and writes its whole committed log to a file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import fastavro

from app.kafka.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.config import Config
    from app.kafka.cluster import Cluster
    from app.kafka.scan import Read

HEADER_BYTES: Final = 10
"""Of Avro's single-object encoding; behind it a match begins with its overlap."""
_OVERLAP: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Overlap",
        "fields": [{"name": "start", "type": "long"}, {"name": "end", "type": "long"}],
    }
)
SAMPLE_EVERY: Final = 300_000
SHOWN: Final = "L:UA1545/2013-01-01T10:15Z/EWR|R:EWR/2013-01-01T10Z"
"""The year's first flight and the hour in which it left: always among the samples."""

# A tab and a newline are in none of the demo's ids.
LOAD_SQL: Final = """
create or replace table log as
from read_csv(
    $path, auto_detect = false, delim = '\t', header = false, quote = '', nullstr = '',
    columns = {
        match: 'varchar', gone: 'boolean', overlap_start: 'bigint', overlap_end: 'bigint',
        place: 'bigint'
    }
)
"""


class MatchLog:
    """The log of matches: counts for the display, a file for the comparison.

    `inserts` and `tombstones` count records; `samples` are some whole match values.
    """

    def __init__(self, config: Config, partitions: int, path: Path) -> None:
        self.inserts = 0
        self.tombstones = 0
        self.samples: list[bytes] = []
        self._topic = config.output.topic
        self._positions = dict.fromkeys(range(partitions), 0)
        self._scanner = Scanner(config)
        self._file = path.open("w", encoding="utf-8")
        self._batches: Iterator[list[Read]] | None = None

    def follow(self) -> None:
        """Take in one batch of what is new; waits a moment if nothing is."""
        if self._batches is None:
            self._batches = self._scanner.follow(self._topic, self._positions)
        self._take(next(self._batches))

    def finish(self, cluster: Cluster) -> None:
        """Read to the very end, as the broker states it, and close the file.

        Raises:
            Crash: the end was not to be reached.
        """
        ends = cluster.extents(self._topic, len(self._positions))
        for partition, extent in enumerate(ends):
            start = self._positions[partition]
            for batch in self._scanner.scan(self._topic, partition, start, extent.end):
                self._take(batch)
        self._file.flush()

    def close(self) -> None:
        """Let file and client go."""
        self._file.close()
        self._scanner.close()

    def _take(self, batch: list[Read]) -> None:
        lines = []
        for record in batch:
            assert record.key is not None
            match = record.key.decode()
            if record.value is None:
                self.tombstones += 1
                lines.append(f"{match}\ttrue\t\t\t{record.offset}\n")
            else:
                self.inserts += 1
                if self.inserts % SAMPLE_EVERY == 0 or match == SHOWN:
                    self.samples.append(record.value)
                start, end = overlap(record.value)
                lines.append(f"{match}\tfalse\t{start}\t{end}\t{record.offset}\n")
            self._positions[record.partition] = record.offset + 1
        self._file.writelines(lines)


def overlap(value: bytes) -> tuple[int, int]:
    """Start and end of a match; both are its first fields."""
    body = io.BytesIO(value)
    body.seek(HEADER_BYTES)
    found: Any = fastavro.schemaless_reader(body, _OVERLAP, None)
    return found["start"], found["end"]
