"""Any headers from any sender: a relay of a running site drops or accepts them, and continues."""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.gateway.wire import FRAMES
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.model.view import ViewId
from tests.harness.linked_sites import Sites, two_sites
from tests.relay.any_header import EVERY, KNOWN, Known, batches, headers, integers

#: The headers that frames of a site can carry.
INSIDE = tuple([kind for number, kind in EVERY.items() if number not in FRAMES or number < 0x120])


@cache
def standing() -> Sites:
    return two_sites()


def known() -> Known:
    """Return addresses, sites and views that exist here, so that headers pass the first check."""
    script = standing()
    nyc, sfo = script["A"].view, script["D"].view
    assert nyc is not None
    assert sfo is not None
    members = st.sampled_from([*nyc.members, *sfo.members, Address(b"stranger" * 2)])
    sites = st.sampled_from(["NYC", "SFO", "", "LAX"])
    ids = [nyc.id, sfo.id, *[ViewId(nyc.id.counter + 1, member) for member in nyc.members], ViewId(1, nyc.members[0])]
    return {
        **KNOWN,
        Address: members,
        str: sites,
        ViewId: st.sampled_from(ids) | st.builds(ViewId, integers, members),
        ProxyUUID: st.builds(ProxyUUID, members, sites, st.none() | members),
        Batch: batches(members, sites),
    }


@cache
def carried() -> st.SearchStrategy[list[Header]]:
    return st.lists(headers(INSIDE, known()), min_size=1, max_size=3)


@settings(
    max_examples=35, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate]
)
@given(st.data())
def receive(data: st.DataObject) -> None:
    """Eight datagrams in one turn, none of them from the relay itself."""
    script = standing()
    relay, now = script["A"], script.world.now
    assert relay.view is not None
    others = st.sampled_from([*relay.view.members[1:], Address(b"stranger" * 2)])
    for _ in range(8):
        source = data.draw(others)
        dest = data.draw(st.sampled_from([None, relay.local.address]))
        batch = data.draw(st.none() | known()[Batch])
        frame = Frame(source, dest, tuple(data.draw(carried())), batch, data.draw(st.booleans()))
        packed = relay.stack.codec.encode_datagram(source, dest, [relay.stack.codec.encode_frame(frame)])
        relay.stack.receive(packed, Physical("10.9.9.9", 1), now)
    relay.stack.flush(now)
    relay.stack.expire(now)


def test_no_header_and_no_batch_raises_anything() -> None:
    """Most of these datagrams are refused by a layer for their meaning, not by the codec for their form."""
    receive()
    drops = standing()["A"].stack.drops
    assert len(drops) > 15
    assert not {"header", "field", "malformed", "batch"} & drops.keys()
