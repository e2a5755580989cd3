"""Sites in a chain: those without a connection hear of each other through those between, with the promises of neighbours."""

from __future__ import annotations

import random

import pytest

from relay.events import BridgeReceived, BridgeSend
from relay.gateway.config import GatewayConfig, LinkConfig, RoutesConfig
from relay.gateway.connections import RouteId
from relay.gateway.routes import ROOM_BYTES, ROUTES_PER_SITE_MAX, Came, Opened
from relay.gateway.session import ROUTE_ENDS_BYTES, LinkSession
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES, VERSION, Data, Hello, Routed, State, encode
from relay.layer import RelayConfig
from sitestack.model.address import ProxyUUID
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import ViewId
from sitestack.stack.layer import Up
from tests.harness.relay.member import places, received
from tests.harness.relay.puppet import D, hello
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World
from tests.harness.thinned import one_in
from tests.relay.gateway.test_session import frames, session

pytestmark = pytest.mark.conforms("REL-33")


def chain(
    *names: str, count: int = 2, link: LinkConfig | None = None, deaf: tuple[str, ...] = ()
) -> tuple[World, list[FakeSite]]:
    """Each site is linked to the one before and the one after; those in `deaf` do not hand anything on."""
    world = World()
    for at, name in enumerate(names):
        peers = {each: places(each) for each in (*names[max(0, at - 1) : at], *names[at + 1 : at + 2])}
        before, after = names[: max(0, at - 1)], names[at + 2 :]
        via = dict.fromkeys(before, names[at - 1]) | (dict.fromkeys(after, names[at + 1]) if after else {})
        forward = () if name in deaf else names
        gateway = GatewayConfig(peers=peers, link=link or LinkConfig())
        world.site(name, count, RelayConfig(gateway=gateway, routes=RoutesConfig(via, forward)))
    for site in world.sites.values():
        site.install()
    world.run(3)
    return world, list(world.sites.values())


def star_with_evil() -> tuple[World, FakeSite, FakeSite, FakeSite, FakeSite]:
    """Sites A, C and EVIL, each linked to HUB only; HUB forwards between them. Returns the world, HUB, A, C and EVIL."""
    world = World()
    leaves = ("A", "C", "EVIL")
    gateway = GatewayConfig(peers={each: places(each) for each in leaves})
    hub = world.site("HUB", 2, RelayConfig(gateway=gateway, routes=RoutesConfig({}, leaves)))
    for leaf in leaves:
        via = {each: "HUB" for each in leaves if each != leaf}
        world.site(leaf, 2, RelayConfig(gateway=GatewayConfig(peers={"HUB": places("HUB")}), routes=RoutesConfig(via, ())))
    for site in world.sites.values():
        site.install()
    world.run(3)
    return world, hub, world.sites["A"], world.sites["C"], world.sites["EVIL"]


def everybody_has(sites: list[FakeSite], name: str, texts: list[str]) -> None:
    for site in sites:
        for member in site.members:
            assert [text for text in member.words if text.startswith(name)] == texts, (site.name, member.name)
            assert member.gaps() == []


def arrive(site: FakeSite, neighbour: str, piece: Routed) -> None:
    """A piece comes by the link to a neighbour."""
    links = site.relay.layer.gateway.table.links.items()
    [connection] = [each for key, each in links if key[0] == neighbour and isinstance(each, int)]
    site.relay.say(BridgeReceived(connection, encode(piece)))


@pytest.mark.parametrize("names", ["ABC", "ABCD", "ABCDE"])
def test_all_sites_of_a_chain_receive_each_message_once_and_in_order(names: str) -> None:
    """R12, F35: a chain gets past the first hop, and nothing runs in circles."""
    world, sites = chain(*names)
    for site in sites:
        assert [each.name for each in sites] == list(site.members[1].global_views()[-1].components)
        for n in range(5):
            site.members[1].send(f"{site.name}{n}")
    world.run(3)
    for name in names:
        everybody_has(sites, name, [f"{name}{n}" for n in range(5)])
    for site in sites:
        assert {len(member.layer.state.buffer) for member in site.members} == {0}
        assert all("route" not in reason or reason == "route_no_link" for member in site.members for reason in member.drops)


def test_a_unicast_and_its_reply_travel_along_the_route() -> None:
    world, (a, _, c) = chain("A", "B", "C")
    a.members[1].send("question", dest=ProxyUUID(c.members[1].address, "C"))
    world.run(1)
    assert c.members[1].words == ["question"]
    c.members[1].send("answer", dest=c.members[1].sources[-1])
    world.run(1)
    assert a.members[1].words == ["answer"]


