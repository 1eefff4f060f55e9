"""What the kernel says of a process: processor time, peak memory, children."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far, all their threads included."""
    return sum(map(_cpu_seconds, pids))


def peak_mb(pids: Iterable[int]) -> float:
    """Sum of the largest resident sizes that these processes have had, in MB (2**20)."""
    return sum(map(_peak_kb, pids)) / 1024


def _cpu_seconds(pid: int) -> float:
    # The command in parentheses may contain anything; fields are counted from behind it.
    after_command = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    user, system = after_command[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S


def _peak_kb(pid: int) -> int:
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def processor() -> str:
    """The processor's name and how many there are."""
    names = [
        line.partition(":")[2].strip()
        for line in (_PROC / "cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{os.cpu_count()} x {names[0] if names else 'unknown processor'}"


def memory_gb() -> float:
    """The machine's memory."""
    line = (_PROC / "meminfo").read_text().splitlines()[0]
    return int(line.split()[1]) / 2**20
