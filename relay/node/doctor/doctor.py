"""The whole examination, in the order in which one thing needs another: keys, machine, site, other sites."""

from __future__ import annotations

from pathlib import Path

from relay.keys.directory import read_key_ring
from relay.node.doctor.bridges import examine_bridges
from relay.node.doctor.finding import Finding
from relay.node.doctor.machine import examine_keys, examine_path, examine_ports
from relay.node.doctor.site import SiteExamination
from relay.node.settings import NodeConfig
from sitestack.model.errors import ConfigurationError
from sitestack.transport.interfaces import find_interface


async def examine(config: NodeConfig) -> list[Finding]:
    """What was found. Takes a few seconds; changes nothing, and joins nothing."""
    findings, credentials = examine_keys(config)
    try:
        ring = read_key_ring(Path(config.security.keys)) if config.security.keys else None
        host = find_interface(config.transport.interface, config.transport.group(config.site).host)
    except ConfigurationError as error:
        return [*findings, Finding("this machine", str(error), "Nothing else can be looked at before.")]
    findings += examine_ports(config, host)
    site = SiteExamination(config, ring)
    try:
        findings += await site.run()
    except ConfigurationError as error:
        findings.append(Finding("transport", str(error), "No socket can be had, so nobody was asked."))
    for place in {place.host: place for place in site.reached_at}.values():
        findings += examine_path(config, place)
    return [*findings, *await examine_bridges(config, credentials)]
