"""The whole examination in order of dependence: keys, machine, routers, site, other sites."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relay.keys.directory import read_key_ring
from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from relay.node.doctor.bridges import examine_bridges
from relay.node.doctor.clocks import examine_clocks
from relay.node.doctor.machine import examine_keys, examine_path, examine_ports
from relay.node.doctor.routers import RouterExamination
from relay.node.doctor.site import RESOLVE_S, SiteExamination
from sitestack.channel.presence.sockets import find_network, resolve_names
from sitestack.model.errors import ConfigurationError
from sitestack.seal.proofs import Proofs
from sitestack.transport.interfaces import find_interface


async def examine(config: NodeConfig) -> list[Finding]:
    """Return all findings, after a few seconds. Changes nothing and does not join the site."""
    try:
        ring = read_key_ring(Path(config.security.keys)) if config.security.keys else None
    except ConfigurationError as error:
        advice = "Make keys (relay keygen), or name their directory. The other checks need this."
        return [Finding("security.keys", str(error), advice)]
    findings, credentials = examine_keys(config)
    host = ""
    resolved, _ = await resolve_names(replace(config, channel=replace(config.channel, resolve_timeout_s=RESOLVE_S)))
    try:
        if config.transport.kind != "tunnel":
            transport, _ = await find_network(resolved)
            config, host = replace(config, transport=transport), find_interface(transport.interface, "", transport.ipv6)
    except ConfigurationError as error:
        return [*findings, Finding("this machine", str(error), "The other checks need this.")]
    findings += examine_ports(config, host)
    proofs = None if ring is None else Proofs(config.site, ring)
    routers = RouterExamination(config, proofs)
    findings += await routers.run()
    config = replace(config, discovery=replace(config.discovery, routers=resolved.discovery.routers))
    site = SiteExamination(config, ring, registered=routers.registered.values())
    try:
        findings += await site.run()
    except ConfigurationError as error:
        findings.append(Finding("transport", str(error), "Without a socket, no member can be asked."))
    hosts = {place.host: place for place in site.reached_at}
    # only routers can reach a uuid
    reached = {} if config.transport.kind == "tunnel" else hosts
    for place in reached.values():
        findings += examine_path(config, place)
    findings += await examine_clocks(config, [*reached])
    return [*findings, *await examine_bridges(config, credentials, proofs)]
