"""The resources for Kubernetes: the schemas take them, and they keep a group safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.deploy.rendering import (
    OVERLAYS,
    Resource,
    arguments_of,
    container_of,
    missing,
    of_kind,
    pods,
    render,
    the,
)
from tools.package import VERSION
from typer.testing import CliRunner

from quorate.console.daemon import app
from quorate.console.ui.settings import resolve
from quorate.protocol.policy import IntergroupRule
from quorate.protocol.tls import TLS_VARIABLES
from quorate.store.configuration import load

KUBERNETES = ("1.30", "1.34")
"""The oldest and the newest version whose schemas are asked."""
WITHOUT_SCHEMA = {"PrometheusRule", "ServiceMonitor"}
"""The kinds that are not of Kubernetes itself."""
LABELS = {"app.kubernetes.io/name": "quorate", "app.kubernetes.io/component": "store"}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
STOP_SECONDS = 30.0
"""The time in seconds that a store may take to stop, with a slow disk."""

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def specification(stores: Resource) -> dict[str, Any]:
    """Return the specification of a StatefulSet's pods."""
    found: dict[str, Any] = stores["spec"]["template"]["spec"]
    return found


def files_of(overlay: str, directory: Path) -> Path:
    """Write the files of the ConfigMap into a directory."""
    for name, text in the(overlay, "ConfigMap")["data"].items():
        (directory / name).write_text(text)
    return directory


@each_overlay
@pytest.mark.parametrize("version", KUBERNETES)
def test_the_schemas_of_kubernetes_take_every_resource(overlay: str, version: str) -> None:
    try:
        import kubernetes_validate
    except ModuleNotFoundError:
        missing("the package kubernetes-validate, of the extra dev")
    checked = set()
    for resource in render(overlay):
        if resource["kind"] not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(resource, version, strict=True)
            checked.add(resource["kind"])
    assert checked == {
        "ConfigMap",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "StatefulSet",
    }


