"""Entries dropped by the budget are reported as a gap, everywhere at the same place; never silently."""

from __future__ import annotations

import random
import sys

import pytest

from relay.events import Budget
from relay.gateway.injector import ELEMENT_BYTES, ENTRY_BYTES
from relay.gateway.wire import Ack, State
from relay.replica.buffer import Buffer
from relay.replica.config import BufferConfig
from relay.replica.entries import Acked, LinkUp, RemoteBaseline, RemoteGap, RemoteView, SiteVector, Trim
from relay.replica.replica import Replica
from sitestack.model.errors import ConfigurationError
from sitestack.model.gap import GapReason
from sitestack.model.state_events import Baseline
from tests.harness.addresses import address
from tests.harness.messages import batch_of
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, Puppet, alone, alone_and_greeted, data, numbers, remote_view
from tests.harness.relay.world import sites_of, two_linked_sites

pytestmark = pytest.mark.conforms("REL-13")


def held(member: Member) -> list[int]:
    buffer = member.layer.state.buffer
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    return [entry.batch.first for entry in entries if entry.batch is not None]


@pytest.mark.parametrize("config", [BufferConfig(budget_bytes=4_000), BufferConfig(budget_age_s=2.0)])
def test_the_budget_counts_bytes_and_seconds_too(config: BufferConfig) -> None:
    world, nyc, sfo = two_linked_sites(2, buffer=config)
    world.part("NYC", "SFO")
    for n in range(20):
        nyc.relay.send("x" * 200 + f"{n}")
        world.run(0.5)
    assert 0 < len(held(nyc.members[1])) < 12
    world.heal()
    world.run(10)
    gaps = sfo.members[1].gaps()
    assert gaps[0][0] == 1
    assert gaps[-1][1] + len(sfo.members[1].words) == 20
    assert [held(member) for member in nyc.members] == [[], []], "gaps are acknowledged like the messages they replace"


def test_a_budget_that_is_made_smaller_while_a_site_is_away_holds_at_once_and_one_made_larger_holds_more() -> None:
    world, nyc, sfo = two_linked_sites(3, buffer=BufferConfig(budget_entries=16))
    nyc.members[1].send("first")
    world.run(1)
    world.part("NYC", "SFO")
    world.run(11)

    def publish(count: int) -> None:
        for _ in range(count):
            nyc.members[1].send("more")
            world.run(0.1)

    def change(entries: int) -> None:
        for member in nyc.members:
            member.say(Budget(entries, 1 << 20))
        world.run(0.5)
        assert len({tuple(held(member)) for member in nyc.members}) == 1, "all members hold the same"

    publish(12)
    change(4)
    assert 0 < len(held(nyc.relay)) <= 4
    change(40)
    publish(20)
    assert len(held(nyc.relay)) > 20
    world.heal()
    world.run(10)
    for member in sfo.members:
        [(first, last)] = member.gaps()
        assert len(member.words) + last - first + 1 == 33


def test_a_configured_site_that_has_never_been_linked_holds_entries_too() -> None:
    """R22, REL-26 for every site: acknowledgements of one site do not count for another."""
    world, sites = sites_of({"LAX": 1, "NYC": 2, "SFO": 2})
    world.part("NYC", "LAX")
    for n in range(5):
        sites["NYC"].relay.send(f"{n}")
        world.run(0.5)
    assert held(sites["NYC"].members[1]) == [1, 2, 3, 4, 5]
    world.heal()
    world.run(10)
    assert sites["LAX"].relay.words == ["0", "1", "2", "3", "4"]
    assert held(sites["NYC"].members[1]) == []


def test_the_budget_is_enforced_once_even_while_nothing_can_be_sequenced() -> None:
    """Seed 94: the relay asked to be woken at a time that had passed, so virtual time stood still."""
    world, nyc = alone(2, BufferConfig(budget_age_s=1.0))
    nyc.relay.send("x")
    nyc.block()
    for _ in range(20):
        world.now += 0.5
        world.turn()
        due = nyc.relay.layer.deadline()
        assert due is None or due > world.now
    assert nyc.relay.layer.gateway.levels()["waiting_bytes"].now == ENTRY_BYTES + ELEMENT_BYTES
    nyc.install()
    world.settle()
    assert held(nyc.members[1]) == []


@pytest.mark.parametrize("age_s", [0.1, 1.0, 4.0, 600.0])
def test_when_an_entry_is_due_by_age_it_is_too_old(age_s: float) -> None:
    """As floats go, `since + age <= now` and `since <= now - age` are two things."""
    for tenth in range(1, 2_000):
        buffer = Buffer(BufferConfig(budget_age_s=age_s))
        buffer.append(None, None, tenth / 10)
        due = buffer.age_due(-1)
        assert due is not None
        assert buffer.excess(due) == 0
        assert buffer.is_in_excess(due)
        assert buffer.age_due(0) is None


def test_the_excess_check_of_the_oldest_entry_agrees_with_the_full_check() -> None:
    rng = random.Random(3)
    for _ in range(300):
        config = BufferConfig(budget_entries=rng.randint(1, 12), budget_bytes=rng.randint(1, 2_000), budget_age_s=3.0)
        buffer, now = Buffer(config), 0.0
        for n in range(rng.randint(0, 15)):
            now += rng.random()
            buffer.append(batch_of("A", n + 1, size=rng.randint(0, 200)), None, now)
        if rng.random() < 0.3 and len(buffer):
            buffer.drop_through(rng.randrange(buffer.first, buffer.end))
        later = now + rng.choice([0.0, 2.0, 4.0])
        assert buffer.is_in_excess(later) is (buffer.excess(later) is not None)


