"""Runs the command with workers that join every turn ahead, be it as small as it may.

    python -m tests.kafka.eager run -c CONFIG

By itself a worker does so where it is far behind; see `app.turns`.
"""

from __future__ import annotations

import app.turns
from app.__main__ import main

if __name__ == "__main__":
    app.turns.AHEAD_MIN = 1  # type: ignore[misc]
    main()
