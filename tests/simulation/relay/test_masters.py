"""Several relays in a site (`relay.masters`): each relays a share of the origins, and a death moves the share of the dead one."""

from __future__ import annotations

import pytest

from relay.gateway.connections import ConnectionId
from relay.gateway.wire import Data
from relay.replica.buffer import BufferConfig
from relay.replica.shares import Share
from sitestack.config import Order
from sitestack.model.events import Event
from sitestack.model.frame import Header
from tests.harness.linked_sites import ACROSS, Sites
from tests.harness.stories import SETTLED, numbered, say, verdict

pytestmark = pytest.mark.conforms("REL-35")

NYC, SFO = "ABCX", "DEFY"


def shared(
    *shown: type[Header] | type[Event], nyc: str = NYC, sfo: str = SFO, masters: tuple[int, int] = (2, 2), order: Order = "total"
) -> Sites:
    """Two sites with several relays, formed and linked; the transcript begins now."""
    counts = dict(zip(("NYC", "SFO"), masters, strict=True))
    script = Sites({"NYC": nyc, "SFO": sfo}, BufferConfig(), *shown, masters=counts, order=order)
    script.form(*nyc, *sfo)
    script.linked(*nyc, *sfo)
    script.run(SETTLED)
    script.transcript.lines.clear()
    return script


def serving(script: Sites, names: str) -> dict[str, int]:
    """Who relays which share."""
    shares = {name: script.relay(name).relay.state.share_of(script[name].local.address) for name in names}
    return {name: share.number for name, share in shares.items() if share is not None}


def links(script: Sites, name: str) -> list[ConnectionId]:
    return list(script.relay(name).relay.gateway.links.values())


def of_share(script: Sites, names: str, number: int, of: int = 2) -> list[str]:
    """The processes whose messages this share carries."""
    return [name for name in names if Share(number, of).covers(script[name].local.address)]


def test_each_relay_carries_its_share_of_the_origins_and_every_multicast_goes_once() -> None:
    script = shared(Data)
    assert serving(script, NYC) == {"A": 0, "B": 1}
    assert serving(script, SFO) == {"D": 0, "E": 1}
    words = {name: numbered(name.lower(), 1, 5) for name in NYC + SFO}
    for place in range(5):
        for name in NYC + SFO:
            say(script, name, words[name][place])
    script.run(1.0)
    for name in NYC + SFO:
        for sender in NYC + SFO:
            assert [each for each in script.delivered(name) if each in words[sender]] == words[sender]
    said = [line for line in script.transcript.lines if "=>" in line]
    assert sum(line.count("Data") for line in said) == 5 * len(NYC + SFO)
    for pair, number in (("A => D", 0), ("B => E", 1), ("D => A", 0), ("E => B", 1)):
        site = NYC if pair[0] in NYC else SFO
        carried = "".join(line for line in said if line.startswith(pair))
        assert all((words[name][0] in carried) == (name in of_share(script, site, number)) for name in site)
    verdict(script)
