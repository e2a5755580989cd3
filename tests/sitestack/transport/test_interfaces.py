"""The default address of a member: right after the machine's start there may be none yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.presence.sockets import open_sockets
from sitestack.config import ChannelConfig, SiteConfig, lan, local, named_hosts
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport import interfaces
from sitestack.transport.interfaces import route_towards
from tests.harness.addresses import local_of
from tests.sitestack.transport.descriptors import no_descriptors

GROUP, SEED = "239.192.0.1", "10.9.0.2"
#: Where there are routes to, and by which address of this machine; from when on.
Routes = Callable[[dict[str, str], float], None]


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Routes:
    """A machine that has exactly these routes, as soon as this many seconds have gone by."""

    def give(addresses: dict[str, str], after_s: float) -> None:
        def route(host: str) -> str | None:
            return addresses.get(host) if trio.current_time() >= up_at else None

        up_at = trio.current_time() + after_s
        monkeypatch.setattr(interfaces, "route_to", route)

    return give


async def test_a_member_waits_for_its_network(autojump_clock: MockClock, routes: Routes) -> None:
    routes({GROUP: "10.9.0.1"}, 4.0)
    began = trio.current_time()
    assert await route_towards([GROUP], 10.0) == "10.9.0.1"
    assert trio.current_time() - began == pytest.approx(4.0, abs=interfaces.RETRY_S)


async def test_a_route_to_a_seed_will_do_and_the_group_comes_first(autojump_clock: MockClock, routes: Routes) -> None:
    routes({SEED: "10.9.0.1"}, 0.0)
    assert await route_towards([GROUP, SEED], 10.0) == "10.9.0.1"
    routes({SEED: "10.9.0.1", GROUP: "10.8.0.1"}, 0.0)
    assert await route_towards([GROUP, SEED], 10.0) == "10.8.0.1"


@pytest.mark.parametrize("config", [lan("NYC"), named_hosts("NYC", (Physical(SEED, 7600),), 0)], ids=["multicast", "seeds"])
async def test_a_machine_without_a_network_is_told_and_founds_no_site_of_its_own(
    autojump_clock: MockClock, routes: Routes, config: SiteConfig
) -> None:
    routes({"127.0.0.1": "127.0.0.1"}, 0.0)
    began = trio.current_time()
    with pytest.raises(ConfigurationError, match=r"^transport\.interface: this machine has no route to .*127\.0\.0\.1.*\.$"):
        await open_sockets(local_of("A"), config)
    assert trio.current_time() - began == pytest.approx(ChannelConfig().resolve_timeout_s)


async def test_a_site_on_this_machine_needs_no_network(autojump_clock: MockClock, routes: Routes) -> None:
    routes({}, 0.0)
    transport = await open_sockets(local_of("A"), local("NYC"))
    assert transport.physical()[0].host == "127.0.0.1"
    transport.close()


def test_the_kernel_says_which_address_a_route_has_and_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interfaces.find_interface("127.0.0.1", GROUP) == "127.0.0.1"
    assert interfaces.route_to("127.0.0.1") == "127.0.0.1"
    monkeypatch.setattr(interfaces, "route_to", lambda host: None)
    with pytest.raises(ConfigurationError, match=r"transport\.interface: this machine has no route to 239\.192\.0\.1"):
        interfaces.find_interface("", GROUP)


def test_which_addresses_a_machine_has() -> None:
    """Without descriptors it cannot be asked; then nothing has changed."""
    elsewhere = "203.0.113.1"
    assert interfaces.is_here("127.0.0.1")
    assert not interfaces.is_here(elsewhere)
    with no_descriptors():
        assert interfaces.is_here(elsewhere)
