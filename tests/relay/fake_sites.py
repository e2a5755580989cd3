"""Sites without lower layers: a tiny sequencer gives the relay layers of a site one stream; byte queues are the connections.

Frames really are encoded between members, and links cut the bytes wherever the test wants. `World.run` is the shell: turns
until nothing happens any more, then time jumps to the next deadline. The parts: `fake_member.py`, `fake_site.py`,
`fake_world.py`; this file builds whole worlds of them.
"""

from __future__ import annotations

from relay.gateway.gateway import GatewayConfig
from relay.layer import RelayConfig
from sitestack.model.events import Disconnect
from tests.relay.fake_member import Member
from tests.relay.fake_places import places
from tests.relay.fake_site import FakeSite
from tests.relay.fake_world import World


def leave(site: FakeSite) -> Member:
    """The relay leaves gracefully."""
    relay = site.relay
    relay.say(Disconnect())
    site.kill(relay)
    return relay


def two_sites(count: int = 3, cut: int | None = None, **config: object) -> tuple[World, FakeSite, FakeSite]:
    """NYC and SFO, each knows all addresses of the other; views are installed, nothing has run yet."""
    world, sites = sites_of({"NYC": count, "SFO": count}, cut, **config)
    return world, sites["NYC"], sites["SFO"]


def sites_of(counts: dict[str, int], cut: int | None = None, **config: object) -> tuple[World, dict[str, FakeSite]]:
    """A full mesh of sites."""
    world = World(cut=cut)
    gateway = config.pop("gateway", {})
    assert isinstance(gateway, dict)
    for name, count in counts.items():
        peers = {other: places(other) for other in counts if other != name}
        world.site(name, count, RelayConfig(gateway=GatewayConfig(peers=peers, **gateway), **config))  # type: ignore[arg-type]
    for site in world.sites.values():
        site.install()
    return world, world.sites
