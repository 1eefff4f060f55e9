"""What glibc does with the memory that librdkafka and RocksDB have let go of.

Blocks beyond a threshold are mapped by themselves, and given back when they are freed. But glibc
raises that threshold to the largest block freed so far, 32 MiB at most. Then memtables and batches
lie between small blocks, and what they leave behind stays with the process: a third of it where
state grows beyond memory. A threshold that somebody has set does not move.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

MAPPED_MIN_BYTES: Final = 2 << 20
"""Half of it would save a little more while state grows, and make a restore slower by a twentieth:
a mapped block is new memory each time."""
SET_BY_USER: Final = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_M_MMAP_THRESHOLD: Final = -3


def map_large_blocks() -> bool:
    """Fix the threshold; returns whether it was. Elsewhere than in glibc there is none."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    if any(name in os.environ for name in SET_BY_USER):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_MIN_BYTES))
