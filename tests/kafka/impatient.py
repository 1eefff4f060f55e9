"""Runs the command with workers that soon find out that something stands still.

    python -m tests.kafka.impatient run -c CONFIG

By itself a worker asks every five seconds, and gives up after minutes.
"""

from __future__ import annotations

import app.outside
import app.starvation
from app.__main__ import main

if __name__ == "__main__":
    app.outside.TOLD_EVERY_S = 1.5  # type: ignore[misc]
    app.starvation.ASK_EVERY_S = 0.2  # type: ignore[misc]
    app.starvation.GIVEN_UP_AFTER = 15  # type: ignore[misc]
    main()
