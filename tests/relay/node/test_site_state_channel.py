"""A state that crosses between sites, in real channels: datagrams in memory, the bridge over TCP on the loopback interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from structlog.testing import capture_logs

from relay.events import StateProgress
from relay.layer.statistics import RelayStatistics
from relay.node.channel import RelayChannel, open_channel
from relay.site_state.config import SiteStateSettings
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.errors import ConfigurationError, LocalError
from sitestack.model.message import Message
from tests.harness.sockets import until
from tests.relay.node.test_relay_channel import QUICK, World

pytestmark = pytest.mark.conforms("REL-32")


class Log:
    """An application whose state is all that was ever multicast, in order of arrival."""

    def __init__(self, world: World, site: str, name: str) -> None:
        self.lines: list[str] = []
        self.states = 0
        self._world, self._site, self._name = world, site, name

    def get_state(self) -> bytes:
        return json.dumps(self.lines).encode()

    def set_state(self, data: bytes) -> None:
        self.lines = json.loads(data)
        self.states += 1

    @asynccontextmanager
    async def open(self, *sources: str) -> AsyncIterator[RelayChannel]:
        """A member of which the application takes all it gets, until the end of the block."""
        config = self._world.config(self._site, self._name)
        protocols = replace(config.protocols, state_transfer=StateTransferConfig(ask_interval_s=0.1))
        config = replace(config, protocols=protocols, relay=replace(config.relay, state=SiteStateSettings(sources)))
        transport = self._world.networks[self._site].open()
        callbacks = {"get_state": self.get_state, "set_state": self.set_state}
        async with open_channel(config, transport=transport, **callbacks) as channel, trio.open_nursery() as nursery:  # type: ignore[arg-type]
            nursery.start_soon(self._receive, channel)
            yield channel
            nursery.cancel_scope.cancel()

    async def _receive(self, channel: RelayChannel) -> None:
        async for event in channel:
            if isinstance(event, Message):
                self.lines.append(event.payload.decode())


async def test_a_late_site_receives_the_state_and_a_running_member_fetches_it_again() -> None:
    world = World()
    a, d = Log(world, "NYC", "A"), Log(world, "SFO", "D")
    with trio.fail_after(60):
        async with a.open() as writer:
            for n in range(100):
                await writer.send(f"early {n}".encode())
            async with d.open("NYC") as channel:
                with capture_logs() as logs:
                    for n in range(50):
                        await writer.send(f"late {n}".encode())
                        await trio.sleep(0.002)
                    await until(lambda: len(d.lines) == 150)
                assert (d.lines, d.states) == (a.lines, 1)
                assert "site state installed" in [each["event"] for each in logs]
                d.lines.clear()
                channel.fetch_state()
                channel.fetch_state("NYC")
                await writer.send(b"last")
                await until(lambda: len(d.lines) == 151)
                assert (d.lines, d.states) == (a.lines, 2)
                relay = channel.statistics().stack["relay"]
                assert isinstance(relay, RelayStatistics)
                assert relay.state.outcome == "taken"


async def test_fetch_state_requires_a_configured_peer_and_get_state_and_logs_a_refusal() -> None:
    world = World()
    a = Log(world, "NYC", "A")
    async with a.open() as channel:
        for sites in ((), ("NYC",), ("LON",)):
            with pytest.raises(LocalError, match=r"not configured as a peer|no site is named"):
                channel.fetch_state(*sites)
        with capture_logs() as logs:
            channel._hand_over([StateProgress("SFO", 0, 9, "too_large")])
        assert [(each["log_level"], each["why"]) for each in logs] == [("warning", "too_large")]
    async with world.member("SFO", "D") as channel:
        with pytest.raises(LocalError, match="get_state"):
            channel.fetch_state("NYC")


async def test_a_source_that_is_no_other_site_is_refused() -> None:
    relay = replace(QUICK.relay, state=SiteStateSettings(("LON",)))
    with pytest.raises(ConfigurationError, match=r"relay\.state\.sites"):
        async with open_channel(replace(QUICK, site="NYC", relay=relay)):
            pass


@pytest.mark.long
def test_a_large_state_crosses_while_both_relays_are_killed_within_bounded_memory() -> None:
    """64 MB, 500 messages a second. In one process: two snapshots, as a taker was killed, the pieces, the state."""
    command = [sys.executable, "-m", "tests.relay.node.late_site", "64"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert figures["same"]
    assert figures["grew_bytes"] < 8 * figures["state_bytes"] + (96 << 20)
