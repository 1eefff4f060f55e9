"""What stands in deploy/: dashboards and alerts name what there is, manifests fit their schemas."""

from __future__ import annotations

import re
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has none
import pytest
import yaml

from app.config import load_config
from app.demo.data import KEY
from app.run import STOP_WITHIN_S, reached_at
from tests.deploy import (
    DEPLOY,
    QUERIES,
    ROOT,
    alerts,
    dashboard,
    exposed,
    grouped_by,
    panel_queries,
    selectors,
)

if TYPE_CHECKING:
    from pathlib import Path

BASE: Final = DEPLOY / "kubernetes" / "base"
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")

BY_PROMETHEUS: Final = {"job", "instance", "le"}
"""Labels that a scrape and a histogram add."""
EXPOSED: Final = {sample.name: set(sample.labels) for sample in exposed()}


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_every_query_is_one_and_names_what_is_exposed(title: str, query: str) -> None:
    wrong: list[str] = []
    labels = set(BY_PROMETHEUS)
    for one in selectors(query):
        own = EXPOSED.get(str(one.name))
        if own is None:
            wrong.append(f"no metric {one.name}")
            continue
        labels |= own
        named = {matcher.name for matcher in one.matchers.matchers}
        wrong += [f"{one.name} has no label {name}" for name in named - own - BY_PROMETHEUS]
    assert not wrong
    assert grouped_by(query) <= labels, title


def test_the_dashboard_shows_every_metric() -> None:
    named = {str(one.name) for _, query in panel_queries() for one in selectors(query)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named}
    told_by_others = {"spanjoin_build_info", "spanjoin_input_position"}
    ours = {name for name in EXPOSED if name.startswith("spanjoin_")}
    there = {re.sub(r"_(bucket|count|sum)$", "", name) for name in ours}
    assert there - families - told_by_others == set()


def test_the_dashboard_is_laid_out() -> None:
    panels = dashboard()["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_every_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description"}
    for label in re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())):
        assert label in alert["expr"] or label in BY_PROMETHEUS
    assert f"`{alert['alert']}`" in README


COMPOSE: Final = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
WORKER: Final = COMPOSE["worker"]
SCRAPES: Final = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text("utf-8")


def test_compose_mounts_what_there_is() -> None:
    mounted = [
        volume.split(":")[0]
        for service in COMPOSE.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert {path for path in mounted if not (ROOT / path).exists()} == set()
    for name in ("prometheus.yml", "alerts.yml", "grafana/spanjoin.json"):
        assert f"./deploy/{name}" in mounted
    assert SCRAPES["rule_files"] == ["/etc/prometheus/alerts.yml"]
    for name, service in COMPOSE.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_workers_of_compose_listen_where_they_are_asked() -> None:
    config = load_config(ROOT / "app" / "demo" / "job.toml", WORKER["environment"])
    assert config.http.host == "0.0.0.0"
    (scrape,) = SCRAPES["scrape_configs"]
    # By its name a service has the addresses of all its containers: --scale needs nothing else.
    (found,) = scrape["dns_sd_configs"]
    assert (found["names"], found["type"], found["port"]) == (["worker"], "A", config.http.port)
    assert f":{config.http.port}/livez" in WORKER["healthcheck"]["test"][-1]
    # Each container has a name and a volume of its own, which none may be told.
    assert reached_at(config.http.host, config.http.port) == f"{gethostname()}:{config.http.port}"
    assert config.http.advertised == ""
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert config.state.dir.is_relative_to(volume)
    assert [volume.split(":")[1] for volume in WORKER["volumes"]] == ["/etc/spanjoin"]


def test_compose_loads_by_the_key_of_the_demo() -> None:
    (script,) = [part for part in COMPOSE["producer"]["command"] if "load" in part]
    assert f"--key {KEY}" in script


@pytest.mark.parametrize("name", ["topics", "worker", "producer"])
def test_containers_of_ours_may_nothing(name: str) -> None:
    service = COMPOSE[name]
    assert service["image"] == "spanjoin"
    # The first process of a container is deaf to signals that it has no handler for.
    assert service["init"] is True
    assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp"])
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])


def test_compose_gives_a_worker_its_time_to_stop() -> None:
    assert int(WORKER["stop_grace_period"].removesuffix("s")) > 2 * STOP_WITHIN_S
    # What it depends on is stopped after it.
    assert WORKER["depends_on"]["kafka"] == {"condition": "service_healthy"}


