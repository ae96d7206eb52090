"""`deploy/kubernetes`: the kustomize base by its structure, and the Helm chart against the base."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import PROJECT

KUBERNETES = PROJECT / "deploy/kubernetes"
BASE, CHART = KUBERNETES / "base", KUBERNETES / "helm/bellwire"
COMPONENTS = {"broker", "coordinator", "gateway", "redis", "sentinel"}
LABEL = "app.kubernetes.io/component"

Object = dict[str, Any]


def load(text: str) -> dict[tuple[str, str], Object]:
    """The objects of a text, by kind and name."""
    objects = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects), "an object stands twice"
    return found


def base() -> dict[tuple[str, str], Object]:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    files = kustomization["resources"]
    assert {*files, "kustomization.yaml"} == {path.name for path in BASE.iterdir()}
    return load("\n---\n".join((BASE / name).read_text() for name in files))


def of(kind: str) -> dict[str, Object]:
    return {name: item for (found, name), item in base().items() if found == kind}


def workloads() -> dict[str, Object]:
    found = of("Deployment") | of("StatefulSet")
    assert found.keys() == COMPONENTS
    return found


WORKLOADS = workloads()


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_a_pod_is_confined(name: str) -> None:
    pod = WORKLOADS[name]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] > 0 and security["fsGroup"] == security["runAsUser"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"} and "memory" in container["resources"]["limits"]
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets and all(secret["defaultMode"] == 0o440 for secret in secrets.values())
    assert [mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] in secrets] == [True]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in WORKLOADS[name]["spec"].get("volumeClaimTemplates", [])}
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claims


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_a_pod_is_watched(name: str) -> None:
    """Readiness is judged apart from life wherever a neighbour's death makes a healthy process useless."""
    [container] = WORKLOADS[name]["spec"]["template"]["spec"]["containers"]
    probes = {probe: container[f"{probe}Probe"] for probe in ("startup", "liveness", "readiness")}
    if name in ("coordinator", "gateway"):
        assert [probe["httpGet"]["path"] for probe in probes.values()] == ["/healthz", "/healthz", "/readyz"]
        ports = {port["name"] for port in container["ports"]}
        assert {probe["httpGet"]["port"] for probe in probes.values()} <= ports
    else:
        assert all(probe["exec"]["command"] for probe in probes.values())


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_the_pods_of_a_component_lie_apart(name: str) -> None:
    item = WORKLOADS[name]
    labels = item["spec"]["template"]["metadata"]["labels"]
    assert labels[LABEL] == name and item["spec"]["selector"]["matchLabels"] == {LABEL: name}
    spread = item["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [rule["topologyKey"] for rule in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(rule["labelSelector"]["matchLabels"] == {LABEL: name} and rule["maxSkew"] == 1 for rule in spread)


def test_coordinators_and_gateways_know_every_broker() -> None:
    """The brokers' addresses are the names of the pods, and all processes must use the same names."""
    count = WORKLOADS["broker"]["spec"]["replicas"]
    assert count == 3 and WORKLOADS["broker"]["spec"]["serviceName"] == "broker"
    for name, address in (("coordinator", "mqtts://broker-{}.broker:1884"), ("gateway", "mqtt://broker-{}.broker:1883")):
        [container] = WORKLOADS[name]["spec"]["template"]["spec"]["containers"]
        [brokers] = [variable["value"] for variable in container["env"] if variable["name"] == "BELLWIRE_BROKER"]
        assert brokers == ",".join(address.format(number) for number in range(count))


def test_a_drain_takes_one_pod_of_a_component() -> None:
    budgets = of("PodDisruptionBudget")
    assert budgets.keys() == COMPONENTS
    for name, budget in budgets.items():
        assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": {LABEL: name}}}


def test_coordinators_and_gateways_are_scaled_by_cpu_and_by_their_own_metrics() -> None:
    """A Deployment that is scaled names no number: each apply would set the number back."""
    scalers = of("HorizontalPodAutoscaler")
    assert scalers.keys() == {"coordinator", "gateway"}
    sources = "\n".join(path.read_text() for path in (PROJECT / "Sources").rglob("*.swift"))
    for name, scaler in scalers.items():
        spec = scaler["spec"]
        assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        assert "replicas" not in WORKLOADS[name]["spec"] and 2 <= spec["minReplicas"] < spec["maxReplicas"]
        cpu, own = spec["metrics"]
        assert cpu["resource"]["name"] == "cpu"
        assert f'"{own["pods"]["metric"]["name"]}"' in sources, "no such metric"


def test_each_component_reaches_only_its_neighbours() -> None:
    policies = of("NetworkPolicy")
    assert policies.keys() == COMPONENTS | {"all"}
    assert policies.pop("all")["spec"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "bellwire"}
    reached: dict[str, set[tuple[str, int]]] = {}
    entered: dict[str, set[tuple[str, int]]] = {}
    for name, policy in policies.items():
        spec = policy["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"] and spec["podSelector"]["matchLabels"] == {LABEL: name}
        for key, side, found in (("egress", "to", reached), ("ingress", "from", entered)):
            for rule in spec.get(key, []):
                peers = [peer["podSelector"]["matchLabels"][LABEL] for peer in rule.get(side, []) if "podSelector" in peer]
                ports = {port["port"] for port in rule["ports"]}
                found.setdefault(name, set()).update((peer, port) for peer in peers for port in ports)
    # Both ends of each way agree.
    ways = {(name, peer, port) for name, found in reached.items() for peer, port in found}
    assert ways == {(peer, name, port) for name, found in entered.items() for peer, port in found}
    data = {(source, target) for source, target, _ in ways if target in ("redis", "sentinel")}
    assert data == {(s, t) for s in ("coordinator", "gateway", "sentinel") for t in ("redis", "sentinel")} | {("redis", "redis")}
    # Each named port is a port of the component's container.
    for _, target, port in ways:
        [container] = WORKLOADS[target]["spec"]["template"]["spec"]["containers"]
        assert port in {entry["containerPort"] for entry in container["ports"]}


def test_deliveries_leave_from_gateways_alone() -> None:
    """Webhooks, pushes and the closing of rooms need a way out, and coordinators have none."""
    policies = of("NetworkPolicy")
    out = {name: [rule for rule in policies[name]["spec"]["egress"] if "to" not in rule] for name in ("coordinator", "gateway")}
    assert out == {"coordinator": [], "gateway": [{"ports": [{"port": 443}]}]}
    environment = {entry["name"]: entry["value"] for entry in WORKLOADS["coordinator"]["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environment["BELLWIRE_DELIVER"] == "false"


def test_a_broker_of_the_base_starts_as_its_image_does() -> None:
    """The image's program writes into the directory that is mounted (deploy/mosquitto/bellwire-broker)."""
    [container] = WORKLOADS["broker"]["spec"]["template"]["spec"]["containers"]
    assert "command" not in container and "args" not in container
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {"BELLWIRE_BROKER_NAME": "any"}
    assert {"name": "run", "mountPath": "/run/mosquitto"} in container["volumeMounts"]


def test_the_world_reaches_ports_with_tls_alone() -> None:
    services = of("Service")
    outside = {name: item["spec"] for name, item in services.items() if item["spec"].get("type", "ClusterIP") != "ClusterIP"}
    assert outside.keys() == {"devices"} and {port["port"] for port in outside["devices"]["ports"]} == {8883, 8884}
    for name, item in of("StatefulSet").items():
        assert services[item["spec"]["serviceName"]]["spec"]["clusterIP"] == "None", name


def test_the_store_is_what_the_sentinels_name() -> None:
    """The names of the pods, the name of the master, and a replica that must have each write."""
    sentinels = WORKLOADS["sentinel"]["spec"]
    [script] = sentinels["template"]["spec"]["containers"][0]["args"]
    [(master, first)] = re.findall(r"sentinel monitor (\S+) (\S+) 6379 2", script)
    assert first == "redis-0.redis" and "resolve-hostnames yes" in script and "announce-hostnames yes" in script
    hosts = ",".join(f"sentinel-{n}.sentinel:26379" for n in range(sentinels["replicas"]))
    for name in ("coordinator", "gateway"):
        [container] = WORKLOADS[name]["spec"]["template"]["spec"]["containers"]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert environment["BELLWIRE_STORE"] == f"redis-sentinel://bellwire@{hosts}/{master}"
        assert environment["BELLWIRE_REDIS_WAIT_REPLICAS"] == "1"
    [script] = WORKLOADS["redis"]["spec"]["template"]["spec"]["containers"][0]["args"]
    compose = (PROJECT / "deploy/compose/ha.yml").read_text()
    for option in re.findall(r"--[a-z-]+", script):
        assert option in compose, f"{option} is missing in deploy/compose/ha.yml"
    assert "--min-replicas-to-write 1" in script and "--appendonly yes" in script and "--replica-announce-ip" in script


def test_the_chart_has_the_text_of_the_base() -> None:
    """A check without Helm: each line of a template that is no directive stands in the file of the base of the same
    name."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2" and chart["name"] == "bellwire"
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    templates = {path.name: path.read_text() for path in (CHART / "templates").glob("*.yaml")}
    assert templates.keys() == {path.name for path in BASE.iterdir()} - {"kustomization.yaml", "namespace.yaml"}
    for name, text in templates.items():
        plain = [line for line in text.splitlines() if "{{" not in line and "/settings" not in line]
        foreign = set(plain) - set((BASE / name).read_text().splitlines())
        assert not foreign, f"{name}: {foreign}"
        assert text.count("{{- end }}") == len(re.findall(r"\{\{- (?:if|with|range) ", text)), name
        for path in re.findall(r"\.Values\.([\w.]+)", text):
            found: Any = values
            for key in path.split("."):
                assert key in found, f"{name}: values.yaml has no {path}"
                found = found[key]


def rendered(*command: str | Path) -> dict[tuple[str, str], Object]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return load(done.stdout)


def without(item: Any, *names: str) -> Any:
    if isinstance(item, dict):
        return {key: without(value, *names) for key, value in item.items() if key not in names}
    return [without(value, *names) for value in item] if isinstance(item, list) else item


def customized() -> dict[tuple[str, str], Object]:
    if kustomize := shutil.which("kustomize"):
        return rendered(kustomize, "build", BASE)
    if kubectl := shutil.which("kubectl"):
        return rendered(kubectl, "kustomize", BASE)
    pytest.skip("neither 'kustomize' nor 'kubectl' on PATH")


def test_kustomize_reads_the_base() -> None:
    found = customized()
    assert found.keys() == base().keys()
    for (kind, name), item in found.items():
        assert kind == "Namespace" or item["metadata"]["namespace"] == "bellwire", name
        for container in item["spec"]["template"]["spec"]["containers"] if name in COMPONENTS and "template" in item["spec"] else []:
            assert ":" in container["image"], "an image without a tag"


def test_the_patch_of_the_readme_gives_both_processes_their_media_servers(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no 'kubectl' on PATH")
    shutil.copytree(BASE, tmp_path / "base")
    [text] = re.findall(r"```yaml\n(.*?)```", (KUBERNETES / "README.md").read_text(), re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(text.replace("deploy/kubernetes/base", "base"))
    found = rendered(kubectl, "kustomize", tmp_path)
    for name in ("coordinator", "gateway"):
        pod = found["Deployment", name]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert {"name": "BELLWIRE_MEDIA", "value": "/settings/media.json"} in container["env"]
        assert {"name": "settings", "mountPath": "/settings", "readOnly": True} in container["volumeMounts"]
        assert {"name": "settings", "secret": {"secretName": "bellwire-media", "defaultMode": 0o440}} in pod["volumes"]


def test_the_chart_mounts_settings_in_coordinators_and_gateways() -> None:
    for name in ("coordinator", "gateway"):
        text = (CHART / "templates" / f"{name}.yaml").read_text()
        assert f"{{{{- if .Values.{name}.settings }}}}\n            - {{name: settings, mountPath: /settings, readOnly: true}}\n" in text
        assert f"{{{{- with .Values.{name}.settings }}}}\n        - {{name: settings, secret: {{secretName: {{{{ . }}}}, defaultMode: 0440}}}}\n" in text


def test_helm_renders_the_base() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("no 'helm' on PATH")
    chart = rendered(helm, "template", "bellwire", CHART, "--namespace", "bellwire")
    expected = customized()
    del expected["Namespace", "bellwire"]
    assert without(chart, "namespace", "imagePullPolicy") == without(expected, "namespace")
    other = rendered(helm, "template", "bellwire", CHART, "--set", "redis.enabled=false,store=redis://bellwire@elsewhere:6379")
    assert {name for kind, name in other if kind == "StatefulSet"} == {"broker"}
