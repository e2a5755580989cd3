"""A site is added to the peers of running members, moved, and taken out, over real connections."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import trio
from structlog.testing import capture_logs

from relay.node.config.settings import NodeConfig
from sitestack.model.address import Physical
from sitestack.model.errors import LocalError
from tests.harness.channels import take
from tests.harness.sockets import free_port
from tests.relay.node.test_relay_channel import World, sees


class Strangers(World):
    """Two sites without peers until a test adds them."""

    def __init__(self) -> None:
        super().__init__({"NYC": ("A",), "SFO": ("D",)})
        self.peers: dict[str, dict[str, tuple[Physical, ...]]] = {"NYC": {}, "SFO": {}}

    def config(self, site: str, name: str) -> NodeConfig:
        config = super().config(site, name)
        bridge = replace(config.relay.bridge, peers=self.peers[site])
        return replace(config, relay=replace(config.relay, bridge=bridge))


async def test_peers_of_running_members_are_called_moved_and_left() -> None:
    world = Strangers()
    with trio.fail_after(30), capture_logs() as logs:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(world.member("NYC", "A"))
            d = await stack.enter_async_context(world.member("SFO", "D"))
            world.peers["SFO"] = {"NYC": (Physical("127.0.0.1", world.ports["A"]),)}
            d._change_peers(world.config("SFO", "D"))
            world.peers["NYC"] = {"SFO": (Physical("127.0.0.1", free_port()),)}
            a._change_peers(world.config("NYC", "A"))
            await sees(a, "A", "D")
            await a.send(b"hello")
            assert [message.payload for message in await take(d, 1)] == [b"hello"]
            assert await a.switch_site("SFO", offline=False)
            world.peers["NYC"] = {}
            a._change_peers(world.config("NYC", "A"))
            while a.role is None or a.role.sites:  # noqa: ASYNC110 (no event)
                await trio.sleep(0.01)
            with pytest.raises(LocalError, match="SFO is not configured as a peer"):
                await a.switch_site("SFO", offline=True)
    said = [line["event"] for line in logs if line.get("site") == "SFO"]
    assert said[0] == "peer added"
    assert "peer removed" in said