def test_a_cut_link_of_a_chain_holds_messages_and_delays_no_other_site() -> None:
    world, sites = chain("A", "B", "C")
    a, b, c = sites
    world.part("A", "B")
    for n in range(10):
        a.members[1].send(f"A{n}")
    world.run(30)
    assert a.members[0].words == [f"A{n}" for n in range(10)]
    assert "C" in a.members[0].global_views()[-1].down
    b.members[1].send("B0")
    world.run(1)
    everybody_has([b, c], "B", ["B0"])
    world.heal()
    while not a.relay.layer.gateway.table.linked("B"):
        world.run(0.05)
    world.run(0.1)
    everybody_has(sites, "A", [f"A{n}" for n in range(10)])
    assert list(a.members[0].global_views()[-1].components) == ["A", "B", "C"]


def test_many_large_messages_cross_a_chain_in_pieces_beside_other_traffic() -> None:
    world, sites = chain("A", "B", "C", link=LinkConfig(chunk_bytes=2_000, window_bytes=50_000))
    texts = [f"A{'x' * 5_000}{n}" for n in range(30)]
    for text in texts:
        sites[0].members[1].send(text)
        sites[1].members[1].send(f"B{len(text)}")
    world.run(5)
    everybody_has(sites, "A", texts)
    routed = sites[1].relay.layer.levels()["routed_bytes"]
    assert routed.now == 0
    assert routed.high


def test_a_site_not_configured_to_forward_refuses_routes() -> None:
    world, (a, b, c) = chain("A", "B", "C", deaf=("B",))
    world.run(2)
    a.members[1].send("x")
    world.run(2)
    assert (b.members[1].words, c.members[1].words) == (["x"], [])
    assert b.relay.drops["route_refused"] > 0


def piece(visited: tuple[str, ...] = ("B",), source: str = "A", target: str = "D", at: int = 0) -> Routed:
    """What B hands on to C."""
    return Routed(source, target, D, 1, at, visited, False, b"x")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (piece(visited=("C", "B")), "route_loop"),
        (piece(visited=(*[str(n) for n in range(15)], "B")), "route_loop"),
        (piece(source="D", target="A"), "route_foreign"),
        (piece(target="B"), "route_loop"),
        (piece(source="X"), "route_foreign"),
        (piece(target="X"), "route_refused"),
        (piece(target="C", at=1), "route_unknown"),
    ],
)
def test_pieces_that_make_no_sense_are_dropped(sent: Routed, reason: str) -> None:
    """A loop of wrong configurations ends where it begins again, or after 16 sites; no site can speak for another
    one.
    """
    _, (_, _, c, _) = chain("A", "B", "C", "D")
    before = c.relay.drops.get(reason, 0)
    links = dict(c.relay.layer.gateway.table.links)
    arrive(c, "B", sent)
    assert c.relay.drops[reason] == before + 1
    assert c.relay.layer.gateway.table.links == links, "B has handed on what others said, so its link stays"


def test_the_far_end_of_a_route_is_believed_for_no_site_but_its_own() -> None:
    """A site on a route that names a direct neighbour would take that one's link over, and fence it for ever."""
    world, (a, *_) = chain("A", "B", "C")
    links = dict(a.relay.layer.gateway.table.links)
    epochs = dict(a.relay.layer.state.remotes["B"].lineages)
    claim = Routed("C", "A", D, 1, 0, ("B",), False, encode(hello(epoch=1_000, site="B")) + encode(State({})))
    arrive(a, "B", claim)
    assert a.relay.drops["hello_certificate"] == 1
    world.run(1)
    assert a.relay.layer.gateway.table.links == links
    assert dict(a.relay.layer.state.remotes["B"].lineages) == epochs


def test_a_piece_that_is_missing_ends_the_route_and_the_next_one_repairs_it() -> None:
    world, sites = chain("A", "B", "C")
    a, b, c = sites
    table = b.relay.layer.gateway.table
    link = table.connections[next(each for key, each in table.links.items() if key[0] == "C")]
    a.members[1].send("A0")
    for _ in range(20):
        world.turn()
        if link.session.routed_bytes:
            link.session._routed.drain(1 << 30)
            break
    a.members[1].send("A1")
    world.run(5)
    everybody_has(sites, "A", ["A0", "A1"])
    assert c.relay.drops["route_hole"] == 1