def manifests() -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            found[document["kind"]] = document
    return found


MANIFESTS: Final = manifests()
OTHERS_SCHEMAS: Final = {"Kustomization", "Component", "ScaledObject"}
"""Kinds that Kubernetes itself does not know."""


@pytest.mark.parametrize("kind", sorted(MANIFESTS.keys() - OTHERS_SCHEMAS))
def test_manifests_fit_the_schemas_of_kubernetes(kind: str) -> None:
    kubernetes_validate.validate(MANIFESTS[kind], "1.33", strict=True)


def test_the_base_is_all_of_its_files(tmp_path: Path) -> None:
    kustomization = MANIFESTS["Kustomization"]
    listed = {*kustomization["resources"], "kustomization.yaml", "job.toml"}
    assert {path.name for path in BASE.iterdir()} == listed
    assert kustomization["configMapGenerator"] == [{"name": "spanjoin", "files": ["job.toml"]}]
    # The configuration is one, with what the container's environment adds.
    environ = {
        entry["name"]: entry.get("value", "").replace("$(POD_IP)", "10.0.0.1")
        for entry in container()["env"]
    }
    config = load_config(BASE / "job.toml", environ)
    assert (config.http.host, config.http.port) == ("0.0.0.0", 8080)
    assert config.http.advertised == "10.0.0.1:8080"
    assert str(config.state.dir).startswith(mounts()["state"])


def container() -> dict[str, Any]:
    (one,) = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def mounts() -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}


def test_everything_means_the_same_pods() -> None:
    spec = MANIFESTS["StatefulSet"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert labels
    assert spec["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["metadata"]["name"] == spec["serviceName"]
    target = MANIFESTS["ScaledObject"]["spec"]["scaleTargetRef"]
    own = MANIFESTS["StatefulSet"]
    assert target == {
        "apiVersion": own["apiVersion"], "kind": own["kind"], "name": own["metadata"]["name"],
    }  # fmt: skip


def test_a_pod_may_nothing_and_has_time_to_hand_over() -> None:
    pod = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 2 * STOP_WITHIN_S
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    user, group = (pod["securityContext"][who] for who in ("runAsUser", "runAsGroup"))
    assert f"\nUSER {user}:{group}\n" in DOCKERFILE
    assert f"--gid {group} spanjoin" in DOCKERFILE
    assert f"--uid {user} --gid {group} " in DOCKERFILE
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (claim,) = MANIFESTS["StatefulSet"]["spec"]["volumeClaimTemplates"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"]}
    assert set(mounts()) == volumes
    probes = {
        name: container()[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert probes == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


def test_workers_may_ask_each_other() -> None:
    # `spanjoin query` in one pod asks the one that has the lane; both directions need leave.
    policy = MANIFESTS["NetworkPolicy"]["spec"]
    labels = MANIFESTS["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    asks = {"to": [{"podSelector": {"matchLabels": labels}}], "ports": [{"port": "http"}]}
    assert asks in policy["egress"]
    (answers,) = policy["ingress"]
    assert {"podSelector": {}} in answers["from"]
    assert answers["ports"] == asks["ports"]
    assert [port["name"] for port in container()["ports"]] == ["http"]


def test_the_scaler_asks_for_what_is_exposed_and_has_a_cap() -> None:
    # No package at hand has KEDA's schema: these are the fields of its ScaledObject that we use.
    assert MANIFESTS["ScaledObject"]["apiVersion"] == "keda.sh/v1alpha1"
    spec = MANIFESTS["ScaledObject"]["spec"]
    assert set(spec) == {
        "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval",
        "cooldownPeriod", "advanced", "triggers",
    }  # fmt: skip
    # Kubernetes does know what it is given on to.
    target, behavior = spec["scaleTargetRef"], spec["advanced"]["horizontalPodAutoscalerConfig"]
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "spanjoin"},
        "spec": {"scaleTargetRef": target, "maxReplicas": spec["maxReplicaCount"], **behavior},
    }
    kubernetes_validate.validate(autoscaler, "1.33", strict=True)
    assert spec["minReplicaCount"] <= spec["maxReplicaCount"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    (named,) = selectors(trigger["metadata"]["query"])
    assert named.name == "spanjoin_input_lag"
    assert float(trigger["metadata"]["threshold"]) > 0
