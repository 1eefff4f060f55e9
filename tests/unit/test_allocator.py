"""Large blocks go back to the system when they are freed, also after larger ones were."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Final

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc has such a threshold"
)

MAPPED: Final = """
import ctypes, sys
from app.allocator import map_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
done = map_large_blocks() if sys.argv[1] == "set" else None
libc.free(libc.malloc(16 << 20))
before = libc.mallinfo2().hblkhd
held = libc.malloc(4 << 20)
print(done, libc.mallinfo2().hblkhd - before >= 4 << 20)
"""


def mapped(how: str, **environ: str) -> str:
    """Whether the threshold was set, and whether a block of 4 MiB is mapped by itself."""
    clean = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    command = [sys.executable, "-c", MAPPED, how]
    done = subprocess.run(
        command, env={**clean, **environ}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_large_blocks_are_mapped_by_themselves() -> None:
    assert mapped("set") == "True True"


def test_by_default_they_are_not_once_a_larger_one_was_freed() -> None:
    """Else all this is for nothing."""
    assert mapped("leave") == "None False"


def test_who_has_set_a_threshold_keeps_it() -> None:
    assert mapped("set", MALLOC_MMAP_THRESHOLD_="33554432") == "False False"
