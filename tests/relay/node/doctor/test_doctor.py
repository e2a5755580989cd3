"""The doctor tells working parts from broken ones, found members from reachable ones, and names the remedy."""

from __future__ import annotations

import socket
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay.gateway.config import LinkConfig
from relay.keys.directory import read_key_ring
from relay.node.bridge.bridge import BridgeConfig
from relay.node.bridge.credentials import Credentials
from relay.node.config.settings import BudgetSettings, HttpSettings, NodeConfig, RelaySettings, SecuritySettings
from relay.node.doctor import Finding
from relay.node.doctor.bridges import examine_bridges, judge_pace
from relay.node.doctor.clocks import examine_clocks
from relay.node.doctor.doctor import examine
from relay.node.doctor.enquiry import Enquiry
from relay.node.doctor.machine import examine_buffers, examine_keys, examine_path, examine_ports
from relay.node.doctor.routers import RouterExamination
from relay.node.doctor.site import SiteExamination
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig, TransportKind
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.discovery.headers import IAmHere, WhoIsThere
from sitestack.model.address import Physical
from sitestack.model.address_cache import Contact
from sitestack.model.frame import Frame, Header
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import Proofs
from sitestack.stack.layer import Dropped
from sitestack.transport import interfaces
from sitestack.transport.memory import MemoryNetwork
from sitestack.transport.udp import UdpStatistics
from tests.harness.addresses import address, local_of
from tests.harness.certificates import authority, context, signed, write_site
from tests.harness.channels import members
from tests.harness.command_line import Run, run
from tests.harness.sockets import free_port
from tests.relay.node.bridge.test_router_calls import routers, two_sites
from tests.relay.router.routers import RING, router, site

__all__ = ["run"]

NYC = NodeConfig(site="NYC", transport=TransportConfig(interface="127.0.0.1"))
OURS = authority()


def told(findings: list[Finding], about: str) -> list[tuple[bool, str]]:
    """Whether all is well, and the sentences about one thing."""
    return [(finding.is_well, finding.what) for finding in findings if finding.about == about]


async def looked_at(network: MemoryNetwork, config: NodeConfig = NYC, ring: KeyRing | None = None) -> list[Finding]:
    with trio.fail_after(60):
        return await SiteExamination(config, ring, network.open()).run()


async def test_answering_members_are_named_for_direct_and_multicast_probes() -> None:
    network = MemoryNetwork()
    async with members("A", "B", network=network):
        findings = await looked_at(network)
        assert told(findings, "site") == [(True, "2 of NYC answer this host directly: A, B.")]
        assert told(findings, "transport.multicast") == [(True, "works: 2 answer (A, B).")]


@pytest.mark.long
async def test_a_member_that_is_known_to_others_and_answers_nothing_is_found_but_unreachable() -> None:
    """An unknown member is not found: that is another finding, with other advice."""
    network = MemoryNetwork()
    findings = await looked_at(network)
    assert told(findings, "site") == [(False, "no member of NYC was found.")]
    async with members("A", "B", network=network) as (a, b):
        [at_a], [at_b] = a.transport.physical(), b.transport.physical()
        network.allow = lambda source, target: {source, target} <= {at_a, at_b} or at_b not in (source, target)
        findings = await looked_at(network)
        [(well, reached), (ill, unreached)] = sorted(told(findings, "site"))[::-1]
        assert (well, reached) == (True, "1 of NYC answer this host directly: A.")
        assert (ill, unreached) == (
            False,
            f"B is known to other members but unreachable: it does not answer at {at_b}.",
        )
        network.allow = lambda source, target: True


@pytest.mark.long
async def test_an_earlier_probe_is_not_reported_as_a_member() -> None:
    """Members remember a caller for a minute, and report it to others."""
    network = MemoryNetwork()
    async with members("A", network=network):
        for _ in range(2):
            findings = await looked_at(network)
            assert told(findings, "site") == [(True, "1 of NYC answer this host directly: A.")]


@pytest.mark.long
async def test_members_that_multicasts_do_not_reach_are_found_by_hosts() -> None:
    """Over sockets: the members have no multicast, and the one that looks for them has it on."""
    port, nobody = free_port(), free_port()
    plain = TransportConfig(interface="127.0.0.1", multicast=False)
    itself = DiscoveryConfig(initial_hosts=(Physical("127.0.0.1", port),))
    async with open_channel(SiteConfig("NYC", transport=replace(plain, port=port), discovery=itself), name="A"):
        hosts = (Physical("127.0.0.1", port), Physical("127.0.0.1", nobody), Physical("no-such-name.invalid", 1))
        config = replace(NYC, discovery=DiscoveryConfig(initial_hosts=hosts))
        with trio.fail_after(60):
            findings = await SiteExamination(config, None).run()
    assert told(findings, "transport.multicast") == [(False, "no member answers multicasts, although members are running.")]
    assert told(findings, "discovery.initial_hosts") == [
        (False, "no-such-name.invalid resolves to no address."),
        (False, f"no member answers at 127.0.0.1:{nobody}."),
    ]
    assert told(findings, "site") == [(True, "1 of NYC answer this host directly: A.")]


