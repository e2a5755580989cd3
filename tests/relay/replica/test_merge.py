"""A site that splits, relays from both parts and becomes one again: nothing twice, nothing silently lost."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from relay.events import Budget
from relay.replica.config import BufferConfig
from relay.replica.entries import LineageState, RelayState, RemoteState, SiteVector
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.merge import merge_parts
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.state_events import Baseline
from sitestack.model.view import SubView, View, ViewId
from tests.harness.messages import present
from tests.harness.relay.member import Member, received
from tests.harness.relay.puppet import D, E, F, batch
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import split_sfo, two_linked_sites, two_sites


def settled(member: Member, origin: Member) -> list[int]:
    """Return the numbers of an origin that a member has delivered or received as gaps, in order."""
    numbers: list[int] = []
    for event in member.events:
        if isinstance(event, Gap) and event.origin == origin.address:
            numbers += range(event.first, event.last + 1)
        elif isinstance(event, Baseline):
            numbers += range(1, event.origins.get(origin.address, 0) + 1)
        elif isinstance(event, Frame) and event.batch is not None and event.batch.origin == origin.address:
            numbers.append(event.batch.first)
    return numbers


def test_both_parts_relay_and_neither_delivers_messages_of_the_other() -> None:
    """R10, M2, F32."""
    world, nyc, sfo, other = split_sfo()
    sfo.relay.send("from one")
    other.relay.send("from the other")
    nyc.relay.send("to both")
    world.run(3)
    assert len(nyc.relay.layer.gateway.table.links) == 2
    for member in nyc.members:
        assert sorted(member.words) == ["from one", "from the other", "to both"]
    assert sorted(sfo.members[1].words) == ["from one", "to both"]
    assert sorted(other.members[1].words) == ["from the other", "to both"]
    sfo.merge(other)
    world.run(3)
    assert sorted(sfo.members[1].words) == ["from one", "to both"]
    assert sorted(sfo.members[3].words) == ["from the other", "to both"]
    proxies = [ProxyUUID(member.address, "SFO") for member in sfo.members]
    for member in nyc.members + sfo.members:
        view = member.global_views()[-1]
        assert [each for each in view.members if each.site == "SFO"] == proxies
        assert len(view.members) == 8


@pytest.mark.conforms("REL-4")
def test_a_merge_relays_unsent_messages_of_each_part_and_delivers_none_in_the_other() -> None:
    world, nyc, sfo = two_linked_sites(4)
    world.part("NYC", "SFO")
    other = sfo.split(sfo.members[2:])
    for n in range(3):
        sfo.members[1].send(f"one {n}")
        other.members[1].send(f"other {n}")
    sfo.merge(other)
    assert [len(member.layer.state.buffer) for member in sfo.members] == [len(sfo.relay.layer.state.buffer)] * 4
    world.heal()
    world.run(10)
    for member in nyc.members:
        assert [text for text in member.words if text.startswith("one")] == ["one 0", "one 1", "one 2"]
        assert [text for text in member.words if text.startswith("other")] == ["other 0", "other 1", "other 2"]
    assert all(not text.startswith("other") for text in sfo.members[0].words)
    assert all(not text.startswith("one") for text in sfo.members[3].words)


@pytest.mark.conforms("REL-4")
def test_messages_not_yet_sequenced_by_a_part_are_resent_after_the_merge() -> None:
    world, nyc, sfo = two_linked_sites(4)
    nyc.relay.send("1")
    world.run(1)
    other = sfo.split(sfo.members[2:])
    world.run(1)
    for number in list(other.relay.pipes):
        other.relay.pipes.pop(number)  # its link hangs: NYC waits for acknowledgements of the second message
    nyc.relay.send("2")
    world.settle()
    sfo.block()
    nyc.relay.send("3")
    world.settle()
    sfo.merge(other)
    world.run(3)
    for member in sfo.members:
        assert (member.words, member.gaps()) == (["1", "2", "3"], [])
        assert "relay_hole" not in member.drops


def test_a_merged_lineage_replaces_those_it_joins() -> None:
    world, nyc, sfo, other = split_sfo()
    world.run(3)
    assert len(nyc.relay.layer.state.remotes["SFO"].lineages) == 2
    sfo.merge(other)
    world.run(3)
    for member in nyc.members:
        assert list(member.layer.state.remotes["SFO"].lineages) == [present(sfo.view).lineage]
    nyc.relay.send("x")
    world.run(1)
    assert [len(member.layer.state.buffer) for member in nyc.members] == [0] * 4


def test_nothing_is_held_for_a_part_that_was_given_up_and_has_merged() -> None:
    """It went down, and its last views were dropped unseen; the merge view names its lineage all the same."""
    world, nyc, sfo = two_linked_sites(4, buffer=BufferConfig(budget_entries=4))
    other = sfo.split(sfo.members[2:])
    world.part("NYC", "SFO")
    for n in range(6):
        sfo.relay.send(f"cut off {n}")
    world.heal()
    sfo.name = "SFO, cut off"
    world.part("NYC", sfo.name)
    other.join("J")
    other.join("K")
    world.run(15)
    nyc.relay.send("x")
    world.run(1)
    remote = nyc.relay.layer.state.remotes["SFO"]
    assert [each.view is None for each in remote.lineages.values()] == [True, False]
    assert {len(member.layer.state.buffer) for member in nyc.members} == {1}
    sfo.name = "SFO"
    sfo.merge(other)
    world.run(3)
    for member in nyc.members:
        assert list(member.layer.state.remotes["SFO"].lineages) == [present(sfo.view).lineage]
        assert len(member.layer.state.buffer) == 0
    assert [member.words[-1] for member in sfo.members] == ["x"] * 6


def test_a_part_that_did_not_get_the_merge_view_is_held_for_again() -> None:
    """The commit reached the other part only, and the two lost each other again; this one continues in its lineage."""
    world, nyc, sfo, other = split_sfo()
    world.run(3)
    views = present(sfo.view), present(other.view)
    sfo.install(subviews=tuple(SubView(view.id, view.members, view.lineage) for view in views))
    world.run(3)
    assert nyc.relay.layer.state.remotes["SFO"].lineages[views[1].lineage].epoch is not None
    other.name = "SFO, cut off"
    world.part("NYC", other.name)
    nyc.relay.send("1")
    world.run(1)
    assert [member.words for member in sfo.members] == [["1"]] * 2
    assert [len(member.layer.state.buffer) for member in nyc.members] == [1] * 4
    world.heal()
    world.run(3)
    assert [settled(member, nyc.relay) for member in (*sfo.members, *other.members)] == [[1]] * 4
    assert [member.words for member in other.members] == [["1"]] * 2
    assert [len(member.layer.state.buffer) for member in nyc.members] == [0] * 4


def part(view: int, creator: Address, entries: list[HeldEntry], admitted: dict[Address, int]) -> RelayState:
    remote = RemoteState("NYC", True, False, admitted, (), {}, {})
    produced = {each.batch.origin: each.batch.last for each in entries if each.batch}
    return RelayState(ViewId(view, creator), 10 * view, HeldEntries.of(entries), None, produced, (remote,), ())


def test_the_order_of_the_parts_does_not_matter() -> None:
    held = [HeldEntry(batch(n, origin), None) for origin, n in ((D, 3), (E, 1), (D, 4), (D, 5), (F, 1), (E, 2))]
    parts = [
        part(3, D, held[:4], {D: 4, E: 2}),
        part(4, E, [held[1], held[5]], {D: 6, F: 1}),
        part(4, F, held[:2] + held[4:5], {D: 5, E: 9}),
    ]
    merged = [merge_parts([parts[n] for n in order], {}) for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0))]
    assert merged[0] == merged[1] == merged[2]
    batches = [entry.batch for entry in merged[0].entries if entry.batch]
    for origin, numbers in ((D, [3, 4, 5]), (E, [1, 2]), (F, [1])):
        assert [each.first for each in batches if each.origin == origin] == numbers
    assert merged[0].remotes[0].admitted == {D: 4}
    assert merged[0].first == 43


@pytest.mark.conforms("REL-21", "REL-23")
def test_a_merge_restores_no_view_that_one_part_knows_to_be_down() -> None:
    """The other part has only not noticed yet; should the site live, its link shows it again."""
    theirs = View(ViewId(5, D), ViewId(1, D), (D,), ("D",))
    older = View(ViewId(4, D), ViewId(1, D), (D,), ("D",))

    def state(creator: Address, view: View | None, reached: View | None, down: bool, forgotten: bool) -> RelayState:
        lineage = LineageState(ViewId(1, D), None, view, SiteVector({}, None))
        known = {} if reached is None else {ViewId(1, D): reached.id}
        remote = RemoteState("NYC", True, down, {}, () if forgotten else (lineage,), known, {})
        return RelayState(ViewId(3, creator), 0, HeldEntries.of(()), None, {}, (remote,), ())

    def merged(before: View | None, down: bool, other: View, forgotten: bool = False) -> RemoteState:
        return merge_parts([state(E, None, before, down, forgotten), state(F, other, other, False, False)], {}).remotes[0]

    for forgotten in (False, True):
        gone, overtaken = merged(theirs, True, theirs, forgotten), merged(older, True, theirs, forgotten)
        behind, unseen = merged(theirs, True, older, forgotten), merged(None, False, theirs, forgotten)
        assert (gone.lineages[0].view, gone.down) == (None, True)
        assert (overtaken.lineages[0].view, overtaken.down) == (theirs, False)
        assert (behind.lineages[0].view, behind.reached) == (None, {ViewId(1, D): theirs.id})
        assert (unseen.lineages[0].view, unseen.down) == (theirs, False)


@pytest.mark.conforms("REL-33")
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_a_site_counts_as_slow_when_it_was_so_to_both_parts(one: bool, other: bool) -> None:
    """That it is slow one relay finds out anew; that it keeps up as well."""

    def state(creator: Address, is_slow: bool) -> RelayState:
        lineage = LineageState(ViewId(1, D), None, None, SiteVector({}, None), is_slow)
        remote = RemoteState("NYC", True, False, {}, (lineage,), {}, {})
        return RelayState(ViewId(3, creator), 0, HeldEntries.of(()), None, {}, (remote,), ())

    merged = merge_parts([state(E, one), state(F, other)], {}).remotes[0]
    assert [each.is_slow for each in merged.lineages] == [one and other]


def test_a_part_that_knows_nothing_of_a_site_begins_where_the_others_are() -> None:
    """R29: it has lost nothing. A part that knows the site, but not one of its members, still needs all of that one."""
    knows, knows_less = part(3, D, [], {D: 4, E: 2}), part(4, E, [], {D: 3})
    founder = replace(part(5, F, [], {}), remotes=(RemoteState("NYC", False, False, {}, (), {}, {}),))
    stranger = replace(founder, remotes=())
    for parts in ([knows, founder], [founder, knows], [stranger, knows], [founder, knows, stranger]):
        assert merge_parts(parts, {}).remotes[0].admitted == {D: 4, E: 2}
    assert merge_parts([founder, knows, knows_less], {}).remotes[0].admitted == {D: 3}
    state = ReplicatedState("SFO", BufferConfig())
    state.view = View(ViewId(5, F), ViewId(5, F), (F,), ("F",))
    assert state.merge([knows], {}, 0.0) == [("NYC", {D: 4, E: 2})]
    assert state.merge([knows_less], {}, 0.0) == []


def test_a_merge_with_a_part_that_knows_a_site_keeps_what_the_state_of_the_application_contains_of_it() -> None:
    state = ReplicatedState("SFO", BufferConfig())
    state.view = View(ViewId(5, F), ViewId(5, F), (F,), ("F",))
    state.unknown = {"NYC": {D: 7}, "LON": {E: 1}}
    state.merge([part(3, D, [], {D: 4, E: 2})], {}, 0.0)
    assert state.remotes["NYC"].inherited == {D: 7}
    assert state.unknown == {"LON": {E: 1}}


class SplitHistory:
    """SFO splits and merges at random, NYC talks to it; links break."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world, self.nyc, self.sfo = two_sites(4)
        self.other: FakeSite | None = None

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        if self.other is not None:
            self.sfo.merge(self.other)
        for site in self.world.sites.values():
            site.lag = None
        self.world.run(30)

    def step(self) -> None:
        rng, world = self.rng, self.world
        dice = rng.random()
        if dice < 0.5:
            site = rng.choice(list(world.sites.values()))
            rng.choice(site.members).send("x")
        elif dice < 0.75:
            world.turn()
        elif dice < 0.85:
            world.run(rng.choice([0.01, 0.3, 2.0]))
        elif dice < 0.9:
            rng.choice(list(world.sites.values())).lag = rng.choice([None, random.Random(rng.random())])
        elif dice < 0.95:
            world.break_links(*world.sites, rng=random.Random(rng.random()))
        elif self.other is None:
            self.other = self.sfo.split(rng.choice([self.sfo.members[2:], self.sfo.members[:2], self.sfo.members[1:2]]))
        else:
            self.sfo.merge(self.other)
            self.other = None


