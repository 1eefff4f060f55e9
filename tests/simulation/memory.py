"""What a lane has in memory, compared with its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.records import Side
from state.keys import parse_row_key, parse_row_value
from state.store import LaneStore
from tests.simulation.fold import Wrong

if TYPE_CHECKING:
    from app.process import Running
    from state.keys import Row

Place = tuple[bytes, int]
"""Key and side."""


def check_memory(running: Running) -> None:
    """A window holds all rows of its key; one that is not there is looked for where they are.

    One that is there in part holds some of them, and is looked for all the same. Rows of buckets
    that were dropped may linger in memory. Raises Wrong.
    """
    windows = running.state.windows
    store = windows._load.__self__  # type: ignore[attr-defined] # It is a method of the store.
    assert isinstance(store, LaneStore), "windows are read from the store"
    if running.state.buckets != store.buckets():
        raise Wrong(f"lane {running.lane}: the directory in memory is not the stored one")
    stored: dict[Place, set[Row]] = {}
    for name, value in store.scan():
        bucket, side, key, end, start, row_id = parse_row_key(name)
        ts, flags, rest = parse_row_value(value)
        stored.setdefault((key, side), set()).add((end, start, row_id, ts, flags, rest))
        whole = key in windows.table and key not in windows._parts
        if not (whole or key in windows._missing or bucket in windows.cold):
            raise Wrong(f"lane {running.lane}: row {row_id} of {key!r} will never be read")
    for key, window in windows.table.items():
        for side, rows in zip(Side, window, strict=True):
            kept = {row for row in rows.values() if row[0] // windows.span in windows.buckets}
            there = stored.get((key, side), set())
            if kept != there and not (key in windows._parts and kept < there):
                told = f"{sorted(kept)}, stored are {sorted(stored.get((key, side), set()))}"
                raise Wrong(f"lane {running.lane}: memory has of {key!r} {told}")
