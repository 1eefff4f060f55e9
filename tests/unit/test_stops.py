"""A process that is told to stop hears it, whatever its main thread is in."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import pytest

HANGS: Final = """
import ctypes, os
from app import stops
mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock
with stops.heard(lambda: os._exit(7)):
    print("ready", flush=True)
    lock(mutex)
    lock(mutex)  # For ever: no signal gets a thread out of it.
"""
ENDS: Final = """
import signal, time
from app import stops
before = signal.getsignal(signal.SIGTERM)
heard = []
with stops.heard(lambda: heard.append("stop")):
    print("ready", flush=True)
    while not heard:
        time.sleep(0.01)
assert signal.getsignal(signal.SIGTERM) == before
with stops.heard(lambda: heard.append("never")):
    pass
assert heard == ["stop"]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("program", "code"), [(HANGS, 7), (ENDS, 0)], ids=["hangs", "ends"])
def test_a_stop_is_heard(program: str, code: int, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(number)
            assert process.wait(10) == code
        finally:
            process.kill()