def test_a_baseline_of_a_known_origin_is_ignored() -> None:
    _world, nyc, puppet = alone_and_greeted()
    puppet.say(RemoteView("SFO", remote_view(1, D)), data(1), data(2), RemoteBaseline("SFO", {D: 7}), data(3))
    assert nyc.members[2].words == ["1", "2", "3"]
    assert [event for event in nyc.relay.events if isinstance(event, Baseline)] == []


def test_a_gap_is_final_and_reported_once_at_every_member() -> None:
    _world, nyc, puppet = alone_and_greeted()
    gap = RemoteGap("SFO", D, 2, 5, GapReason.BUDGET)
    puppet.say(data(1), gap, gap, data(6), data(4))
    for member in nyc.members:
        assert member.gaps() == [(2, 5)]
        assert member.words == ["1", "6"]


def test_a_gap_covers_missing_messages_only_and_one_that_skips_messages_is_ignored() -> None:
    _world, nyc, puppet = alone_and_greeted()
    puppet.say(data(1), data(2), data(3), RemoteGap("SFO", D, 2, 6, GapReason.BUDGET), data(7))
    assert nyc.members[1].gaps() == [(4, 6)]
    assert nyc.members[1].words == ["1", "2", "3", "7"]
    puppet.say(RemoteGap("SFO", D, 9, 10, GapReason.BUDGET))
    assert nyc.members[1].gaps() == [(4, 6)], "8 is not accounted for"


@pytest.mark.conforms("REL-29")
def test_a_site_that_lost_all_memory_receives_a_baseline_and_the_held_entries() -> None:
    """F29: all of SFO dies and comes back: new members, no memory; the buffer of NYC may be trimmed already."""
    world, nyc = alone()
    nyc.relay.send("x")
    world.settle()
    old = Puppet(nyc).greet()
    view = nyc.view.id if nyc.view else None
    old.say(Ack({"NYC": SiteVector({nyc.relay.address: 1}, view)}))
    nyc.relay.send("y")
    world.settle()
    fresh = Puppet(nyc).greet(lineage=2)
    sent = fresh.heard()
    assert [frame.origins for frame in sent if isinstance(frame, RemoteBaseline)] == [{nyc.relay.address: 1}]
    assert numbers(sent) == [2]
    assert [frame.view.id for frame in sent if isinstance(frame, RemoteView)] == [view]


def test_a_trim_keeps_what_a_waited_for_site_lacks_though_the_relay_had_another_order() -> None:
    """With `order: fifo`: the relay had A's message first, which SFO has, and trims it; here B's comes first."""
    view = remote_view(1, D)
    replica = Replica(D, "NYC", BufferConfig(), ("SFO", "TYO"), {})
    for batch in (batch_of("B", 1), batch_of("A", 1)):
        replica.state.append(batch, 0.0)
    for entry in (RemoteView("SFO", view), LinkUp("SFO", view.lineage, view.id)):
        replica.apply(entry, None, 0.0)
    replica.apply(Acked("SFO", view.lineage, SiteVector({address("A"): 1}, None)), None, 0.0)
    replica.apply(Trim(0), None, 0.0)
    assert [batch.origin for batch in replica.state.buffer.batches()] == [address("B"), address("A")]
    replica.apply(Acked("SFO", view.lineage, SiteVector({address("B"): 1}, None)), None, 0.0)
    replica.apply(Trim(1), None, 0.0)
    assert list(replica.state.buffer.batches()) == [], "TYO is not waited for"


def test_an_impossible_budget_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 1000000 entries"):
        BufferConfig(budget_entries=0)


def test_the_peer_gets_no_more_than_its_window() -> None:
    world, nyc = alone(1)
    puppet = Puppet(nyc).greet(origins={}, window_bytes=1_000)
    for _ in range(20):
        nyc.relay.send("x" * 200)
    world.settle()
    first = numbers(puppet.heard())
    assert 2 <= len(first) <= 5
    view = nyc.view.id if nyc.view else None
    puppet.say(Ack({"NYC": SiteVector({nyc.relay.address: first[-1]}, view)}))
    more = numbers(puppet.heard())
    assert more[0] == first[-1] + 1
    assert 2 <= len(more) <= 5
    puppet.say(State({"NYC": SiteVector({nyc.relay.address: first[-1]}, view)}))
    assert numbers(puppet.heard()) == more, "a rewind does not let more out"


def holders(bodies: list[bytes]) -> set[int]:
    """How many others have a reference to these."""
    return {sys.getrefcount(body) - 3 for body in bodies}


@pytest.mark.parametrize("count", [3, 2_000])
def test_the_bodies_of_dropped_entries_are_freed(count: int) -> None:
    """However few were dropped, and however many: a thousand large bodies are more than any budget."""
    buffer, bodies = Buffer(BufferConfig()), []
    for n in range(count):
        batch = batch_of("A", n + 1, size=40)
        bodies.append(batch.body)
        buffer.append(batch, None, 0.0)
    del batch
    assert holders(bodies) == {1}
    buffer.drop_through(buffer.end - 2)
    assert len(buffer) == 1
    last = bodies.pop()
    assert holders(bodies) == {0}
    assert holders([last]) == {2}, "the buffer, and this test"
