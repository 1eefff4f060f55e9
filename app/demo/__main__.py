"""Writes the demo's streams to a directory, as files to load: `python -m app.demo DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from app.demo.data import open_tables, write_streams

if __name__ == "__main__":
    write_streams(open_tables(), Path(sys.argv[1]))
