"""The overlay that deploy/README.md shows, as kustomize builds it, where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has none
import pytest
import yaml

from tests.deploy import DEPLOY

if TYPE_CHECKING:
    from pathlib import Path

KUSTOMIZE: Final = shutil.which("kustomize")
pytestmark = pytest.mark.skipif(KUSTOMIZE is None, reason="kustomize is not installed")
PATIENCE_S: Final = 60


@pytest.fixture
def built(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Each manifest by its kind."""
    assert KUSTOMIZE is not None
    text = (DEPLOY / "README.md").read_text("utf-8")
    (overlay,) = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", text, re.DOTALL)
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "deploy" / "kubernetes")
    job = tmp_path / "jobs" / "flights-weather"
    job.mkdir(parents=True)
    (job / "kustomization.yaml").write_text(overlay)
    shutil.copy(DEPLOY / "kubernetes" / "base" / "job.toml", job)
    done = subprocess.run(
        [KUSTOMIZE, "build", str(job)], capture_output=True, timeout=PATIENCE_S, check=True
    )
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}


def test_what_is_built_fits_the_schemas_of_kubernetes(built: dict[str, dict[str, Any]]) -> None:
    for kind, manifest in built.items():
        assert manifest["metadata"]["namespace"] == "flights-weather"
        if kind != "ScaledObject":
            kubernetes_validate.validate(manifest, "1.33", strict=True)


def test_the_overlay_reaches_what_it_is_to_change(built: dict[str, dict[str, Any]]) -> None:
    spec = built["StatefulSet"]["spec"]
    assert "replicas" not in spec, "the scaler's"
    pod = spec["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry/spanjoin:0.1.0"
    config = built["ConfigMap"]["metadata"]["name"]
    assert config.startswith("spanjoin-")
    assert {"name": "config", "configMap": {"name": config}} in pod["volumes"]
    scaled = built["ScaledObject"]["spec"]
    assert scaled["maxReplicaCount"] == 12
    assert "flights-weather" in scaled["triggers"][0]["metadata"]["query"]
