"""One kubectl command a data centre, on a real cluster. Runs only with the name of an image that the cluster can
pull.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

K8S = Path(__file__).parent.parent.parent / "k8s"
OTHER = {"NYC": "SFO", "SFO": "NYC"}
PODS = ("relay-0", "relay-1", "relay-2")
#: Names an image that the cluster of kubectl's current context can pull, and confirms that this cluster is for
#: tests.
IMAGE = "RELAY_KUBERNETES_IMAGE"
READY_S = 120


def kubectl(*arguments: str) -> str:
    result = subprocess.run(["kubectl", *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def node_of(namespace: str, pod: str) -> dict[str, Any]:
    """What a member says of itself."""
    [node] = json.loads(kubectl("--namespace", namespace, "exec", pod, "--", "relay", "status", "--json"))["nodes"]
    return dict(node)


def make_keys(directory: Path) -> Path:
    """Keys of both sites and a token for HTTP, as the README makes them."""
    sites = [argument for site in OTHER for argument in ("--site", site)]
    subprocess.run([sys.executable, "-m", "relay", "keygen", str(directory / "keys"), *sites], check=True, capture_output=True)
    (directory / "keys/token").write_text(f"{secrets.token_hex(32)}\n", encoding="utf-8")
    return directory / "keys"


def create_secret(site: str, keys: Path, *options: str) -> str:
    """The Secret that the pods of a site wait for."""
    files = ("--from-file", str(keys / site), "--from-file", str(keys / "token"))
    return kubectl("create", "secret", "generic", "relay-keys", *files, *options)


def write_overlay(directory: Path, site: str, namespaces: dict[str, str], image: str) -> Path:
    """The site as it stands, in a namespace of this run's own, with the image, and the other site in its namespace."""
    name, _, tag = image.rpartition(":")
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespaces[site],
        "resources": [os.path.relpath(K8S / site.lower(), directory / site)],
        "images": [{"name": "relay", "newName": name, "newTag": tag}],
        "configMapGenerator": [
            {
                "name": "relay-site",
                "namespace": f"relay-{site.lower()}",
                "behavior": "merge",
                "literals": [f"peers={OTHER[site]}=relay-bridge.{namespaces[OTHER[site]]}:7700"],
            }
        ],
    }
    (directory / site).mkdir()
    (directory / site / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    return directory / site


@pytest.fixture
def namespaces() -> Iterator[dict[str, str]]:
    """By site; they are gone afterwards."""
    run = uuid.uuid4().hex[:8]
    names = {site: f"relay-test-{run}-{site.lower()}" for site in OTHER}
    try:
        yield names
    finally:
        subprocess.run(["kubectl", "delete", "namespace", *names.values(), "--ignore-not-found", "--wait=false"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is here: no Secret was made")
def test_the_secret_contains_the_files_that_members_read(tmp_path: Path) -> None:
    """Needs no cluster."""
    config = yaml.safe_load((K8S / "base/relay.yaml").read_text(encoding="utf-8"))
    keys = make_keys(tmp_path)
    for site in OTHER:
        made = json.loads(create_secret(site, keys, "--dry-run=client", "--output=json"))
        files = {f"/etc/relay-keys/{name}" for name in made["data"]}
        assert files == {f"/etc/relay-keys/{each.name}" for each in (keys / site).iterdir()} | {config["http"]["token"]}
        assert made["metadata"]["name"] in (K8S / "base/statefulset.yaml").read_text(encoding="utf-8")


@pytest.fixture
def image() -> str:
    given = os.environ.get(IMAGE, "")
    if not given:
        pytest.skip(f"{IMAGE} names no image for a cluster: the manifests were not applied to one")
    return given


@pytest.mark.slow
@pytest.mark.needs("a cluster, kubectl and RELAY_KUBERNETES_IMAGE")
@pytest.mark.conforms("USR-5")
def test_one_command_per_data_centre_starts_members_that_see_all_six(
    image: str, namespaces: dict[str, str], tmp_path: Path
) -> None:
    keys = make_keys(tmp_path)
    for site in OTHER:
        kubectl("apply", "--kustomize", str(write_overlay(tmp_path, site, namespaces, image)))
        create_secret(site, keys, "--namespace", namespaces[site])
    for namespace in namespaces.values():
        kubectl("--namespace", namespace, "rollout", "status", "statefulset/relay", f"--timeout={READY_S}s")
    for site, namespace in namespaces.items():
        for pod in PODS:
            node = node_of(namespace, pod)
            assert (node["site"], node["name"]) == (site, pod)
            seen = {where: sorted(names) for where, names in node["global_view"]["sites"].items()}
            assert seen == {each: list(PODS) for each in OTHER}


@pytest.mark.slow
@pytest.mark.needs("a cluster, kubectl and RELAY_KUBERNETES_IMAGE")
@pytest.mark.conforms("USR-5")
def test_a_relay_that_cannot_reach_the_other_site_is_in_a_view_and_not_ready(
    image: str, namespaces: dict[str, str], tmp_path: Path
) -> None:
    """Only NYC runs. Its relay reports a missing link; the others are ready, and no member is restarted for it."""
    kubectl("apply", "--kustomize", str(write_overlay(tmp_path, "NYC", namespaces, image)))
    place = ("--namespace", namespaces["NYC"])
    create_secret("NYC", make_keys(tmp_path), *place)
    kubectl(*place, "wait", "statefulset/relay", "--for=jsonpath={.status.readyReplicas}=2", f"--timeout={READY_S}s")
    states = json.loads(kubectl(*place, "get", "pods", "--output=json"))["items"]
    assert [sorted(node_of(namespaces["NYC"], pod)["view"]["members"]) for pod in PODS] == [list(PODS)] * len(PODS)
    assert [status["restartCount"] for each in states for status in each["status"]["containerStatuses"]] == [0, 0, 0]
