"""Levels: how full each bounded queue and table of a gateway is."""

from __future__ import annotations

from relay.gateway.injector import Injector
from relay.gateway.peering import GatewayConfig, Peering
from relay.gateway.routes import Routes
from sitestack.model.level import Level


def gateway_levels(injector: Injector, routes: Routes, peering: Peering, config: GatewayConfig) -> dict[str, Level]:
    """The levels of these parts of a gateway, by their names in the status."""
    return {
        # Bytes of batches of other sites that wait for their place in this site's stream.
        "waiting_bytes": Level.of(injector.waiting_bytes, config.waiting_bytes_max, high=injector.waiting_bytes_high),
        # Bytes of routes' pieces, on the link where most of them wait.
        "routed_bytes": Level.of(routes.queued_bytes, config.link.routed_bytes_max, high=routes.queued_bytes_high),
        "routes": Level.of(len(routes), routes.routes_max, "each is a link"),
        # Connections that other relays have made to this one.
        "connections": Level.of(peering.accepted, config.connections_max, "a relay has one for each link"),
    }