def test_a_route_to_a_part_that_a_merge_has_ended_is_gone_at_both_ends() -> None:
    """Its end there went without a word, and the merge view comes on the next one."""
    world, (a, b, c) = chain("A", "B", "C", count=4)
    other = c.split(c.members[2:])
    world.run(5)
    c.merge(other)
    world.run(10)
    a.members[1].send("A0")
    world.run(1)
    everybody_has([a, b, c], "A", ["A0"])
    for end in (a, c):
        links = end.relay.layer.gateway.table.links.values()
        assert end.relay.layer.levels()["routes"].now == sum(isinstance(link, RouteId) for link in links) == 1


@pytest.mark.parametrize("seed", one_in(4, range(40)))
def test_a_random_history_loses_repeats_and_reorders_nothing(seed: int) -> None:
    """X1, X2, X3, X5, X6 over a chain of three or four, with deaths of relays and broken links anywhere."""
    rng = random.Random(seed)
    world, sites = chain(*"ABCD"[: rng.choice([3, 4])], count=4)
    world.cut = rng.choice([None, 7, 100])
    world.run(2)
    origins = [member for site in sites for member in site.members]
    for _ in range(150):
        dice = rng.random()
        site = rng.choice(sites)
        if dice < 0.5:
            rng.choice(site.members).send("x")
        elif dice < 0.8:
            world.turn()
        elif dice < 0.9:
            world.run(rng.choice([0.01, 0.3, 2.0]))
        elif dice < 0.95:
            world.break_links(*world.sites, rng=random.Random(rng.random()))
        elif len(site.members) > 2:
            site.kill(rng.choice(site.members[:2]))
    world.run(40)
    for origin in origins:
        if origin not in origin.site.members:
            continue
        for site in sites:
            for member in site.members:
                assert received(member, origin.address, origin.site.name) == list(range(1, origin.sent + 1))
    for site in sites:
        assert list(site.relay.global_views()[-1].components) == [each.name for each in sites]


def test_a_site_cannot_send_pieces_on_a_route_between_two_others() -> None:
    """C28: only the far end of a route may send on it. A forged piece would replace a message, which is then lost silently."""
    world, hub, a, c, _ = star_with_evil()
    a.members[1].send("true 0")
    world.run(1)
    forged = encode(Data(("A",), Batch("A", a.members[1].address, Scope.ALL, 2, 1, pack_body([b"forged"]))))
    [(route, end)] = [each for each in c.relay.layer.gateway.carrier.routes._routes.items() if each[0].site == "A"]
    arrive(hub, "EVIL", Routed("EVIL", "C", route.opener, route.number, end.received, (), False, forged))
    world.run(1)
    a.members[1].send("true 1")
    world.run(3)
    assert c.members[1].words == ["true 0", "true 1"]
    assert c.members[1].gaps() == []
    assert c.relay.drops["route_unknown"] > 0


def test_a_site_that_takes_the_id_of_a_route_of_another_does_not_keep_it_out() -> None:
    _, _, a, c, _ = star_with_evil()
    routes = c.relay.layer.gateway.carrier.routes
    for source in ("EVIL", "A"):
        piece = Routed(source, "C", a.relay.address, 100, 0, ("HUB",), False, b"x")
        assert [type(event) for event in routes.arrived("HUB", piece)] == [Opened, Came]


def test_a_site_that_opens_many_routes_does_not_displace_those_of_others() -> None:
    """A linked site opens routes without end, each for a lineage that it invents; the others keep theirs."""
    world, hub, a, c, evil = star_with_evil()
    routes = c.relay.layer.gateway.carrier.routes
    evil.relay.layer.gateway.carrier.routes.arrived = lambda site, piece: []  # type: ignore[method-assign]  # it answers nothing
    world.part("A", "HUB")
    for number in range(100):
        lineage = ViewId(5_000 + number, evil.relay.address)
        frames = (Hello(VERSION, "EVIL", lineage, lineage, evil.relay.address, "E", 1, 1 << 20, 1 << 24), State({}))
        first = b"".join(map(encode, frames))
        arrive(hub, "EVIL", Routed("EVIL", "C", evil.relay.address, 10_000 + number, 0, (), False, first))
        world.settle()
    assert len(routes) <= ROUTES_PER_SITE_MAX + 1
    world.heal()
    world.run(5)
    a.members[1].send("hello")
    world.run(3)
    assert c.members[1].words == ["hello"]


BOUND = 20_000


def small_chain() -> tuple[World, list[FakeSite]]:
    return chain("A", "B", "C", link=LinkConfig(routed_bytes_max=BOUND))


