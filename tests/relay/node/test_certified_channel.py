"""Two sites whose relays know each other by certificate, as an application sees them; the bridge is real TCP."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay.keys.directory import make_key_directory
from relay.node import site_keys
from relay.node.bridge.bridge import BridgeConfig
from relay.node.bridge.credentials import Credentials
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings, SecuritySettings
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.harness.certificates import authority, signed, write_site
from tests.harness.sockets import free_ports, until
from tests.relay.node.test_relay_channel import QUICK, sees

pytestmark = pytest.mark.conforms("REL-36")

OLD, NEW = authority(), authority()


def configs(keys: Path) -> tuple[NodeConfig, NodeConfig]:
    """One member in each of two sites that call each other."""
    ports = dict(zip(("NYC", "SFO"), free_ports(2), strict=True))

    def config(site: str, other: str) -> NodeConfig:
        bind, peer = [Physical("127.0.0.1", ports[each]) for each in (site, other)]
        relay = RelaySettings(bridge=BridgeConfig(bind=bind, peers={other: (peer,)}), dial_s=0.05, dial_s_max=0.2)
        return replace(QUICK, site=site, name=site[0], relay=relay, security=SecuritySettings(keys=str(keys / site)))

    return config("NYC", "SFO"), config("SFO", "NYC")


async def run_pair(stack: AsyncExitStack, keys: Path) -> tuple[RelayChannel, RelayChannel]:
    make_key_directory(keys, ["NYC", "SFO"])
    write_site(keys / "NYC", signed(OLD, "NYC"), OLD)
    write_site(keys / "SFO", signed(OLD, "SFO"), OLD)
    nyc, sfo = [
        await stack.enter_async_context(open_channel(config, transport=MemoryNetwork().open())) for config in configs(keys)
    ]
    await sees(nyc, "N", "S")
    await sees(sfo, "N", "S")
    return nyc, sfo


def drops(channel: RelayChannel) -> dict[str, int]:
    found = channel.statistics().stack["drops"]
    assert isinstance(found, dict)
    return found


def links(channel: RelayChannel) -> int:
    bridge = channel.statistics().bridge
    return bridge.accepted + bridge.dialed


async def more(heard: list[int]) -> None:
    """Wait until some more messages have come."""
    already = len(heard)
    await until(lambda: len(heard) > already + 50)


async def test_certificates_and_then_their_authority_are_renewed_under_load_and_nothing_is_lost_or_repeated(
    tmp_path: Path,
) -> None:
    heard: list[int] = []
    sent, done = 0, False
    with trio.fail_after(30):
        async with AsyncExitStack() as stack:
            nyc, sfo = await run_pair(stack, tmp_path)

            async def send() -> None:
                nonlocal sent
                while not done:
                    await nyc.send(str(sent).encode())
                    sent += 1
                    await trio.sleep(0.001)

            async def hear() -> None:
                async for item in sfo:
                    if isinstance(item, Message):
                        heard.append(int(item.payload))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                nursery.start_soon(hear)
                await more(heard)
                made = links(nyc)
                steps = [(OLD, (OLD,)), (OLD, (OLD, NEW)), (NEW, (OLD, NEW))]
                for signer, trusted in steps:
                    for channel in (nyc, sfo):
                        write_site(tmp_path / channel.site, signed(signer, channel.site), *trusted)
                        channel._reread_keys()
                    await more(heard)
                assert links(nyc) == made, "none of this has ended a link"
                for channel in (nyc, sfo):
                    write_site(tmp_path / channel.site, signed(NEW, channel.site), NEW)
                    channel._reread_keys()
                await until(lambda: links(nyc) > made)
                assert nyc.statistics().bridge.distrusted + sfo.statistics().bridge.distrusted > 0
                await more(heard)
                done = True
                await until(lambda: len(heard) == sent)
                await trio.sleep(0.2)
                nursery.cancel_scope.cancel()
    assert heard == list(range(sent))


async def test_a_relay_that_calls_itself_another_site_than_its_certificate_does_is_not_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate of LAX, and a HELLO of SFO."""
    make_key_directory(tmp_path, ["NYC", "SFO"])
    write_site(tmp_path / "NYC", signed(OLD, "NYC"), OLD)
    write_site(tmp_path / "SFO", signed(OLD, "LAX"), OLD)
    as_lax = {"NYC": "NYC", "SFO": "LAX"}
    monkeypatch.setattr(site_keys, "read_own_facts", lambda certificate, site: None)
    monkeypatch.setattr(site_keys, "Credentials", lambda path, site: Credentials(path, as_lax[site]))
    with trio.fail_after(20):
        async with AsyncExitStack() as stack:
            nyc, sfo = [
                await stack.enter_async_context(open_channel(config, transport=MemoryNetwork().open()))
                for config in configs(tmp_path)
            ]
            await until(lambda: drops(nyc).get("hello_certificate", 0) > 0)
            await trio.sleep(0.3)
            for channel in (nyc, sfo):
                assert channel.global_view is not None
                assert len(channel.global_view.members) == 1


async def test_a_member_whose_certificate_is_that_of_another_site_does_not_start(tmp_path: Path) -> None:
    make_key_directory(tmp_path, ["NYC", "SFO"])
    write_site(tmp_path / "NYC", signed(OLD, "SFO"), OLD)
    linked = configs(tmp_path)[0]
    for config in (linked, replace(linked, relay=replace(linked.relay, bridge=BridgeConfig()))):
        with pytest.raises(ConfigurationError, match="names site 'SFO', and this is a member of site 'NYC'"):
            async with open_channel(config, transport=MemoryNetwork().open()):
                pass


async def test_a_site_without_links_needs_no_certificate(tmp_path: Path) -> None:
    make_key_directory(tmp_path, ["NYC"])
    for name in ("bridge.pem", "bridge.key", "authority.pem"):
        (tmp_path / "NYC" / name).unlink()
    alone = replace(QUICK, site="NYC", name="N", security=SecuritySettings(keys=str(tmp_path / "NYC")))
    with trio.fail_after(10):
        async with open_channel(alone, transport=MemoryNetwork().open()) as channel:
            assert not any(channel.problems().values())