@each_overlay
def test_everything_selects_the_pods_of_the_stores_and_only_these(overlay: str) -> None:
    for stores in of_kind(overlay, "StatefulSet"):
        labels = stores["spec"]["template"]["metadata"]["labels"]
        assert labels.items() >= LABELS.items()
        assert stores["spec"]["selector"]["matchLabels"] == labels
        for spread in specification(stores)["topologySpreadConstraints"]:
            assert spread["labelSelector"]["matchLabels"] == labels
    assert the(overlay, "Service")["spec"]["selector"] == LABELS
    assert the(overlay, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABELS
    assert the(overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == LABELS
    monitor = the(overlay, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"] == LABELS
    assert the(overlay, "Service")["metadata"]["labels"] == LABELS
    names = {each["metadata"]["namespace"] for each in render(overlay)}
    assert names == {"messaging"}


@each_overlay
def test_each_port_that_is_named_is_one_of_the_container(overlay: str) -> None:
    (ports,) = {
        tuple((port["name"], port["containerPort"]) for port in container["ports"])
        for _, container in pods(overlay)
    }
    named = dict(ports)
    service = the(overlay, "Service")["spec"]["ports"]
    assert {each["name"]: each["port"] for each in service} == named
    assert all(each["targetPort"] == each["name"] for each in service)
    policy = the(overlay, "NetworkPolicy")["spec"]
    allowed = {each["port"] for rule in policy["ingress"] for each in rule["ports"]}
    assert allowed == set(named)
    (endpoint,) = the(overlay, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] in named
    for _, container in pods(overlay):
        for probe in PROBES:
            assert container[probe]["httpGet"]["port"] in named


@each_overlay
def test_a_store_has_a_name_before_it_is_ready_and_after_it_has_moved(overlay: str) -> None:
    service = the(overlay, "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for stores in of_kind(overlay, "StatefulSet"):
        assert stores["spec"]["serviceName"] == service["metadata"]["name"]


@each_overlay
def test_each_pod_starts_a_store_that_its_peers_and_its_clients_know(
    overlay: str, tmp_path: Path
) -> None:
    directory = files_of(overlay, tmp_path)
    clients = resolve({}, environment={"QUORATE_CONFIG": str(directory / "client.toml")})
    addresses = {}
    for pod, container in pods(overlay):
        file, *options = arguments_of(overlay, pod, container)
        file = file.replace("/etc/quorate", str(directory))
        checked = CliRunner().invoke(app, [file, *options, "--print-config"])
        assert checked.exit_code == 0, checked.output
        effective = directory / "effective.toml"
        effective.write_text(checked.stdout)
        configuration = load(effective)
        assert configuration.peers is not None
        assert configuration.advertise in configuration.peers
        assert configuration.monitor is not None
        assert {configuration.listen, configuration.monitor.listen} == {
            f"0.0.0.0:{port['containerPort']}" for port in container["ports"]
        }
        mounts = {each["mountPath"] for each in container["volumeMounts"]}
        assert str(configuration.data_directory.parent) in mounts
        addresses[configuration.name] = configuration.advertise
        assert set(configuration.peers) == {
            f"{name}.quorate.messaging.svc:7301" for name, _ in pods(overlay)
        }
    assert {store.name: store.address for store in clients.stores} == addresses


@each_overlay
def test_the_pods_mount_the_files_and_claims_that_there_are(overlay: str) -> None:
    for stores in of_kind(overlay, "StatefulSet"):
        volumes = {each["name"]: each for each in specification(stores)["volumes"]}
        name = the(overlay, "ConfigMap")["metadata"]["name"]
        assert volumes["configuration"]["configMap"]["name"] == name
        assert name != "quorate", "a changed file must restart the stores"
        claims = {each["metadata"]["name"] for each in stores["spec"]["volumeClaimTemplates"]}
        mounts = container_of(stores)["volumeMounts"]
        assert {each["name"] for each in mounts} == {*volumes, *claims}
        assert {each["name"]: each.get("readOnly", False) for each in mounts} == {
            each["name"]: each["name"] not in claims for each in mounts
        }


@each_overlay
def test_no_probe_kills_a_store_that_recovers(overlay: str) -> None:
    for _, container in pods(overlay):
        for probe in ("startupProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        start = container["startupProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] >= 3600
        alive = container["livenessProbe"]
        assert alive["periodSeconds"] * alive["failureThreshold"] >= 60


@each_overlay
def test_a_store_has_time_to_wait_for_the_others_and_to_stop(overlay: str) -> None:
    for stores in of_kind(overlay, "StatefulSet"):
        (shell, flag, script) = container_of(stores)["lifecycle"]["preStop"]["exec"]["command"]
        assert (shell, flag) == ("sh", "-c")
        words = script.split()
        assert words[:3] == ["quorate", "status", "--wait"]
        assert words[4:6] == ["--without", '"$POD_NAME"']
        assert script.endswith("|| true"), "a group with a problem must not hold the store up"
        grace = specification(stores)["terminationGracePeriodSeconds"]
        assert grace >= float(words[3]) + STOP_SECONDS


@each_overlay
def test_one_store_at_a_time_may_be_away(overlay: str) -> None:
    budget = the(overlay, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    for stores in of_kind(overlay, "StatefulSet"):
        assert stores["spec"]["replicas"] == 3
        assert stores["spec"]["podManagementPolicy"] == "Parallel"
        assert stores["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
        retention = stores["spec"]["persistentVolumeClaimRetentionPolicy"]
        assert retention == {"whenDeleted": "Retain", "whenScaled": "Retain"}
        spread = {
            each["topologyKey"]: each["whenUnsatisfiable"]
            for each in specification(stores)["topologySpreadConstraints"]
        }
        assert spread["kubernetes.io/hostname"] == "DoNotSchedule"


@each_overlay
def test_a_store_may_do_nothing_that_it_does_not_need(overlay: str) -> None:
    for stores in of_kind(overlay, "StatefulSet"):
        pod = specification(stores)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container_of(stores)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        # Else QUORATE_PORT of the service would be read as a setting, and refused.
        assert pod["enableServiceLinks"] is False
        assert container_of(stores)["image"] == f"quorate:{VERSION}"


def test_the_secure_overlay_is_the_plain_one_with_the_files_of_tls() -> None:
    plain, secure = (container_of(the(overlay, "StatefulSet")) for overlay in ("three", "tls"))
    added = [each for each in secure["env"] if each not in plain["env"]]
    assert {each["name"] for each in added} <= set(TLS_VARIABLES)
    assert {each["value"].rpartition("/")[2] for each in added} == {"ca.crt", "tls.crt", "tls.key"}
    (mount,) = (each for each in secure["volumeMounts"] if each not in plain["volumeMounts"])
    assert {each["value"].rpartition("/")[0] for each in added} == {mount["mountPath"]}
    volumes = specification(the("tls", "StatefulSet"))["volumes"]
    (volume,) = (each for each in volumes if each["name"] == mount["name"])
    # The store runs as another user than the owner of the files, and in their group.
    assert volume["secret"] == {"secretName": "quorate-tls", "defaultMode": 0o440}
    for probe in PROBES:
        assert secure[probe]["httpGet"] == {**plain[probe]["httpGet"], "scheme": "HTTPS"}
    (endpoint,) = the("tls", "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "quorate-tls", "key": "ca.crt"}
    service = the("tls", "Service")["metadata"]
    assert endpoint["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"


def test_the_stores_of_a_zone_are_one_group_on_nodes_of_that_zone(tmp_path: Path) -> None:
    directory = files_of("zones", tmp_path)
    policy = resolve(
        {}, environment={"QUORATE_CONFIG": str(directory / "client.toml")}
    ).layout.policy
    groups = {group.name: set(group.stores) for group in policy.groups}
    assert policy.rule is IntergroupRule.MAJORITY
    for stores in of_kind("zones", "StatefulSet"):
        affinity = specification(stores)["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        assert expression["key"] == "topology.kubernetes.io/zone"
        (zone,) = expression["values"]
        name = stores["metadata"]["name"]
        assert groups.pop(zone) == {f"{name}-{ordinal}" for ordinal in range(3)}
    assert groups == {}
