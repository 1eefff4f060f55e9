"""Compiles the inner loops (`native/*.c`) when the package is built, if it can be done.

Without a compiler or Python's headers the package is complete all the same: then Python's own
versions of these loops run. An editable package gets the module beside its source.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

SOURCES = Path("native")
MODULE = "native.compiled"


class CompiledLoops(BuildHookInterface[Any]):
    """What hatchling calls; it leaves the module out of a wheel where it was not compiled."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put what came of it where it belongs."""
        root = Path(self.root)
        # It goes with this object, and so after the wheel has been written.
        self._scratch = tempfile.TemporaryDirectory()
        name = f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
        beside = root / SOURCES / name
        if version == "editable":
            beside.unlink(missing_ok=True)
        try:
            built = _compiled(root, self._scratch.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, it can do without
            self.app.display_warning(f"the inner loops are not compiled: {error}")
            return
        if version == "editable":
            shutil.copyfile(built, beside)
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(built)] = (SOURCES / name).as_posix()


def _compiled(root: Path, scratch: str) -> Path:
    """The path of the compiled module. Raises what the compiler's callers raise."""
    named = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if "CC" not in os.environ and shutil.which(named) is None and shutil.which("cc") is not None:
        os.environ["CC"] = "cc"  # Python was built elsewhere, with a compiler of another name.
    extension = Extension(MODULE, sorted(map(str, (root / SOURCES).glob("*.c"))))
    command = build_ext(Distribution({"name": "spanjoin", "ext_modules": [extension]}))
    command.build_lib = command.build_temp = scratch
    command.ensure_finalized()
    command.run()
    (built,) = command.get_outputs()
    return Path(built)
