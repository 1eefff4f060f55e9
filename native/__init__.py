"""The inner loops of the hot path, compiled where there was a compiler when this was installed.

`loops` is that module, or None; whoever uses it has the same in Python. Where
`SPANJOIN_COMPILED_LOOPS` is `off` it is None in any case: so one can compare, and tests can run on
both.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from native.interface import Loops

SWITCH: Final = "SPANJOIN_COMPILED_LOOPS"


def _compiled() -> Loops | None:
    if os.environ.get(SWITCH) == "off":
        return None
    try:
        return cast("Loops", import_module("native.compiled"))
    except ImportError:
        return None


loops: Final = _compiled()
