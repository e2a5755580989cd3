"""The Kubernetes manifests, as kustomize renders them: valid, confined, and in agreement with the configuration they carry."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from click.testing import CliRunner

from relay.cli.exits import EXIT_USAGE
from relay.cli.node import command
from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig

K8S = Path(__file__).parent.parent.parent / "k8s"
SITES = ("nyc", "sfo")
VERSIONS = ("1.27", "1.33")
KUBECTL = shutil.which("kubectl")

Manifests = dict[tuple[str, str], dict[str, Any]]


def render(directory: Path) -> str:
    """With the kustomize in kubectl, which tells its version since it knows all that is used here."""
    if KUBECTL is None:
        pytest.skip("no kubectl to render the manifests with")
    if (
        "kustomizeVersion"
        not in subprocess.run([KUBECTL, "version", "--client", "-o", "json"], capture_output=True, text=True).stdout
    ):
        pytest.skip("this kubectl is too old to render the manifests with")
    result = subprocess.run([KUBECTL, "kustomize", directory], capture_output=True, text=True)
    # Warnings announce refusals of a later kubectl.
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def parse(text: str) -> Manifests:
    """By kind and name, without the hash that kustomize adds to the names of generated ones."""
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


@pytest.fixture
def with_component(tmp_path: Path) -> Callable[[str], str]:
    """Renders NYC with one of the components, as documented in the README."""

    def make(component: str) -> str:
        paths = {name: os.path.relpath(K8S / name, tmp_path) for name in ("nyc", component)}
        # The resources of a component have no namespace by themselves.
        text = {"namespace": "relay-nyc", "resources": [paths["nyc"]], "components": [paths[component]]}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
        return render(tmp_path)

    return make


def validate(text: str, version: str) -> None:
    """Check each object against the strict schema of a Kubernetes release. Raises ValidationError; unknown kinds pass."""
    for each in yaml.safe_load_all(text):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("file", ["statefulset", "services", "disruption", "network"])
def test_each_manifest_is_valid_without_rendering(file: str) -> None:
    """Also where nothing can be rendered."""
    validate((K8S / "base" / f"{file}.yaml").read_text(encoding="utf-8"), VERSIONS[-1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("site", SITES)
def test_every_field_is_known_to_the_server(site: str, version: str) -> None:
    validate(render(K8S / site), version)


@pytest.mark.parametrize("component", ["nodeport", "loadbalancer", "journal", "spill", "spread", "router"])
def test_the_components_go_with_it(component: str, with_component: Callable[[str], str]) -> None:
    validate(with_component(component), VERSIONS[-1])


@pytest.mark.parametrize("component", ["router", "monitoring"])
def test_the_documented_overlay_puts_each_object_into_the_namespace_of_the_site(component: str, tmp_path: Path) -> None:
    page = (K8S.parent / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")
    overlay = page.partition("# my-nyc/kustomization.yaml\n")[2].partition("```")[0]
    text = overlay.replace("../k8s/journal]", f"../k8s/{component}]").replace("../k8s", os.path.relpath(K8S, tmp_path))
    (tmp_path / "kustomization.yaml").write_text(text, encoding="utf-8")
    manifests = parse(render(tmp_path))
    places = {key: each["metadata"].get("namespace") for key, each in manifests.items() if key[0] != "Namespace"}
    assert set(places.values()) == {"relay-nyc"}, places


def test_a_drain_takes_one_pod_of_each_kind_at_a_time(with_component: Callable[[str], str]) -> None:
    rendered = parse(with_component("router"))
    for workload in (("StatefulSet", "relay"), ("Deployment", "relay-router")):
        budget = rendered.get(("PodDisruptionBudget", workload[1]), {}).get("spec")
        assert budget == {"maxUnavailable": 1, "selector": rendered[workload]["spec"]["selector"]}


def test_members_may_be_kept_on_different_nodes(with_component: Callable[[str], str]) -> None:
    """By anti-affinity: a spread with a skew of 1 puts two of three members on one of two nodes."""
    rendered = parse(with_component("spread"))
    labels = rendered["StatefulSet", "relay"]["spec"]["selector"]
    apart = pod(rendered)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == [{"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}]
    [zones] = pod(rendered)["topologySpreadConstraints"]
    assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
    assert zones["labelSelector"] == labels


def test_the_operator_scrapes_each_member_once_with_the_token(with_component: Callable[[str], str]) -> None:
    manifests = parse(with_component("monitoring"))
    monitor = manifests["ServiceMonitor", "relay"]["spec"]
    [endpoint] = monitor["endpoints"]
    selected = [
        each["spec"]
        for (kind, _), each in manifests.items()
        if kind == "Service"
        and monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
        and endpoint["port"] in {port["name"] for port in each["spec"]["ports"]}
    ]
    assert len(selected) == 1
    [secret] = [each["secret"]["secretName"] for each in pod(manifests)["volumes"] if "secret" in each]
    assert endpoint["authorization"]["credentials"] == {"name": secret, "key": "token"}


def test_a_journal_never_fills_its_volume(with_component: Callable[[str], str], tmp_path: Path) -> None:
    manifests = parse(with_component("journal"))
    [claim] = manifests["StatefulSet", "relay"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert (configuration(manifests, tmp_path).journal.retained_bytes_max or 0) < 9 << 30


def test_a_spill_is_on_a_volume_that_holds_it_and_lives_as_long_as_its_pod(
    with_component: Callable[[str], str], tmp_path: Path
) -> None:
    manifests = parse(with_component("spill"))
    [container] = pod(manifests)["containers"]
    [volume] = [each for each in pod(manifests)["volumes"] if "ephemeral" in each]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    [directory] = [each["value"] for each in container["env"] if each["name"] == "RELAY_SPILL"]
    assert directory == mount["mountPath"]
    storage = volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    config = configuration(manifests, tmp_path, RELAY_SPILL=directory)
    assert config.relay.budget.spill.directory == directory
    assert config.relay.budget.spill.bytes < int(storage.removesuffix("Gi")) << 30


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("site", SITES)
def test_a_trial_is_a_site_with_a_job_that_makes_its_keys(site: str, version: str) -> None:
    text = render(K8S / "trial" / site)
    validate(text, version)
    manifests = parse(text)
    assert {key: each for key, each in manifests.items() if key[0] == "StatefulSet"} == {
        key: each for key, each in parse(render(K8S / site)).items() if key[0] == "StatefulSet"
    }
    job = manifests["Job", "relay-keys"]["spec"]["template"]["spec"]
    [container] = job["containers"]
    assert container["securityContext"] == pod(manifests)["containers"][0]["securityContext"]
    assert job["securityContext"] == pod(manifests)["securityContext"]
    own, shared = (manifests["Role", name]["rules"] for name in ("relay-keys", "relay-authority"))
    assert [rule.get("resourceNames") for rule in (*own, *shared)] == [None, ["relay-keys"], None, ["relay-authority"]]
    assert {verb for rule in (*own, *shared) for verb in rule["verbs"]} == {"create", "get"}


def outside(manifests: Manifests) -> tuple[str, bool]:
    """How the bridge is offered, and whether addresses outside of the cluster may call it."""
    sources = [source for rule in manifests["NetworkPolicy", "relay"]["spec"]["ingress"] for source in rule["from"]]
    return manifests["Service", "relay-bridge"]["spec"]["type"], any("ipBlock" in source for source in sources)


@pytest.mark.parametrize("component", ["nodeport", "loadbalancer"])
def test_the_bridge_is_closed_to_the_outside_until_a_component_opens_it(
    component: str, manifests: Manifests, with_component: Callable[[str], str]
) -> None:
    assert outside(manifests) == ("ClusterIP", False)
    assert outside(parse(with_component(component)))[0] in ("NodePort", "LoadBalancer")
    assert outside(parse(with_component(component)))[1]


def test_the_routers_of_a_site_match_the_settings_of_its_members(with_component: Callable[[str], str], tmp_path: Path) -> None:
    rendered = parse(with_component("router"))
    [container] = pod(rendered)["containers"]
    [routers] = [each["value"] for each in container["env"] if each["name"] == "RELAY_ROUTERS"]
    spec = rendered["Deployment", "relay-router"]["spec"]["template"]["spec"]
    [router] = spec["containers"]
    service = rendered["Service", "relay-router"]["spec"]
    assert routers == f"relay-router:{service['ports'][0]['port']}"
    assert router["args"][:2] == ["router", *pod(rendered)["containers"][0]["args"][1:]]
    assert router["args"][router["args"].index("--bind") + 1] == str(service["ports"][0]["port"])
    assert service["clusterIP"] == "None", "a member registers at each of them"
    volumes = {each["name"]: each for each in pod(rendered)["volumes"]}
    assert list(spec["volumes"]) == [volumes["config"], volumes["keys"]]
    assert router["securityContext"] == container["securityContext"]
    out = rendered["NetworkPolicy", "relay"]["spec"]["egress"]
    assert any({"port": 7900, "protocol": "TCP"} in rule["ports"] for rule in out)


@pytest.fixture(params=SITES)
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return parse(render(K8S / request.param))


def pod(manifests: Manifests) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["StatefulSet", "relay"]["spec"]["template"]["spec"]
    return spec


def configuration(manifests: Manifests, directory: Path, **more: str) -> NodeConfig:
    """Return a member's configuration: the file, and the environment from the site's ConfigMap."""
    maps = {name.rpartition("-")[0]: each["data"] for (kind, name), each in manifests.items() if kind == "ConfigMap"}
    file = directory / "relay.yaml"
    file.write_text(maps["relay-config"]["relay.yaml"], encoding="utf-8")
    site = maps["relay-site"]
    environment = {"RELAY_SITE": site["site"], "RELAY_PEERS": site["peers"], "RELAY_NAME": "relay-0"}
    return load_config(file, environment={**environment, **more})


def test_pods_pass_the_restricted_standard(manifests: Manifests) -> None:
    [container] = pod(manifests)["containers"]
    security = pod(manifests)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod(manifests)["automountServiceAccountToken"] is False
    [namespace] = [each for (kind, _), each in manifests.items() if kind == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.needs("kubectl")
@pytest.mark.conforms("USR-5")
def test_members_are_found_by_name_ready_or_not(manifests: Manifests, tmp_path: Path) -> None:
    config = configuration(manifests, tmp_path)
    headless = manifests["Service", "relay"]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert manifests["StatefulSet", "relay"]["spec"]["serviceName"] == "relay"
    assert config.discovery.dns == ("relay", config.transport.port)
    assert config.transport.multicast is False
    assert not any(kind in ("Role", "ClusterRole", "RoleBinding") for kind, _ in manifests)


@pytest.mark.needs("kubectl")
@pytest.mark.conforms("USR-5")
def test_a_pod_is_ready_by_its_view_and_restarted_only_when_it_does_not_answer(manifests: Manifests) -> None:
    [container] = pod(manifests)["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}


def test_each_site_calls_the_bridge_service_of_the_other(manifests: Manifests, tmp_path: Path) -> None:
    config = configuration(manifests, tmp_path)
    bridge = manifests["Service", "relay-bridge"]["spec"]
    assert bridge["publishNotReadyAddresses"] is True, "a relay is ready when it has its links"
    ((site, (place,)),) = config.relay.bridge.peers.items()
    assert {config.site, site} == {"NYC", "SFO"}
    assert place == (f"relay-bridge.relay-{site.lower()}", bridge["ports"][0]["port"])


def test_ports_agree(manifests: Manifests, tmp_path: Path) -> None:
    config = configuration(manifests, tmp_path)
    [container] = pod(manifests)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert config.relay.bridge.bind is not None
    assert config.http.bind is not None
    assert ports == {
        "member": config.transport.port,
        "watch": config.transport.port,
        "bridge": config.relay.bridge.bind.port,
        "http": config.http.bind.port,
    }
    allowed = {
        (port["port"], port["protocol"])
        for rule in manifests["NetworkPolicy", "relay"]["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert allowed == {(port["containerPort"], port["protocol"]) for port in container["ports"]}


def test_members_have_the_keys_of_their_site_by_a_secret_that_their_group_can_read(
    manifests: Manifests, tmp_path: Path
) -> None:
    config = configuration(manifests, tmp_path)
    [volume] = [each for each in pod(manifests)["volumes"] if "secret" in each]
    [container] = pod(manifests)["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert not config.security.insecure
    assert config.security.keys == mount["mountPath"] == str(Path(config.http.token).parent)
    assert volume["secret"]["defaultMode"] == 0o440
    assert pod(manifests)["securityContext"]["fsGroup"] == 10001
    command = f"create secret generic {volume['secret']['secretName']} --from-file keys/{config.site} --from-file keys/token"
    assert command in (K8S.parent / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")


def test_leaving_fits_into_the_time_that_there_is(manifests: Manifests, tmp_path: Path) -> None:
    config = configuration(manifests, tmp_path)
    [container] = pod(manifests)["containers"]
    pause_s = float(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    leave_s = config.membership.leave_timeout_s + config.relay.bridge.linger_s
    assert pod(manifests)["terminationGracePeriodSeconds"] >= 2 * (pause_s + leave_s)


UNIT = Path(__file__).parent.parent.parent / "deploy" / "systemd" / "relay@.service"


def setting(name: str) -> str:
    [value] = [line.partition("=")[2] for line in UNIT.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}=")]
    return value


def test_systemd_understands_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze to read the unit with")
    here = tmp_path / "relay@A.service"
    here.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/bin/relay", "/bin/true"), encoding="utf-8")
    result = subprocess.run([analyze, "verify", here], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_systemd_unit_starts_a_node_with_existing_options() -> None:
    _, verb, _, *options = setting("ExecStart").split()
    assert verb == "node"
    result = CliRunner().invoke(command, ["nowhere.yaml", *options])
    assert "no such option" not in result.output.lower()


def test_wrong_configuration_is_not_tried_again() -> None:
    assert setting("RestartPreventExitStatus") == str(EXIT_USAGE)
    assert setting("StartLimitIntervalSec") == "0"  # all other failures may end by themselves
    assert setting("ExecReload").endswith("-HUP $MAINPID")
    assert setting("RestartForceExitStatus") == "SIGHUP"  # which systemd takes for a wanted end
