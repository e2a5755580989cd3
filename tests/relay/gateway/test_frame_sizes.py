"""Two ends of a link with different limits on frames: the smaller one counts, and larger messages are reported (R21,
C11).
"""

from __future__ import annotations

import pytest

from relay.events import Certainty, Failure
from relay.gateway.config import GatewayConfig, LinkConfig
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES, Routed, State, encode
from relay.layer import RelayConfig
from sitestack.model.gap import Gap
from tests.harness.relay.member import places
from tests.harness.relay.puppet import D, hello
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World
from tests.relay.gateway.test_session import session
from tests.relay.unicast.test_large_unicasts import told
from tests.relay.unicast.test_remote_unicast import proxy

SMALL = 10_000
#: Sizes that certainly fit into such a frame, and that never do.
FITS, TOO_MUCH = "x" * (SMALL - 5_000), "y" * 2 * SMALL


def unequal() -> tuple[World, FakeSite, FakeSite]:
    """Return NYC with the default limit and SFO with a much smaller one: a limit that was raised at one site first."""
    world = World()
    for name, other, link in (("NYC", "SFO", LinkConfig()), ("SFO", "NYC", LinkConfig(frame_bytes_max=SMALL))):
        world.site(name, 2, RelayConfig(GatewayConfig(peers={other: places(other)}, link=link)))
    for site in world.sites.values():
        site.install()
    world.run(1)
    return world, world.sites["NYC"], world.sites["SFO"]


def test_a_message_too_large_for_the_peer_is_a_gap_there_and_keeps_the_link() -> None:
    world, nyc, sfo = unequal()
    links = list(nyc.relay.pipes)
    for text in ("before", FITS, TOO_MUCH, "after"):
        nyc.relay.send(text)
    for text in ("1", TOO_MUCH, "2"):
        sfo.members[1].send(text)
    world.run(5)
    number = nyc.relay.sent - 1
    for member in sfo.members:
        assert [text for text in member.words if text not in ("1", TOO_MUCH, "2")] == ["before", FITS, "after"]
        gaps = [(each.first, each.last, each.reason) for each in member.events if isinstance(each, Gap)]
        assert gaps == [(number, number, "too_large")]
    for member in nyc.members:
        assert [text for text in member.words if text in ("1", "2")] == ["1", "2"]
        assert len(member.gaps()) == 1, "SFO may not send what it does not take itself"
    assert list(nyc.relay.pipes) == links
    assert "bridge_length" not in sfo.relay.drops
    assert nyc.relay.layer.state.buffer.bytes == 0


@pytest.mark.conforms("REL-34")
@pytest.mark.parametrize("sender", [0, 1])
def test_a_unicast_too_large_for_the_peer_is_reported_to_its_sender(sender: int) -> None:
    world, nyc, sfo = unequal()
    here, there = nyc.members[sender], sfo.members[1]
    for text in ("before", FITS, TOO_MUCH, "after", TOO_MUCH, "last"):
        here.send(text, dest=proxy(there))
    world.run(0.5)
    assert there.words == ["before", FITS, "after", "last"]
    assert told(here) == [(n, Failure.TOO_LARGE, Certainty.NOT_DELIVERED) for n in (3, 5)]
    assert nyc.relay.drops["relay_unicast_too_large"] == 2
    assert here.layer.unicasts.sender.pending_bytes == 0
    assert "bridge_length" not in sfo.relay.drops


def test_a_link_refuses_a_routed_piece_too_large_for_the_peer() -> None:
    """The route ends instead, and that is counted."""
    link = session()
    link.receive(encode(hello(site="NYC", frame_bytes_max=SMALL)) + encode(State({})), 0.0)
    assert link.send_routed(Routed("A", "C", D, 1, 0, (), False, bytes(SMALL - ROUTED_OVERHEAD_BYTES)))
    assert not link.send_routed(Routed("A", "C", D, 1, 1, (), False, bytes(SMALL)))