@pytest.mark.long
async def test_members_with_different_keys_or_parameters_are_reported() -> None:
    network = MemoryNetwork()
    ours, theirs = (KeyRing.of(bytes([n]) * 32) for n in (1, 2))
    async with AsyncExitStack() as stack:
        site = SiteConfig("NYC", transport=NYC.transport)
        await stack.enter_async_context(open_channel(site, name="A", keys=theirs, transport=network.open()))
        findings = await looked_at(network, ring=ours)
        assert [well for well, what in told(findings, "security.keys") if "unknown key" in what] == [False]
    network = MemoryNetwork()
    async with members("A", network=network):
        findings = await looked_at(network, replace(NYC, order="fifo"))
        assert [well for well, what in told(findings, "site") if what.startswith("members run with")] == [False]


async def test_a_relay_is_identified_by_its_certificate(tmp_path: Path) -> None:
    """SFO's proves itself; LON's is another one's; BER's refuses."""
    keys = {site: write_site(tmp_path / site, signed(OURS, site), OURS) for site in ("NYC", "SFO")}
    ours = Credentials(keys["NYC"], "NYC")
    server = Credentials(keys["SFO"], "SFO").server
    assert server is not None
    refused = Physical("127.0.0.1", free_port())
    async with trio.open_nursery() as nursery:

        async def serve(stream: trio.SocketStream) -> None:
            tls = trio.SSLStream(stream, server, server_side=True)
            await tls.do_handshake()
            await trio.sleep_forever()

        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        there = Physical("127.0.0.1", listener.socket.getsockname()[1])
        peers = {"SFO": (refused, there), "LON": (there,), "BER": (refused,)}
        config = replace(NYC, relay=RelaySettings(bridge=BridgeConfig(peers=peers)))
        with trio.fail_after(60):
            findings = await examine_bridges(config, ours)
        nursery.cancel_scope.cancel()
    assert [finding.is_well for finding in findings] == [True, False, False]
    assert findings[0].what.startswith(f"a relay answers at {there} and proves to be of SFO; its round trip of ")
    assert "the certificate is of SFO" in findings[1].what
    assert findings[1].advice.startswith("Make a certificate for each site")
    assert f"{refused}: connection refused" in findings[2].what


def test_ports_buffers_and_the_way_of_large_datagrams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        busy = replace(NYC, transport=replace(NYC.transport, port=taken.getsockname()[1]))
        [finding] = examine_ports(busy, "127.0.0.1")
        assert (finding.is_well, "already in use" in finding.what) == (False, True)
    granted = UdpStatistics(receive_buffer_bytes=1_000, send_buffer_bytes=1 << 30)
    [finding] = examine_buffers(NYC, granted)
    assert finding.advice.startswith("Raise net.core.rmem_max")
    assert examine_path(NYC, Physical("127.0.0.1", 9))[0].is_well


def test_a_taken_port_is_well_only_while_a_node_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_well(bind: Physical) -> bool:
        [finding] = examine_ports(replace(NYC, relay=RelaySettings(bridge=BridgeConfig(bind=bind))), "127.0.0.1")
        assert finding.about == "relay.bridge.bind"
        return finding.is_well

    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path))
    with socket.socket() as taken, socket.socket(socket.AF_UNIX) as node:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        node.bind(str(tmp_path / "a.sock"))
        assert not is_well(Physical(*taken.getsockname())), "a killed node has left its socket"
        node.listen()
        assert is_well(Physical(*taken.getsockname()))
        assert not is_well(Physical("203.0.113.4", 7700)), "no node can listen there"


def test_keys_that_end_soon_are_a_finding_and_those_of_another_site_too(tmp_path: Path) -> None:
    bridge = RelaySettings(bridge=BridgeConfig(bind=Physical("127.0.0.1", 0)))

    def looked_at_keys(days: float) -> tuple[list[Finding], Credentials | None]:
        keys = write_site(tmp_path / "NYC", signed(OURS, "NYC", to_day=days), OURS)
        return examine_keys(replace(NYC, relay=bridge, security=SecuritySettings(keys=str(keys))))

    for days, well in ((300, True), (10, False), (-0.5, False)):
        [finding], credentials = looked_at_keys(days)
        assert (finding.is_well, credentials is not None) == (well, True)
        assert well or "relay keygen --renew" in finding.advice, "which keeps the key ring of the site; --force does not"
    [finding], credentials = examine_keys(replace(NYC, security=SecuritySettings(insecure=True)))
    assert (finding.is_well, credentials) == (True, None)
    [finding], _ = examine_keys(NYC)
    assert not finding.is_well


