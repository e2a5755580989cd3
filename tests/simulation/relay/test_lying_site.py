"""Two honest sites keep their promises beside a linked site that lies."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.gateway.config import RoutesConfig
from relay.gateway.wire import FRAMES, Bye, Hello
from relay.replica.config import BufferConfig
from relay_lab.simulation.liar import Liar
from relay_lab.simulation.process import BRIDGE_PORT
from sitestack.journal import records
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.model.view import ViewId
from tests.harness.linked_sites import Sites, two_sites
from tests.harness.stories import SETTLED
from tests.relay.any_header import EVERY, KNOWN, Known, batches, headers, integers

HONEST = "ABCD"
#: A tenth of a second each.
ROUNDS = 90
SITES = {"NYC": "AB", "SFO": "CD", "EVIL": "X", "HUB": "H"}


def lied_to(script: Sites, names: str, rounds: int) -> Liar:
    """Let each honest member send a message a round while EVIL lies; then it ends, and everything settles."""
    bridges = [Physical(script.hosts[name].host, BRIDGE_PORT) for name in names]
    liar = Liar(script.world, "EVIL", script.hosts["X"], bridges, ["NYC", "SFO"])
    for n in range(rounds):
        for name in HONEST:
            script.send(name, f"{name}{n}")
        script.run(0.1)
    liar.stop()
    script.run(5 * SETTLED)
    return liar


def unharmed(script: Sites, sent: int) -> None:
    """Every message of an honest member is delivered once and in order by all of them, and none became a gap."""
    honest = {script[name].local.address: name for name in HONEST}
    for name in HONEST:
        numbers: dict[str, list[int]] = {each: [] for each in HONEST}
        for record in script[name].records:
            if isinstance(record, records.Gap):
                assert record.site == "EVIL", f"{name}: {record}"
            if isinstance(record, records.Deliver) and record.site != "EVIL":
                origin = honest[record.origin]
                assert record.site == script.home[origin], "nobody speaks for another site"
                numbers[origin] += range(record.first, record.first + record.count)
        batches = [each.batch for each in script[name].events if isinstance(each, Frame) and each.batch is not None]
        assert not any(b"forged" in batch.body for batch in batches if batch.site != "EVIL"), name
        assert numbers == {each: list(range(1, sent + 1)) for each in HONEST}, name
        over = {what: level for what, level in script[name].stack.levels().items() if level.is_over}
        assert not over, (name, over)


@pytest.mark.parametrize("seed", range(2))
def test_a_linked_site_that_lies_harms_no_other(seed: int) -> None:
    script = Sites({site: SITES[site] for site in ("NYC", "SFO", "EVIL")}, BufferConfig(), seed=seed)
    script.form(*HONEST)
    liar = lied_to(script, "AC", ROUNDS)
    assert liar.links >= 2
    assert {kind.__name__ for kind in FRAMES.values() if kind not in (Hello, Bye)} <= liar.told.keys()
    unharmed(script, ROUNDS)


@pytest.mark.parametrize("seed", range(2))
def test_a_lying_leaf_harms_no_route_through_its_hub(seed: int) -> None:
    """NYC and SFO reach each other over HUB, to which EVIL is linked as well."""
    leaves = ("NYC", "SFO", "EVIL")
    routes = {leaf: RoutesConfig(via={other: "HUB" for other in leaves if other != leaf}) for leaf in ("NYC", "SFO")}
    routes["HUB"] = RoutesConfig(forward=leaves)
    script = Sites(SITES, BufferConfig(), routes=routes, seed=seed)
    script.form(*HONEST, "H")
    lied_to(script, "H", ROUNDS)
    unharmed(script, ROUNDS)


# -- any headers from any sender: a relay of a running site drops or accepts them, and continues ---------------------------


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
