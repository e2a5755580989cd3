"""Examination of other sites: whether a relay answers, admits this site and proves its own."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from relay.node.bridge.credentials import Credentials
from relay.node.bridge.router_calls import RouterFailed, call
from relay.node.bridge.tls import TlsStream, Unproven
from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from sitestack.model.address import Physical
from sitestack.seal.proofs import Proofs
from sitestack.transport.interfaces import Names, family_of

CONNECT_S = 2.0
RESOLVE_S = 2.0
ROUTER_S = 5.0
#: Seconds beyond the round trip until the members of a busy site hold and acknowledge a batch.
HELD_S = 0.07


async def examine_bridges(config: NodeConfig, credentials: Credentials | None, proofs: Proofs | None = None) -> list[Finding]:
    """Return a finding for each directly linked site. `proofs` are for routers."""
    peers = {site: places for site, places in config.relay.bridge.peers.items() if site != config.site}
    return [await _examine(config, site, places, credentials, proofs) for site, places in peers.items()]


async def _examine(
    config: NodeConfig, site: str, places: Sequence[Physical], credentials: Credentials | None, proofs: Proofs | None
) -> Finding:
    about, proved = f"relay.bridge.peers.{site}", "" if credentials is None else f" and proves to be of {site}"
    troubles = []
    for place in places:
        if place in config.relay.bridge.routers:
            trouble = await _call_by_router(config.site, site, place, credentials, proofs)
            if not trouble:
                return Finding(about, f"a relay answers through the router at {place}{proved}.")
            troubles.append(f"through the router at {place}: {trouble}")
            continue
        addresses = await Names([place]).find(RESOLVE_S)
        if not addresses:
            troubles.append(f"{place.host} resolves to no address")
        for address in addresses:
            trouble, round_trip_s = await _call(site, address, credentials)
            if not trouble:
                pace, advice = judge_pace(config, round_trip_s)
                return Finding(about, f"a relay answers at {address}{proved}; {pace}.", advice)
            troubles.append(f"{address}: {trouble}")
    advice = "Start the site, configure the addresses of its relay, or let the bridge port through the firewall."
    if all(place in config.relay.bridge.routers for place in places):
        advice = f"Start {site} with the same relay.bridge.routers, and the routers with the files of both sites."
    if any("certificate" in trouble or "proof" in trouble for trouble in troubles):
        advice = "Make a certificate for each site by the same authority (relay keygen)."
    return Finding(about, f"no relay of {site} is usable ({'; '.join(troubles)}).", advice)


def judge_pace(config: NodeConfig, round_trip_s: float) -> tuple[str, str]:
    """Return how fast a link over this round trip can be, and advice if its window prevents the configured rate."""
    gateway, held_s = config.relay_layer().gateway, round_trip_s + HELD_S
    reached = gateway.window_bytes_max(config.held_bytes_max()) / held_s
    pace = f"its round trip of {round_trip_s * 1e3:.0f} ms allows {reached / 1e6:.0f} MB/s"
    wanted = gateway.link.rate_max_bytes_s
    if wanted is None or wanted <= reached:
        return pace, ""
    return pace, f"Raise relay.budget.bytes to {round(2 * wanted * held_s)} for relay.link.rate_max_bytes_s."


async def _call(site: str, address: Physical, credentials: Credentials | None) -> tuple[str, float]:
    """Return why the relay at an address is unusable, or an empty string, and the seconds of a round trip."""
    with trio.move_on_after(CONNECT_S):
        with trio.socket.socket(family_of(address.host)) as sock:
            began = trio.current_time()
            try:
                await sock.connect(address)
            except ConnectionRefusedError:
                return "connection refused", 0.0
            except OSError as error:
                return f"cannot be reached ({error.strerror})", 0.0
            round_trip_s = trio.current_time() - began
            return await _prove(site, trio.SocketStream(sock), credentials), round_trip_s
    return "no answer: it is down, or a firewall drops the packets", 0.0


async def _call_by_router(own: str, site: str, router: Physical, credentials: Credentials | None, proofs: Proofs | None) -> str:
    """Return why the relay behind a router is unusable, or an empty string."""
    with trio.move_on_after(ROUTER_S):
        try:
            stream = await call(router, own, proofs, site)
        except RouterFailed as error:
            return str(error)
        async with stream:
            return await _prove(site, stream, credentials)
    return "no answer"


async def _prove(site: str, stream: trio.SocketStream, credentials: Credentials | None) -> str:
    if credentials is None:
        return ""
    if credentials.client is None:
        return f"this site cannot prove itself ({credentials.refusal})"
    tls = TlsStream(stream, credentials.client, server=False)
    try:
        named = await tls.prove()
    except Unproven as error:
        return f"no proof ({error})"
    return "" if named == site else f"the certificate is of {named}"