def test_doctor_prints_one_line_per_finding_and_looks_at_the_keys_of_another_place(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "nyc.yaml"
    config.write_text(f"site: NYC\ntransport: {{interface: 127.0.0.1, multicast_port: {free_port()}}}\n")
    code, out, _ = run("doctor", config, "--insecure")
    assert code == 1
    assert "!!  site: no member of NYC was found. Start the first member" in out
    assert all(line.startswith(("ok  ", "!!  ")) for line in out.splitlines())
    assert run("keygen", tmp_path / "keys", "--site", "NYC").code == 0
    keys = tmp_path / "keys" / "NYC"
    assert f"ok  security.keys: the keys in {keys} are usable" in run("doctor", config, "--keys", keys).out
    assert "!!  security.keys" in run("doctor", config, "--keys", tmp_path / "nowhere").out


async def test_an_interface_that_is_not_there_ends_the_examination() -> None:
    config = replace(NYC, transport=TransportConfig(interface="203.0.113.7"))
    findings = await examine(config)
    assert not findings[-1].is_well


@pytest.mark.parametrize(
    ("budget", "rate", "round_trip_s", "pace", "advice"),
    [
        (None, None, 0.08, "its round trip of 80 ms allows 224 MB/s", ""),
        (None, 200_000_000, 0.08, "its round trip of 80 ms allows 224 MB/s", ""),
        (
            20_000_000,
            125_000_000,
            0.18,
            "its round trip of 180 ms allows 40 MB/s",
            "Raise relay.budget.bytes to 62500000 for relay.link.rate_max_bytes_s.",
        ),
    ],
)
def test_the_budget_bounds_the_pace_of_a_long_line(
    budget: int | None, rate: int | None, round_trip_s: float, pace: str, advice: str
) -> None:
    link = LinkConfig(rate_max_bytes_s=rate)
    config = NodeConfig(site="NYC", relay=RelaySettings(link=link, budget=BudgetSettings(bytes=budget)))
    assert judge_pace(config, round_trip_s) == (pace, advice)


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


async def test_members_are_reached_through_a_router_that_is_given_by_name() -> None:
    transport = TransportConfig(kind="tunnel", multicast=False)
    with trio.fail_after(LIMIT_S):
        async with router() as there, open_channel(site(transport, there.place), name="A"):
            named = DiscoveryConfig(routers=(Physical("localhost", there.place.port),))
            findings = await examine(NodeConfig(site="NYC", transport=transport, discovery=named))
    assert told(findings, "site") == [(True, "1 of NYC answer this host directly: A.")]


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


@pytest.mark.parametrize("kind", ["udp", "tcp", "tunnel"])
async def test_without_a_route_to_the_group_all_is_examined_that_a_node_can_use(
    kind: TransportKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node binds by the route to a host; in a tunnel it binds nothing."""
    host, nobody = Physical("198.51.100.7", 7_600), Physical("127.0.0.1", free_port())
    monkeypatch.setattr(interfaces, "route_to", {host.host: "127.0.0.1"}.get)
    discovery = DiscoveryConfig(routers=(nobody,)) if kind == "tunnel" else DiscoveryConfig(initial_hosts=(host,))
    config = NodeConfig(site="NYC", transport=TransportConfig(kind=kind, multicast=False), discovery=discovery)
    with trio.fail_after(LIMIT_S):
        findings = await examine(config)
        monkeypatch.setattr(interfaces, "route_to", lambda host: None)
        alone = await examine(config)
    assert told(findings, "this machine") == []
    assert told(findings, "site") == [(False, "no member of NYC was found.")]
    assert len(told(alone, "this machine")) == (kind != "tunnel")


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


@pytest.mark.parametrize("has_tls", [False, True])
async def test_clocks_are_compared_where_http_tells_them(tmp_path: Path, has_tls: bool) -> None:
    tls = context(write_site(tmp_path / "keys", signed(OURS, "NYC")), server=True)

    async def serve(plain: trio.SocketStream) -> None:
        stream = trio.SSLStream(plain, tls, server_side=True, https_compatible=True) if has_tls else plain
        await stream.receive_some()
        now = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        await stream.send_all(f"HTTP/1.1 200\r\ncontent-length: 0\r\nDate: {now}\r\n\r\n".encode())

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        at = Physical("127.0.0.1", listener.socket.getsockname()[1])
        http = HttpSettings(bind=Physical("0.0.0.0", at.port), certificate="any" * has_tls)
        config = NodeConfig(site="NYC", http=http)
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


B, C = address("B"), address("C")


@pytest.mark.parametrize(
    "headers",
    [(), (WhoIsThere(Contact(B, "B", (), 1), None, None, ""),), (IAmHere(Contact(C, "C", (), 1), None, None, "", ()),)],
    ids=["nothing", "a question", "another's answer"],
)
def test_a_frame_that_is_not_an_answer_is_dropped_and_counted(headers: tuple[Header, ...]) -> None:
    enquiry = Enquiry(local_of("A"), "")
    assert enquiry.up(Frame(B, None, headers, None, True), 0.0) == [Dropped("not_asked")]
    assert (enquiry.answered, enquiry.told) == ({}, {})
