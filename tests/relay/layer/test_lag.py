"""The lag of each other site: computed from positions in the buffer, without a walk over its entries."""

from __future__ import annotations

import random

import pytest

from relay.gateway.config import GatewayConfig
from relay.layer import RelayConfig, RelayLayer
from relay.layer.statistics import RelayStatistics
from relay.replica.buffer import ENTRY_BYTES, Buffer
from relay.replica.entries import Acked, LinkUp, SiteVector
from relay.replica.held_entries import Entry
from sitestack.model.address import Address, Physical
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local
from tests.harness.addresses import address
from tests.harness.relay.world import two_linked_sites

A, B, D, E = map(address, "ABDE")
BODY = pack_body([b"x", b"y"])
COORDINATORS = {"LON": D, "SFO": E}


def member_that_holds_for_two_sites() -> RelayLayer:
    peers: dict[str, tuple[Physical, ...]] = {site: (Physical("127.0.0.1", 1),) for site in COORDINATORS}
    layer = RelayLayer(Local("NYC", A, "A", random.Random(0)), RelayConfig(gateway=GatewayConfig(peers=peers)))
    for site, member in COORDINATORS.items():
        view = ViewId(1, member)
        layer.state.apply_link_up(LinkUp(site, view, view))
        layer.state.remote(site).show(View(view, view, (member,), ("?",)))
    return layer


def send(layer: RelayLayer, origin: Address, numbers: range, now: float) -> None:
    for n in numbers:
        layer.state.append(Batch("NYC", origin, Scope.ALL, 2 * n - 1, 2, BODY), now)


def acknowledge(layer: RelayLayer, site: str, **numbers: int) -> None:
    """Everything up to these batches of A and of B."""
    vector = {{"a": A, "b": B}[name]: 2 * n for name, n in numbers.items()}
    layer.state.apply_acked(Acked(site, ViewId(1, COORDINATORS[site]), SiteVector(vector, None)))


def lag(layer: RelayLayer, site: str) -> tuple[int, int, int, float]:
    numbers = layer.statistics()
    assert isinstance(numbers, RelayStatistics)
    found = next(each for each in numbers.sites if each.site == site)
    return found.behind_entries, found.behind_messages, found.behind_bytes, found.behind_s


def test_a_site_is_behind_from_the_oldest_entry_that_it_has_not_acknowledged() -> None:
    layer = member_that_holds_for_two_sites()
    send(layer, A, range(1, 11), now=-3.0)
    send(layer, B, range(1, 11), now=-1.0)
    size = ENTRY_BYTES + len(BODY)
    assert lag(layer, "SFO") == lag(layer, "LON") == (20, 40, 20 * size, 3.0)
    acknowledge(layer, "SFO", a=4)
    assert lag(layer, "SFO") == (16, 32, 16 * size, 3.0)
    acknowledge(layer, "SFO", a=4, b=7)
    assert lag(layer, "SFO") == (16, 32, 16 * size, 3.0)
    acknowledge(layer, "SFO", a=10, b=7)
    assert lag(layer, "SFO") == (3, 6, 3 * size, 1.0)
    acknowledge(layer, "LON", a=10, b=10)
    assert lag(layer, "LON") == (0, 0, 0, 0.0)
    assert lag(layer, "SFO") == (3, 6, 3 * size, 1.0)
    acknowledge(layer, "SFO", b=10)
    assert lag(layer, "SFO") == (0, 0, 0, 0.0)
    assert len(layer.state.buffer) == 0


def test_a_repeated_lag_query_reads_only_new_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that holds for a site that is down is asked as often as any other."""
    layer = member_that_holds_for_two_sites()
    send(layer, A, range(1, 2_001), now=0.0)
    acknowledge(layer, "SFO", a=2_000)
    layer.statistics()
    send(layer, A, range(2_001, 2_003), now=0.0)
    acknowledge(layer, "SFO", a=2_001)
    looked: list[int] = []
    at = Buffer.at

    def counted(buffer: Buffer, position: int) -> Entry:
        looked.append(position)
        return at(buffer, position)

    monkeypatch.setattr(Buffer, "at", counted)
    assert (lag(layer, "SFO")[0], lag(layer, "LON")[0]) == (1, 2_002)
    assert len(looked) <= 20


def test_a_lag_grows_while_nothing_else_happens() -> None:
    layer = member_that_holds_for_two_sites()
    send(layer, A, range(1, 2), now=1.0)
    for now, behind in ((8.0, 7.0), (6.0, 7.0)):
        layer.pass_time(now)
        assert lag(layer, "SFO")[3] == behind
    assert layer.statistics().spill_lost == 0, "there is no disk"


@pytest.mark.parametrize("woken", [0, 3], ids=["the relay", "a member"])
def test_messages_acknowledged_by_its_site_are_a_gap_for_a_paused_member_only(woken: int) -> None:
    """Stability is that of a view without it, so it gets a gap with exactly the numbers that it will never receive.

    X5: nothing is lost silently. The others have delivered these messages, and receive no gap and no duplicate.
    """
    world, nyc, sfo = two_linked_sites(4)
    nyc.members[1].send("before")
    world.run(1)
    paused = sfo.members[woken]
    part = sfo.split([paused])
    for number in list(paused.pipes):
        paused.pipes.pop(number)  # it is paused: its connection is silent
    paused.listening = False
    world.sites.pop(next(name for name, each in world.sites.items() if each is part))
    for n in range(3):
        nyc.members[1].send(f"meanwhile {n}")
    world.run(5)
    assert {len(member.layer.state.buffer) for member in nyc.members} == {0}
    sfo.merge(part)
    world.run(5)
    nyc.members[1].send("after")
    world.run(2)
    meanwhile = [f"meanwhile {n}" for n in range(3)]
    for member in sfo.members:
        if member is paused:
            assert member.words == ["before", "after"]
            assert member.gaps() == [(2, 4)]
        else:
            assert member.words == ["before", *meanwhile, "after"]
            assert member.gaps() == []
