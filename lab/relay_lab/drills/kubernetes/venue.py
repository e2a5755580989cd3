"""A cluster as a place for drills: kubectl's current context, with new namespaces for every run."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

import relay
from relay.node.config.config_file import load
from relay_lab.drills.executor import Executor, Place, PlaceFailed
from relay_lab.drills.kubernetes.overlay import STATEFUL_SET, configuration, overlay
from relay_lab.drills.kubernetes.pod import Kubectl, KubernetesExecutor, Pod
from relay_lab.drills.layout import make_keys
from relay_lab.drills.plan import Drill, seat_members
from sitestack.model.errors import ConfigurationError

_OPTION = "relay drill --on kubernetes"
_DIRECTORY = "k8s"
_PREFIX = "relay-drill-"
_READY_S = 180


class KubernetesVenue:
    """The manifests in the working directory, or else those that this code came with."""

    def __init__(self) -> None:
        self._kubectl: Kubectl | None = None

    async def prepare(self, drill: Drill) -> None:
        """Refuse unsupported drills, and check that a cluster answers. Raises ConfigurationError."""
        manifests = find_manifests()
        if refusals := list(refuse(drill, manifests)):
            raise ConfigurationError("\n".join(f"{_OPTION}: {refusal}" for refusal in refusals))
        self._kubectl = Kubectl()
        await self._kubectl.reach()

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        assert self._kubectl is not None
        return _open(self._kubectl, drill, directory, journal)


def find_manifests() -> Path:
    """Return the directory of the manifests. Raises ConfigurationError."""
    for directory in (Path.cwd(), Path(relay.__file__).parent.parent):
        if (directory / _DIRECTORY / "base").is_dir():
            return directory / _DIRECTORY
    raise ConfigurationError(
        f"{_OPTION}: there is no {_DIRECTORY}/base in the working directory; run it in a checkout of relay."
    )


def refuse(drill: Drill, manifests: Path) -> Iterator[str]:
    """Yield sentences on the drill's actions that a cluster does not support."""
    missing = [site for site in drill.sites if not (manifests / site.lower()).is_dir()]
    if missing:
        yield f"There are no manifests for {', '.join(missing)}."
    if drill.attacks:
        yield "Attacks need --on local: they are directed at sites of the drill itself only."
    verbs = dict.fromkeys(action.do for action in drill.method)
    links = [verb for verb in verbs if any(action.link and action.do == verb != "heal" for action in drill.method)]
    if links:
        yield (
            f"{', '.join(links)}: only with --on compose or --on local. A cluster's network may not enforce policies on "
            "open connections."
        )
    if local := [verb for verb in ("fill-disk", "block", "stop-reader", "upgrade") if verb in verbs]:
        yield f"{', '.join(local)}: only with --on local."


@asynccontextmanager
async def _open(kubectl: Kubectl, drill: Drill, directory: Path, journal: Path) -> AsyncIterator[Executor]:
    run = f"{_PREFIX}{random.SystemRandom().getrandbits(32):08x}"
    namespaces = {site: f"{run}-{site.lower()}" for site in drill.sites}
    executor: KubernetesExecutor | None = None
    try:
        keys = make_keys(drill, directory)
        for site in drill.sites:
            await kubectl.run("apply", "--kustomize", str(_write_overlay(drill, site, namespaces, directory, keys)))
        for site in drill.sites:
            await _until_running(kubectl, site, namespaces[site])
        seats = seat_members(drill.sites, drill.members)
        pods = {
            seat: Pod(kubectl, seat, namespaces[seat.site], f"{STATEFUL_SET}-{place % drill.members}", directory, journal)
            for place, seat in enumerate(seats)
        }
        executor = KubernetesExecutor(pods, journal)
        yield executor
    finally:
        with trio.CancelScope(shield=True):
            if executor is not None:
                await executor.abort()
            await kubectl.run(
                "delete", "namespace", *namespaces.values(), "--ignore-not-found", "--wait=true", "--timeout=180s"
            )


def _write_overlay(drill: Drill, site: str, namespaces: Mapping[str, str], directory: Path, keys: Path) -> Path:
    """Write the overlay of a site. Kustomize takes bases only by relative paths."""
    manifests = find_manifests()
    target = (directory / site.lower()).resolve()
    target.mkdir()
    base = (manifests / site.lower()).resolve()
    base_namespace = load(base / "kustomization.yaml")["namespace"]
    shutil.copytree(keys / site, target / "keys")
    secrets = sorted(f"keys/{each.name}" for each in (keys / site).iterdir())
    plain = overlay(os.path.relpath(base, target), base_namespace, drill, site, namespaces, secrets)
    (target / "kustomization.yaml").write_text(json.dumps(plain, indent=2), encoding="utf-8")
    config = configuration(load(manifests / "base" / "relay.yaml"), drill)
    (target / "relay.yaml").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return target


async def _until_running(kubectl: Kubectl, site: str, namespace: str) -> None:
    place = ("--namespace", namespace)
    if await kubectl.try_run("rollout", "status", *place, f"statefulset/{STATEFUL_SET}", f"--timeout={_READY_S}s") is None:
        reasons = "{.items[*].status.containerStatuses[*].state.waiting.reason}"
        why = (await kubectl.try_run("get", "pods", *place, f"--output=jsonpath={reasons}") or b"").decode().split()
        raise PlaceFailed(
            f"The pods of {site} did not start within {_READY_S} s ({', '.join(dict.fromkeys(why)) or 'no reason given'})."
        )
