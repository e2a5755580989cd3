"""One member on several interfaces: each multicast leaves by all of them, and is delivered once (LA-7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from relay_lab.drills.layout import draw_group
from sitestack.channel.open import open_channel
from sitestack.config import MORE_INTERFACES_MAX, SiteConfig, TransportConfig, find_problems
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KeyRing
from sitestack.transport import several
from sitestack.transport.several import ROUTE_S, SeveralUdp
from tests.harness.channels import take, together
from tests.harness.messages import present
from tests.sitestack.transport.conftest import no_descriptors

ONE, OTHER = "127.0.0.1", "127.0.0.2"
BOTH = TransportConfig(interface=ONE, more_interfaces=(OTHER,))


@pytest.fixture
def config() -> TransportConfig:
    """Both interfaces, and a group that no other test uses."""
    host, port = draw_group()
    return replace(BOTH, multicast_group=host, multicast_port=port)


@pytest.fixture
def members(config: TransportConfig) -> Iterator[tuple[SeveralUdp, SeveralUdp]]:
    with ExitStack() as stack:
        made = [SeveralUdp(config, "NYC") for _ in range(2)]
        for each in made:
            stack.callback(each.close)
        yield made[0], made[1]


async def heard(transport: SeveralUdp, count: int) -> list[tuple[bytes, str]]:
    """So many datagrams, and the hosts that they came from."""
    arrived: list[tuple[bytes, str]] = []
    with trio.fail_after(10):
        while len(arrived) < count:
            await transport.wait()
            arrived += [(data, source.host) for data, source in transport.receive()]
    return arrived


@pytest.mark.conforms("LA-7")
async def test_a_multicast_leaves_by_each_interface_and_no_copy_of_it_comes_back(
    members: tuple[SeveralUdp, SeveralUdp],
) -> None:
    """On loopback both interfaces are one device, so that a listener at each hears each copy."""
    a, b = members
    a.send([(None, b"hello")])
    assert sorted(await heard(b, 4)) == [(b"hello", ONE)] * 2 + [(b"hello", OTHER)] * 2
    assert a.receive() == []
    assert a.statistics().sent_datagrams == 2
    assert a.statistics().sent_bytes == 10


async def test_a_member_has_an_address_on_each_network_and_is_reached_at_all_of_them(
    members: tuple[SeveralUdp, SeveralUdp],
) -> None:
    a, b = members
    assert [place.host for place in b.physical()] == [ONE, OTHER]
    a.send([(place, str(place).encode()) for place in b.physical()])
    assert sorted([data for data, _ in await heard(b, 2)]) == sorted([str(place).encode() for place in b.physical()])
    listener = present(b.listener())
    assert listener.getsockname() == b.physical()[0], "others watch it at its first address"


async def test_an_address_from_outside_is_that_of_the_first_interface(config: TransportConfig) -> None:
    made = SeveralUdp(replace(config, external_host="10.9.8.7", external_port=7_000), "NYC")
    hosts = [place.host for place in made.physical()]
    made.close()
    assert hosts == ["10.9.8.7", ONE, OTHER]


async def test_a_unicast_leaves_by_the_interface_on_its_route_which_is_asked_for_now_and_then(
    members: tuple[SeveralUdp, SeveralUdp], monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    a, b = members
    asked: list[str] = []
    routes = {ONE: OTHER}

    def route_to(host: str) -> str | None:
        asked.append(host)
        return routes.get(host)

    monkeypatch.setattr(several, "route_to", route_to)
    target = b.physical()[0]
    a.send([(target, b"1"), (target, b"2")])
    assert await heard(b, 2) == [(b"1", OTHER), (b"2", OTHER)]
    assert asked == [ONE]
    routes.clear()
    await trio.sleep(ROUTE_S)
    a.send([(target, b"3")])
    assert await heard(b, 1) == [(b"3", ONE)], "without a route the first"
    monkeypatch.setattr(several, "ROUTES_MAX", 1)
    a.send([(b.physical()[1], b"4"), (target, b"5")])
    assert asked == [ONE, ONE, OTHER, ONE]


async def test_without_descriptors_a_unicast_leaves_as_without_a_route(members: tuple[SeveralUdp, SeveralUdp]) -> None:
    """A socket tells the route. The turn that sends goes on without one (C18)."""
    a, b = members
    place = b.physical()[0]
    with no_descriptors():
        a.send([(place, b"1"), (Physical("::1", place.port), b"2")])
    assert await heard(b, 1) == [(b"1", ONE)]
    assert a.statistics().unsent_datagrams == 1


async def test_a_name_is_not_looked_up(members: tuple[SeveralUdp, SeveralUdp], monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = members
    monkeypatch.setattr(several, "route_to", lambda host: pytest.fail(host))
    a.send([(Physical("host.example", 7_600), b"x")])
    assert a.statistics().unsent_datagrams == 1


async def test_levels_and_statistics_are_those_of_all_interfaces(members: tuple[SeveralUdp, SeveralUdp]) -> None:
    a, _ = members
    assert set(a.levels()) == {f"{ONE}.queued_bytes", f"{OTHER}.queued_bytes"}
    assert a.statistics().receive_buffer_bytes > 0
    a.close()
    a.close()


async def test_a_missing_or_duplicate_interface_raises(config: TransportConfig) -> None:
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1 is listed twice"):
        SeveralUdp(replace(config, more_interfaces=("127.0.0.1/30",)), "NYC")
    with pytest.raises(ConfigurationError, match=r"more_interfaces: 'nowhere0' is neither an IPv4 address nor"):
        SeveralUdp(replace(config, more_interfaces=("nowhere0",)), "NYC")
    with pytest.raises(ConfigurationError, match=r"more_interfaces: 203\.0\.113\.9 is no address of"):
        SeveralUdp(replace(config, more_interfaces=("203.0.113.9",)), "NYC")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "tcp"}, "only udp"),
        ({"more_interfaces": tuple([f"10.0.0.{n}" for n in range(MORE_INTERFACES_MAX + 1)])}, "at most 6"),
        ({"more_interfaces": ("",)}, "'' is no interface"),
        ({"more_interfaces": ("0.0.0.0",)}, "'0.0.0.0' is no interface"),
        ({"more_interfaces": (ONE,)}, "'127.0.0.1' is named already"),
        ({"more_interfaces": (OTHER, OTHER)}, "'127.0.0.2' is named already"),
    ],
)
def test_invalid_interface_settings_are_refused(changes: dict[str, object], why: str) -> None:
    problems = find_problems(SiteConfig("NYC", transport=replace(BOTH, **changes)))  # type: ignore[arg-type]
    assert [problem for problem in problems if why in problem]
    assert not find_problems(SiteConfig("NYC", transport=BOTH))


@pytest.mark.conforms("LA-7")
@pytest.mark.parametrize(("keys", "reason"), [(None, "nak_duplicate"), (KeyRing.of(bytes(32)), "seal_replayed")])
async def test_members_on_several_interfaces_appear_once_and_deliver_each_message_once(
    keys: KeyRing | None, reason: str, config: TransportConfig
) -> None:
    """Discovery, heartbeats and messages of all kinds come in four copies each; with keys the seal drops three of them."""
    nyc = SiteConfig("NYC", transport=config)
    with trio.fail_after(60):
        async with together(*[open_channel(nyc, name=name, keys=keys) for name in "AB"]) as [a, b]:
            for n in range(20):
                await a.send(b"all %d" % n)
                await b.send(b"you %d" % n, target=a.address)
                await a.send(b"oob %d" % n, target=b.address, oob=True)
            at_b = sorted([message.payload for message in await take(b, 40)])
            at_a = sorted([message.payload for message in await take(a, 40)])
            assert at_b == sorted([b"%s %d" % (kind, n) for kind in (b"all", b"oob") for n in range(20)])
            assert at_a == sorted([b"%s %d" % (kind, n) for kind in (b"all", b"you") for n in range(20)])
            await a.send(b"the last")
            assert [message.payload for message in await take(b, 1)] == [b"the last"]
            drops = b.statistics().stack["drops"]
            assert isinstance(drops, dict)
            assert drops[reason] >= 3
            assert [len(each.view.members) for each in (a, b)] == [2, 2]
