"""The doctor at gossip routers and clocks: usable routers, registered members, and wrong clocks."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay.keys.directory import read_key_ring
from relay.node.bridge.bridge import BridgeConfig
from relay.node.bridge.credentials import Credentials
from relay.node.config.settings import HttpSettings, NodeConfig, RelaySettings
from relay.node.doctor.bridges import examine_bridges
from relay.node.doctor.clocks import examine_clocks
from relay.node.doctor.routers import RouterExamination
from relay.node.doctor.site import SiteExamination
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import Physical
from sitestack.seal.proofs import Proofs
from tests.harness.sockets import free_port
from tests.relay.node.bridge.test_router_calls import routers, two_sites
from tests.relay.node.doctor.test_doctor import told
from tests.relay.router.routers import RING, router, site

LIMIT_S = 45


@pytest.mark.parametrize("kind", ["udp", "tunnel"])
async def test_members_that_only_routers_know_are_found_and_reached(kind: str) -> None:
    transport = TransportConfig(kind="tunnel" if kind == "tunnel" else "udp", interface="127.0.0.1", multicast=False)
    with trio.fail_after(LIMIT_S):
        async with router(ring=RING) as there:
            members: SiteConfig = site(transport, there.place)
            config = NodeConfig(site="NYC", transport=transport, discovery=members.discovery)
            async with open_channel(members, name="A", keys=RING):
                examination = RouterExamination(config, Proofs("NYC", RING))
                [finding] = await examination.run()
                through = ", and a datagram passes the tunnel" if kind == "tunnel" else ""
                assert finding.what == f"a router answers at {there.place} and proves that it has a key of NYC{through}."
                assert [entry.name for entry in examination.registered.values()] == ["A"]
                findings = await SiteExamination(config, RING, registered=examination.registered.values()).run()
                assert told(findings, "site") == [(True, "1 of NYC answer this host directly: A.")]
                assert not told(findings, "transport.multicast")


async def test_a_router_that_is_not_there_and_one_with_another_key() -> None:
    with trio.fail_after(LIMIT_S):
        async with router(ring=RING) as there:
            nobody = Physical("127.0.0.1", free_port())
            config = NodeConfig(site="NYC", discovery=DiscoveryConfig(routers=(there.place, nobody)))
            findings = await RouterExamination(config, None).run()
    assert [(finding.is_well, finding.what) for finding in findings] == [
        (False, f"the router at {there.place} is unusable: it does not serve NYC, or has no key of it."),
        (False, f"the router at {nobody} is unusable: connection refused."),
    ]


async def test_a_relay_is_called_by_way_of_a_router(key_directory: Path) -> None:
    credentials = Credentials(key_directory / "NYC", "NYC")
    proofs = Proofs("NYC", read_key_ring(key_directory / "NYC"))
    async with two_sites(1, key_directory) as ([there], _channels):
        bridge = BridgeConfig(peers={"SFO": (there.place,), "LON": (there.place,)}, routers=(there.place,))
        config = NodeConfig(site="NYC", relay=RelaySettings(bridge=bridge))
        assert [finding.is_well for finding in await RouterExamination(config, proofs).run()] == [True]
        found, missed = await examine_bridges(config, credentials, proofs)
    assert found.what == f"a relay answers through the router at {there.place} and proves to be of SFO."
    assert "it does not serve LON" in missed.what
    assert missed.advice.startswith("Start LON with the same relay.bridge.routers")
    async with routers(1, key_directory) as [there]:
        config = replace(
            config, relay=RelaySettings(bridge=replace(bridge, peers={"SFO": (there.place,)}, routers=(there.place,)))
        )
        [missed] = await examine_bridges(config, credentials, proofs)
    assert "no relay of SFO waits there" in missed.what


async def test_clocks_are_compared_where_http_tells_them() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        now = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        await stream.send_all(f"HTTP/1.1 200\r\ncontent-length: 0\r\nDate: {now}\r\n\r\n".encode())

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        at = Physical("127.0.0.1", listener.socket.getsockname()[1])
        config = NodeConfig(site="NYC", http=HttpSettings(bind=Physical("0.0.0.0", at.port)))
        with trio.fail_after(LIMIT_S):
            [well] = await examine_clocks(config, [at.host, at.host])
            [fast] = await examine_clocks(config, [at.host], clock=lambda: time.time() + 3_600.0)
            [slow] = await examine_clocks(config, [at.host], clock=lambda: time.time() - 3_600.0)
            [unknown] = await examine_clocks(replace(config, http=HttpSettings(bind=Physical("0.0.0.0", 1))), [at.host])
            assert await examine_clocks(NodeConfig(site="NYC"), [at.host]) == []
        nursery.cancel_scope.cancel()
    assert (well.is_well, well.what) == (True, "127.0.0.1 agrees within 2 s.")
    for finding in (fast, slow):
        assert not finding.is_well
        assert finding.what.startswith("127.0.0.1 differs by 3")
        assert finding.advice.startswith("Synchronize all clocks (NTP)")
    assert (unknown.is_well, "its clock is unknown" in unknown.what) == (True, True)
