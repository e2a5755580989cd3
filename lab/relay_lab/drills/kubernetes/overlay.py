"""A drill's changes of a site's manifests: a kustomize overlay. Pure.

The pods run a shell that only waits. `kubectl exec` starts the member: its standard input carries
the load, and signals reach it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from relay_lab.drills.layout import merged
from relay_lab.drills.plan import Drill

#: Paths in the pod, and names in the shipped manifests.
JOURNAL = "/var/lib/relay/journal"
PID_FILE = "/run/relay/pid"
CONFIG = "/etc/relay/relay.yaml"
STATEFUL_SET = "relay"
HTTP_PORT = 7800
_BRIDGE = "relay-bridge"
_BRIDGE_PORT = 7700
#: A shell script that waits, and ends at once on SIGTERM.
_WAIT = 'trap "exit 0" TERM; while :; do sleep 1 & wait $!; done'
#: The Secret of a site, and where the base looks for it.
_SECRET = "relay-keys"
_CONTAINER = "/spec/template/spec/containers/0"


def overlay(
    base: str, base_namespace: str, drill: Drill, site: str, namespaces: Mapping[str, str], keys: Sequence[str]
) -> dict[str, Any]:
    """Return the kustomization of a site. `base`: path to the shipped one, `namespaces`: site ->
    namespace, `keys`: paths of its secret files.
    """
    others = " ".join(f"{other}={_BRIDGE}.{namespaces[other]}:{_BRIDGE_PORT}" for other in drill.sites if other != site)
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespaces[site],
        "resources": [base],
        "configMapGenerator": [
            {"name": "relay-site", "namespace": base_namespace, "behavior": "merge", "literals": [f"peers={others}"]},
            {"name": "relay-config", "namespace": base_namespace, "behavior": "merge", "files": ["relay.yaml"]},
        ],
        "secretGenerator": [{"name": _SECRET, "namespace": base_namespace, "files": list(keys)}],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [
            {"target": {"kind": "StatefulSet", "name": STATEFUL_SET}, "patch": json.dumps(_pods(drill.members))},
        ],
    }


def _pods(members: int) -> list[dict[str, Any]]:
    removed = [f"{_CONTAINER}/{key}" for key in ("args", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle")]
    return [
        {"op": "replace", "path": "/spec/replicas", "value": members},
        {"op": "add", "path": f"{_CONTAINER}/command", "value": ["sh", "-c", _WAIT]},
        *[{"op": "remove", "path": path} for path in removed],
        {"op": "add", "path": f"{_CONTAINER}/volumeMounts/-", "value": {"name": "drill", "mountPath": JOURNAL}},
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "drill", "emptyDir": {"sizeLimit": "1Gi"}}},
    ]


def configuration(base: Mapping[str, Any], drill: Drill) -> dict[str, Any]:
    """Return the configuration of all members. HTTP is for forwarded ports alone, without a token."""
    own = {"http": {"bind": f"127.0.0.1:{HTTP_PORT}", "token": ""}}
    return merged(merged(base, own), drill.config)


def run_member(name: str) -> Sequence[str]:
    """Return the command in the pod that runs a member. The shell becomes the member, so the process
    id in PID_FILE is right.
    """
    node = f"relay node {CONFIG} --name {name} --publish - --journal {JOURNAL}/records"
    return ["sh", "-c", f"echo $$ >{PID_FILE}; exec {node}"]


def signal_member(signal: str) -> Sequence[str]:
    return ["sh", "-c", f"kill -{signal} $(cat {PID_FILE})"]