def test_an_end_has_a_small_reserve_for_itself_and_none_for_its_data() -> None:
    link = session(LinkConfig(routed_bytes_max=BOUND))
    last = Routed("A", "C", D, 1, 5, (), True, bytes(6_000))
    bare = Routed("A", "C", D, 1, 5, (), True, b"")
    assert [link.send_routed(last) for _ in range(5)] == [True] * 3 + [False] * 2
    assert link.routed_bytes <= BOUND
    assert link.send_routed(bare)
    for _ in range(10_000):
        link.send_routed(bare)
    assert not link.send_routed(bare)
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES


def test_a_neighbour_that_ends_routes_for_ever_fills_nothing_beyond_the_bound() -> None:
    """Above the bound an end is handed on without its data, above the reserve it is dropped; both are counted."""
    _world, (_, b, _) = small_chain()
    link = link_of(b, "C")
    for n in range(5_000):
        last = Routed("A", "C", D, n, 1, (), True, bytes(6_000))
        arrive(b, "A", last)
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES
    handed_on = waiting(link)
    assert all(each.ended for each in handed_on)
    assert [len(each.data) for each in handed_on] == [6_000] * 3 + [0] * (len(handed_on) - 3)
    assert b.relay.drops["route_full"] == 5_000 - 3


def test_a_neighbour_that_sends_nonsense_for_ever_is_answered_within_the_bound() -> None:
    _world, (_, b, _) = small_chain()
    link = link_of(b, "A")
    for n in range(5_000):
        arrive(b, "A", Routed("A", "X", D, n, 1, (), False, b"x"))
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES
    assert b.relay.drops["route_refused"] == 5_000
    assert b.relay.drops["route_full"] == 5_000 - len(waiting(link))


def test_a_route_end_with_a_full_link_waits_and_loses_no_message() -> None:
    """A route that fills its own link ends there, and begins again with the same: it would for ever."""
    world, sites = chain("A", "B", "C", link=LinkConfig(chunk_bytes=2_000, routed_bytes_max=2_000 + ROUTED_OVERHEAD_BYTES))
    a = sites[0]
    for n in range(50):
        a.members[1].send(f"A{'x' * 3_000}{n}")
    world.run(3)
    everybody_has(sites, "A", [f"A{'x' * 3_000}{n}" for n in range(50)])
    assert "route_full" not in a.relay.drops


def test_a_piece_that_the_link_refuses_ends_the_route_without_a_silent_hole() -> None:
    world, (a, b, c) = small_chain()
    a.members[1].send("x" * 3 * BOUND)
    world.run(1)
    assert b.members[1].words == ["x" * 3 * BOUND]
    assert a.relay.drops["route_full"] > 0
    assert "route_hole" not in c.relay.drops


def link_of(site: FakeSite, peer: str) -> LinkSession:
    gateway = site.relay.layer.gateway
    return gateway.table.connections[next(each for key, each in gateway.table.links.items() if key[0] == peer)].session


def waiting(link: LinkSession) -> list[Routed]:
    return [frame for frame in frames(b"".join(link._routed._frames)) if isinstance(frame, Routed)]


def held_back(world: World, a: FakeSite) -> RouteId:
    """A chunk and the farewell after it are to be sent on the route to C; there was no room for the chunk only."""
    link, gateway = link_of(a, "B"), a.relay.layer.gateway
    route = next(each for key, each in gateway.table.links.items() if key[0] == "C")
    assert isinstance(route, RouteId)
    link._routed.bytes = ROOM_BYTES
    assert gateway.carrier.routes.write(route, b"chunk,") is None
    assert waiting(link) == []
    link._routed.bytes = 0
    assert gateway.carrier.routes.write(route, b"farewell") is None
    return route


def test_a_farewell_does_not_overtake_the_chunk_that_waits_when_the_route_ends() -> None:
    world, (a, *_) = chain("A", "B", "C")
    route = held_back(world, a)
    assert a.relay.layer.gateway.carrier.routes.end(route) == []
    sent = waiting(link_of(a, "B"))
    assert b"".join(each.data for each in sent) == b"chunk,farewell"
    assert [each.ended for each in sent] == [True]


def test_a_farewell_does_not_overtake_the_chunk_that_waits_when_there_is_room_again() -> None:
    world, (a, *_) = chain("A", "B", "C")
    held_back(world, a)
    effects = a.relay.layer.gateway.turn(world.now)
    sent = [each.event.data for each in effects if isinstance(each, Up) and isinstance(each.event, BridgeSend)]
    assert b"chunk,farewell" in b"".join(sent)
