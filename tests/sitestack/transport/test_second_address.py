"""A member with two addresses: when the first is dead, the others reach it by the second and do not miss it."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
import trio

from sitestack.channel.open import open_channel
from sitestack.config import ProtocolsConfig, SiteConfig, TransportConfig
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.model.address import Physical
from tests.harness.channels import take, wait_for_view
from tests.harness.sockets import free_port

#: No connection watch: only datagrams tell whether the other one is there.
DETECTION = FailureDetectionConfig(heartbeat_interval_s=0.2, timeout_s=1.0, verify_timeout_s=2.0, watch=False)


@pytest.mark.long
@pytest.mark.conforms("LA-6", "LA-8")
async def test_a_member_whose_external_address_dies_is_reached_at_its_own() -> None:
    """A is known to the others by an address that forwards to it, as behind a router, until that forwards no more."""
    port = free_port()
    door = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await door.bind(("127.0.0.1", 0))
    forwarded = 0
    is_open = True

    async def forward() -> None:
        nonlocal forwarded
        while True:
            data = await door.recv(65_535)
            if is_open:
                forwarded += 1
                await door.sendto(data, ("127.0.0.1", port))

    discovery = DiscoveryConfig(initial_hosts=(Physical("127.0.0.1", port),), join_wait_s=0.3)
    plain = TransportConfig(interface="127.0.0.1", multicast=False)
    site = SiteConfig("NYC", transport=plain, discovery=discovery, protocols=ProtocolsConfig(failure_detection=DETECTION))
    behind = replace(plain, port=port, external_host="127.0.0.1", external_port=door.getsockname()[1])
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forward)
            async with open_channel(replace(site, transport=behind), name="A") as a, open_channel(site, name="B") as b:
                await wait_for_view(b, 2)
                assert a.transport.physical() == (Physical(*door.getsockname()), Physical("127.0.0.1", port))
                await b.send(b"through the door")
                await take(a, 1)
                assert forwarded > 0
                view = b.view
                is_open = False
                await b.send(b"past it")
                assert [message.payload for message in await take(a, 1)] == [b"past it"]
                assert (a.view, b.view) == (view, view)
            nursery.cancel_scope.cancel()
    door.close()
