"""The compose project of one run: the shipped compose file with other names, networks and
configurations. Pure.

Compose resolves the file (`docker compose config --format json`), and the members are read from its
services.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_lab.drills import blockable as blockable_relay
from relay_lab.drills.compose.detours import Detours
from relay_lab.drills.layout import merged
from relay_lab.drills.plan import Drill, Seat, seat_members

#: Range for the networks of drills: that for benchmarks (RFC 2544).
_SUBNETS = ipaddress.ip_network("198.19.0.0/16")
_SUBNET_PREFIX = 24
_CONFIG = "/etc/relay/relay.yaml"
#: Names of the services that make keys and token, and the place of the token.
_KEYS = "keys-"
TOKEN = "/etc/relay/http/token"
#: Port of a site's members without multicast.
_MEMBER_PORT = 7601


@dataclass(frozen=True, slots=True)
class Topology:
    """The members, sites and networks of a compose file."""

    services: Mapping[Seat, str]
    files: Mapping[str, str]
    networks: Mapping[str, str]
    wan: str

    def refuse(self, drill: Drill) -> Iterator[str]:
        """Yield a sentence if the file has other sites or members than the drill."""
        if list(self.services) != seat_members(drill.sites, drill.members):
            there = "; ".join(
                f"{site} with {', '.join(seat.name for seat in self.services if seat.site == site)}" for site in self.files
            )
            wanted = f"{drill.members} members in each of {', '.join(drill.sites)}"
            yield f"The drill {drill.name} wants {wanted}, and the compose file has {there}."


def config_file(service: Mapping[str, Any]) -> str:
    command = service.get("command") or [""]
    if command[0] == "node":
        for each in service.get("volumes") or ():
            if each["type"] == "bind" and command[1].startswith(f"{each['target']}/"):
                return f"{each['source']}{command[1].removeprefix(each['target'])}"
    return ""


def key_makers(resolved: Mapping[str, Any]) -> list[str]:
    return [name for name in resolved["services"] if name.startswith(_KEYS)]


def read_topology(resolved: Mapping[str, Any], configurations: Mapping[str, Mapping[str, Any]]) -> Topology:
    """Return the topology of a resolved compose file; `configurations` maps its configuration files to their
    contents.

    Raises KeyError, TypeError or ValueError if the file describes no sites.
    """
    services: dict[Seat, str] = {}
    files: dict[str, str] = {}
    networks: dict[str, list[set[str]]] = {}
    for name, service in resolved["services"].items():
        file = config_file(service)
        if not file:
            continue
        site = configurations[file]["site"]
        services[Seat(site, service["environment"]["RELAY_NAME"])] = name
        files[site] = file
        networks.setdefault(site, []).append(set(service["networks"]))
    everybody = [each for members in networks.values() for each in members]
    [wan] = set.intersection(*everybody)
    own = {site: min(set.intersection(*members) - {wan}) for site, members in networks.items()}
    return Topology(services, files, own, wan)


def derive_project(
    resolved: Mapping[str, Any],
    topology: Topology,
    image: str,
    files: Mapping[str, str],
    subnets: Mapping[str, str],
    detours: Detours | None = None,
    *,
    blockable: bool = False,
) -> dict[str, Any]:
    """Return the project of a run: members that read standard input, and the maker of their keys, on networks of
    this run.

    `files` maps sites to configuration files, `subnets` networks to subnets. `blockable`: whether event loops can
    be blocked.
    """
    pools = {name: {"subnet": subnet} for name, subnet in subnets.items()}
    services = {}
    for seat, name in topology.services.items():
        service = dict(resolved["services"][name])
        # a member that ends stays down until the drill starts it again
        for key in ("build", "depends_on", "container_name", "ports", "restart"):
            service.pop(key, None)
        service["image"] = image
        service["command"] = ["node", _CONFIG, "--publish", "-"]
        service["stdin_open"] = True
        if blockable:
            service["entrypoint"] = ["python", "-m", blockable_relay.__name__]
        # the drill asks the members itself
        service["healthcheck"] = {"disable": True}
        service["configs"] = [{"source": seat.site, "target": _CONFIG}]
        service["volumes"] = [each for each in service["volumes"] if each["type"] == "volume"]
        service["networks"] = {
            network: {"aliases": [name, _alias(seat.site)]} if network != topology.wan else {"aliases": [name]}
            for network in service["networks"]
        }
        if detours is not None:
            service["environment"] = {**service["environment"], "RELAY_PEERS": detours.peers(seat)}
            service["networks"][topology.wan]["ipv4_address"] = detours.addresses[seat]
            pools[topology.wan]["gateway"] = detours.gateway
        services[name] = service
    for name in key_makers(resolved):
        maker = {key: value for key, value in resolved["services"][name].items() if key != "build"}
        services[name] = {**maker, "image": image}
    mounted = {
        each["source"] for service in services.values() for each in service.get("volumes", ()) if each["type"] == "volume"
    }
    return {
        "services": services,
        "configs": {site: {"file": file} for site, file in files.items()},
        "networks": {name: {"ipam": {"config": [pool]}} for name, pool in pools.items()},
        "volumes": {name: {} for name in resolved["volumes"] if name in mounted},
    }


def derive_configuration(base: Mapping[str, Any], drill: Drill, subnet: str, multicast: bool) -> dict[str, Any]:
    """Return a site's configuration for a run: the shipped one on the run's network, with the drill's
    changes.

    Without multicast the members share a DNS name.
    """
    own: dict[str, Any] = {"transport": {"interface": subnet}}
    if not multicast:
        own["transport"] |= {"multicast": False, "port": _MEMBER_PORT}
        own["discovery"] = {"dns": f"{_alias(base['site'])}:{_MEMBER_PORT}"}
    return merged(merged(base, own), drill.config)


def draw_subnets(names: Sequence[str], taken: Sequence[str], rng: random.Random) -> dict[str, str]:
    """Return a random subnet for each name, none of which overlaps a taken one."""
    used = [ipaddress.ip_network(each, strict=False) for each in taken]
    free = [
        subnet
        for subnet in _SUBNETS.subnets(new_prefix=_SUBNET_PREFIX)
        if not any(other.version == 4 and subnet.overlaps(other) for other in used)
    ]
    return dict(zip(names, map(str, rng.sample(free, len(names))), strict=True))


def _alias(site: str) -> str:
    return f"{site.lower()}-members"