@pytest.mark.slow
@pytest.mark.conforms("REL-4")
@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_of_splits_repeats_nothing_and_accounts_for_everything(seed: int) -> None:
    """M4: X1, X2 and X5 hold over a split with both parts relaying, followed by a merge."""
    history = SplitHistory(seed)
    history.play(120)
    nyc, sfo = history.nyc.members, history.sfo.members
    for origin in nyc:
        for member in nyc:
            assert received(member, origin.address, "NYC") == list(range(1, origin.sent + 1))
        for member in sfo:
            assert settled(member, origin) == list(range(1, origin.sent + 1))
    for origin in sfo:
        for member in nyc:
            assert received(member, origin.address, "SFO") == list(range(1, origin.sent + 1)), "what a part held was relayed"
        for member in sfo:
            numbers = received(member, origin.address, "SFO")
            assert numbers == sorted(set(numbers))
    views = [member.global_views()[-1] for member in nyc + sfo]
    assert all(view == views[0] for view in views)
    states = [member.layer.give_state() for member in sfo]
    assert all(state == states[0] for state in states)


def test_a_member_with_another_budget_keeps_as_much_as_the_others_after_a_merge() -> None:
    """The relay's budget counts: members trim by its entries in the stream, not by their own settings."""
    world, nyc, sfo = two_sites(4, buffer=BufferConfig(budget_entries=1_000))
    world.run(2)
    world.part("NYC", "SFO")
    world.run(12)
    other = nyc.split(nyc.members[2:])
    for n in range(20):
        nyc.relay.send(f"a{n}")
        other.relay.send(f"b{n}")
        world.turn()
    nyc.members[1].say(Budget(10, 64 << 20))
    nyc.merge(other)
    assert len({len(member.layer.state.buffer) for member in nyc.members}) == 1
    nyc.members[1].say(Budget(1_000, 64 << 20))
    nyc.kill(nyc.relay)
    world.heal()
    world.run(20)
    assert (len(sfo.members[1].words), sfo.members[1].gaps()) == (40, [])


def test_a_merge_drops_no_entries_for_a_site_that_senders_wait_for() -> None:
    """X11: with `when_down: wait` two halves may hold more than the budget together; senders wait until it is delivered."""
    wait = {"when_down": {"SFO": "wait", "NYC": "wait"}}
    world, nyc, sfo = two_sites(4, gateway=wait, buffer=BufferConfig(budget_entries=40))
    world.run(2)
    world.part("NYC", "SFO")
    world.run(15)
    other = nyc.split(nyc.members[2:])
    world.part("NYC", "SFO")
    for n in range(30):
        nyc.relay.send(f"a{n}")
        other.relay.send(f"b{n}")
        world.turn()
    nyc.merge(other)
    world.heal()
    world.run(30)
    assert (len(sfo.members[1].words), sfo.members[1].gaps()) == (60, [])
    assert {len(member.layer.state.buffer) for member in nyc.members} == {0}
