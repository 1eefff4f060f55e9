"""Runs the command with workers that soon find out that something stands still.

    python -m tests.kafka.impatient run -c CONFIG

By itself a worker asks every five seconds, and gives up after minutes. The environment may say
otherwise, by the names of these constants.
"""

from __future__ import annotations

import os
from typing import Final

import app.housekeeping
import app.outside
import app.starvation
from app.__main__ import main

TOLD: Final = (
    (app.outside, "TOLD_EVERY_S", "1.5"),
    (app.outside, "GIVEN_UP_S", ""),
    (app.outside, "LOST_S", ""),
    (app.starvation, "ASK_EVERY_S", "0.2"),
    (app.starvation, "GIVEN_UP_AFTER", "15"),
    (app.housekeeping, "WATCH_EVERY_S", ""),
    (app.housekeeping, "UNHEARD_S", ""),
)
"""Constants of modules, each with what it is here; as it is there where that is empty."""

if __name__ == "__main__":
    for module, name, usual in TOLD:
        if value := os.environ.get(name, usual):
            setattr(module, name, float(value))
    main()
