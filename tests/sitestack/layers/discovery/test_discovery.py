"""Discovery alone: its messages, and the ones that it accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.discovery import Discovery, DiscoveryConfig
from sitestack.layers.discovery.directory import CONTACTS_PER_FRAME
from sitestack.layers.discovery.headers import IAmHere, IHave, Invalidate, KnownContacts, WhoHas, WhoIsThere
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import (
    Connect,
    FindMembers,
    FindPhysical,
    Found,
    Left,
    Peer,
    RemovePhysical,
    SetPhysical,
    ViewInstalled,
    Watch,
    WatchAt,
)
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.view import SubView, View, ViewId
from sitestack.stack.layer import Down, Effect, Up
from tests.harness.addresses import address, local_of, place, view_of
from tests.harness.hosts import contact_of
from tests.harness.messages import datagrams, drops

A, B, C, D = map(address, "ABCD")
HOST = Physical("host", 7)


def make(name: str = "A", config: DiscoveryConfig | None = None, rules: str = "") -> Discovery:
    """The discovery of a connected process."""
    discovery = Discovery(local_of(name), config or DiscoveryConfig(), rules)
    discovery.down(Connect((place(name),)), 0.0)
    return discovery


def hear(discovery: Discovery, source: str, header: Header, now: float = 0.0) -> list[Effect]:
    return discovery.up(Frame(address(source), None, (header,), None, True), now)


def cached(effects: list[Effect]) -> list[SetPhysical | RemovePhysical]:
    """Return the changes of the resolver."""
    return [each.event for each in effects if isinstance(each, Down) and isinstance(each.event, SetPhysical | RemovePhysical)]


def request(name: str, version: int) -> WhoIsThere:
    return WhoIsThere(contact_of(name, version), None, None, "")


def answer(name: str, version: int, coordinator: str | None = None, others: tuple[Contact, ...] = ()) -> IAmHere:
    if coordinator is None:
        return IAmHere(contact_of(name, version), None, None, "", others)
    return IAmHere(contact_of(name, version), address(coordinator), ViewId(1, address(coordinator)), "", others)


def test_a_watched_member_that_moves_is_watched_at_its_new_address() -> None:
    discovery = make()
    assert discovery.down(Watch((B, C)), 0.0) == [], "nothing is known of them"
    assert Up(WatchAt(((B, place("B")),))) in hear(discovery, "B", request("B", 1))
    assert not any(isinstance(each, Up) for each in hear(discovery, "B", request("B", 2)))
    moved = WhoIsThere(replace(contact_of("B", 3), physical=(HOST,)), None, None, "")
    assert Up(WatchAt(((B, HOST),))) in hear(discovery, "B", moved)
    assert discovery.down(Watch(()), 1.0) == [Up(WatchAt(()))]


def set_to(name: str, version: int, at: Physical | None = None) -> SetPhysical:
    return SetPhysical(address(name), (at or place(name),), version)


# -- searching -----------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-12", "LA-13", "LA-30")
def test_a_request_goes_to_all_and_to_each_initial_host_and_names_its_sender() -> None:
    discovery = make(config=DiscoveryConfig(initial_hosts=(HOST,)))
    effects = discovery.down(FindMembers(), 0.0)
    expected = WhoIsThere(contact_of("A", 2), None, None, "")
    assert datagrams(effects) == [(None, expected), (HOST, expected)]


@pytest.mark.conforms("LA-12")
def test_a_request_fills_the_cache_and_is_answered_by_unicast() -> None:
    discovery = make()
    discovery.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    effects = hear(discovery, "B", request("B", 1))
    assert cached(effects) == [set_to("B", 1)]
    ((dest, header),) = datagrams(effects)
    assert dest == B
    assert header == IAmHere(contact_of("A", 3), A, ViewId(1, A), "", ())


def test_a_process_without_view_answers_that_it_knows_no_coordinator() -> None:
    ((_, header),) = datagrams(hear(make(), "B", request("B", 1)))
    assert header == IAmHere(contact_of("A", 2), None, None, "", ())


@pytest.mark.conforms("LA-12")
def test_requests_are_repeated_and_end_in_order_of_address() -> None:
    discovery = make("B")
    times, effects = [0.0], discovery.down(FindMembers(), 0.0)
    hear(discovery, "C", answer("C", 1))
    hear(discovery, "A", answer("A", 1))
    while (due := discovery.deadline()) is not None and due < 10.0:
        effects = discovery.expire(due)
        times.append(due)
    assert times == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert effects == [Up(Found((Peer(A, None, None), Peer(C, None, None))))]


def test_a_search_ends_soon_after_a_coordinator_has_spoken_for_itself() -> None:
    discovery = make("C")
    discovery.down(FindMembers(), 0.0)
    hear(discovery, "B", answer("B", 1, coordinator="A"), 0.01)
    assert discovery.deadline() == 0.25
    hear(discovery, "A", answer("A", 1, coordinator="A"), 0.02)
    assert discovery.deadline() == 0.02 + DiscoveryConfig().settle_s


@pytest.mark.conforms("LA-11")
def test_a_member_that_leaves_during_a_search_is_not_found() -> None:
    discovery = make("C")
    discovery.down(FindMembers(), 0.0)
    hear(discovery, "A", answer("A", 1))
    hear(discovery, "B", answer("B", 1))
    hear(discovery, "B", Invalidate(B, 2))
    assert discovery.expire(1.0) == [Up(Found((Peer(A, None, None),)))]


def test_a_process_that_starts_simultaneously_is_found_by_its_request() -> None:
    discovery = make("B")
    discovery.down(FindMembers(), 0.0)
    hear(discovery, "A", request("A", 5))
    hear(discovery, "A", answer("A", 4, coordinator="A"))  # older, and late
    assert discovery.expire(1.0) == [Up(Found((Peer(A, None, None),)))]


@pytest.mark.conforms("LA-12")
def test_a_requester_is_answered_at_most_once_per_interval() -> None:
    discovery = make()
    answers = [datagrams(hear(discovery, "B", request("B", n), n / 1_000)) for n in range(1, 251)]
    assert len([each for each in answers if each]) == 3


@pytest.mark.conforms("LA-28")
def test_an_answer_mentions_others_and_never_more_than_fit() -> None:
    discovery = make()
    names = "BCDEFGHIJKLMNOPQRSTUVWXYZ"
    for name in names:
        hear(discovery, name, request(name, 1))
    discovery.up(ViewInstalled(view_of(1, "BACDEFGHIJKLMNOP"), None), 0.0)
    ((_, header),) = datagrams(hear(discovery, "Z", request("Z", 2), 1.0))
    assert isinstance(header, IAmHere)
    assert "".join(each.name for each in header.others) == "B" + "YXWVUT" + "CDEFG"
    assert len(header.others) == CONTACTS_PER_FRAME


@pytest.mark.conforms("LA-28")
def test_only_the_first_members_mention_others() -> None:
    for name, mentions in (("B", True), ("D", False)):
        discovery = make(name)
        hear(discovery, "A", IHave((contact_of("A", 1),)))
        discovery.up(ViewInstalled(view_of(1, "ABCD"), None), 0.0)
        ((_, header),) = datagrams(hear(discovery, "X", request("X", 1)))
        assert isinstance(header, IAmHere)
        assert bool(header.others) == mentions


@pytest.mark.conforms("LA-28")
def test_whom_an_answer_mentions_is_asked_directly_when_initial_hosts_are_used() -> None:
    discovery = make(config=DiscoveryConfig(initial_hosts=(HOST,)))
    discovery.down(FindMembers(), 0.0)
    effects = hear(discovery, "B", answer("B", 1, others=(contact_of("C", 1), contact_of("A", 1))))
    assert cached(effects) == [set_to("B", 1), set_to("C", 1)]
    assert [(dest, type(header)) for dest, header in datagrams(effects)] == [(C, WhoIsThere)]


def test_nothing_is_answered_before_connecting_and_after_leaving() -> None:
    idle = Discovery(local_of("A"), DiscoveryConfig())
    assert drops(hear(idle, "B", request("B", 1))) == ["not_connected"]
    gone = make()
    gone.up(Left(), 0.0)
    assert drops(hear(gone, "B", request("B", 1))) == ["not_connected"]


# -- authority -----------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-5")
def test_a_newer_contact_of_a_moved_member_is_cached_and_a_late_one_is_not() -> None:
    discovery, moved = make(), Physical("b2", 1)
    assert cached(hear(discovery, "B", IHave((contact_of("B", 1),)))) == [set_to("B", 1)]
    assert cached(hear(discovery, "B", IHave((contact_of("B", 3, moved),)))) == [set_to("B", 3, moved)]
    assert cached(hear(discovery, "B", IHave((contact_of("B", 2),)))) == []


@pytest.mark.conforms("LA-11")
def test_third_parties_fill_gaps_the_coordinator_corrects() -> None:
    discovery, wrong = make("D"), Physical("x", 1)
    discovery.up(ViewInstalled(view_of(1, "ABCD"), None), 0.0)
    assert cached(hear(discovery, "C", IHave((contact_of("B", 1),)))) == [set_to("B", 1)]
    assert cached(hear(discovery, "C", IHave((contact_of("B", 9, wrong),)))) == []
    assert cached(hear(discovery, "A", IHave((contact_of("B", 2),)))) == [set_to("B", 2)]


@pytest.mark.conforms("LA-11")
def test_a_removed_member_returns_only_by_its_own_newer_contact() -> None:
    discovery = make()
    hear(discovery, "B", IHave((contact_of("B", 3),)))
    assert cached(hear(discovery, "B", Invalidate(B, 4))) == [RemovePhysical(B)]
    assert drops(hear(discovery, "C", IHave((contact_of("B", 9),)), 60.0)) == ["removed_contact"]
    assert drops(hear(discovery, "B", IHave((contact_of("B", 4),)), 60.0)) == ["removed_contact"]
    assert cached(hear(discovery, "B", IHave((contact_of("B", 5),)), 60.0)) == [set_to("B", 5)]


@pytest.mark.conforms("LA-11")
def test_invalidate_is_believed_from_the_leaver_and_from_my_coordinator() -> None:
    discovery = make("D")
    discovery.up(ViewInstalled(view_of(1, "ACD"), None), 0.0)
    for source, expected in (("C", ["no_authority"]), ("A", []), ("B", [])):
        hear(discovery, "B", IHave((contact_of("B", 1),)))
        assert drops(hear(discovery, source, Invalidate(B, 1))) == expected


@pytest.mark.conforms("LA-11")
def test_a_late_or_unauthorized_invalidate_of_a_returned_member_is_dropped() -> None:
    discovery = make("D")
    discovery.up(ViewInstalled(view_of(3, "ABD"), None), 0.0)
    hear(discovery, "B", IHave((contact_of("B", 5),)))
    assert drops(hear(discovery, "A", Invalidate(B, 9))) == ["no_authority"]
    assert drops(hear(discovery, "B", Invalidate(B, 4))) == ["late_invalidate"]
    assert drops(hear(discovery, "D", Invalidate(D, 9))) == ["no_authority"]


def test_a_contact_of_another_member_or_with_invalid_addresses_is_dropped() -> None:
    discovery = make()
    assert drops(hear(discovery, "C", request("B", 1))) == ["bad_contact"]
    assert drops(hear(discovery, "C", answer("B", 1))) == ["bad_contact"]
    assert drops(hear(discovery, "C", WhoHas(A, contact_of("B", 1)))) == ["bad_contact"]
    for places in ((), (Physical("", 1),), (Physical("x\n", 1),), (Physical("x", 1),) * 9):
        contact = Contact(B, "B", places, 1)
        assert drops(hear(discovery, "B", IHave((contact,)))) == ["bad_contact"]
    many = (contact_of("B", 1),) * (CONTACTS_PER_FRAME + 1)
    assert drops(hear(discovery, "B", IHave(many))) == ["too_many_contacts"]
    assert drops(hear(discovery, "B", answer("B", 1, others=many))) == ["too_many_contacts"]
    assert discovery.levels()["contacts"].now == 1


@pytest.mark.conforms("LA-1")
def test_names_are_shown_and_cannot_forge_a_log_line() -> None:
    discovery = make()
    evil = Contact(B, 'b\n{"ev":"deliver"}\x1b[2J', (place("B"),), 1)
    hear(discovery, "B", IAmHere(evil, None, None, "", ()))
    assert discovery.name_of(B) == 'b\\u{a}{"ev":"deliver"}\\u{1b}[2J'
    assert discovery.name_of(C) == "43434343"


# -- WHO-HAS -------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-9", "LA-17")
def test_who_has_is_sent_to_all_to_initial_hosts_and_to_the_last_known_address() -> None:
    discovery = make(config=DiscoveryConfig(initial_hosts=(HOST,)))
    hear(discovery, "B", IHave((contact_of("B", 1),)))
    assert cached(discovery.up(FindPhysical(B), 0.0)) == [set_to("B", 1)]
    hear(discovery, "B", Invalidate(B, 2))
    expected = WhoHas(B, contact_of("A", 2))
    assert datagrams(discovery.up(FindPhysical(B), 0.0)) == [(None, expected), (HOST, expected), (place("B"), expected)]


@pytest.mark.conforms("LA-10")
def test_who_has_is_answered_by_the_wanted_member_and_its_sender_is_cached() -> None:
    discovery = make()
    effects = hear(discovery, "C", WhoHas(A, contact_of("C", 1)))
    assert cached(effects) == [set_to("C", 1)]
    assert datagrams(effects) == [(C, IHave((contact_of("A", 2),)))]
    assert drops(hear(discovery, "C", WhoHas(A, contact_of("C", 2)))) == ["not_answered"]


@pytest.mark.conforms("LA-12")
@pytest.mark.parametrize(("name", "answers"), [("A", True), ("C", True), ("D", False)])
def test_the_first_members_tell_of_the_view(name: str, answers: bool) -> None:
    discovery = make(name)
    discovery.up(ViewInstalled(view_of(1, "AXCDB"), None), 0.0)
    hear(discovery, "B", IHave((contact_of("B", 1),)))
    effects = hear(discovery, "E", WhoHas(B, contact_of("E", 1)))
    assert datagrams(effects) == ([(address("E"), IHave((contact_of("B", 1),)))] if answers else [])


def test_a_member_that_knows_a_stranger_answers_who_has_for_it() -> None:
    discovery = make("D")
    discovery.up(ViewInstalled(view_of(1, "AXCD"), None), 0.0)
    hear(discovery, "B", IHave((contact_of("B", 1),)))
    assert datagrams(hear(discovery, "A", WhoHas(B, contact_of("A", 1)))) == [(A, IHave((contact_of("B", 1),)))]


# -- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-18")
def test_connecting_caches_the_uuid_and_leaving_drops_and_invalidates_it() -> None:
    discovery = Discovery(local_of("A"), DiscoveryConfig())
    assert cached(discovery.down(Connect((place("A"),)), 0.0)) == [set_to("A", 1)]
    effects = discovery.up(Left(), 0.0)
    assert datagrams(effects) == [(None, Invalidate(A, 2))]
    assert cached(effects) == [RemovePhysical(A)]
    assert discovery.deadline() is None


@pytest.mark.conforms("LA-11")
def test_the_coordinator_invalidates_departed_members_and_introduces_new_ones() -> None:
    discovery = make()
    for name in "BC":
        hear(discovery, name, IHave((contact_of(name, 1),)))
    discovery.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    effects = discovery.up(ViewInstalled(view_of(2, "AC"), view_of(1, "AB")), 0.0)
    assert cached(effects) == [RemovePhysical(B)]
    assert datagrams(effects) == [(None, Invalidate(B, 1)), (None, IHave((contact_of("C", 1),)))]


@pytest.mark.conforms("LA-20")
def test_after_a_merge_the_coordinator_introduces_all_members() -> None:
    discovery = make()
    for name in "BCD":
        hear(discovery, name, IHave((contact_of(name, 1),)))
    before = view_of(1, "AB")
    after = view_of(2, "ABCD")
    parts = (SubView(before.id, before.members, before.lineage), SubView(ViewId(1, C), (C, D), ViewId(1, C)))
    merged = View(after.id, after.lineage, after.members, after.names, parts)
    ((dest, header),) = datagrams(discovery.up(ViewInstalled(merged, before), 0.0))
    assert dest is None
    assert isinstance(header, IHave)
    assert "".join(each.name for each in header.contacts) == "ABCD"


@pytest.mark.conforms("LA-11")
def test_other_members_remove_a_departed_member_and_send_nothing() -> None:
    discovery = make("B")
    hear(discovery, "C", IHave((contact_of("C", 1),)))
    discovery.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
    effects = discovery.up(ViewInstalled(view_of(2, "AB"), view_of(1, "ABC")), 0.0)
    assert (cached(effects), datagrams(effects)) == ([RemovePhysical(C)], [])


@pytest.mark.conforms("LA-28")
def test_a_joiner_is_given_the_contacts_of_the_view() -> None:
    giver, joiner = make("A"), make("D")
    for name in "BCX":
        hear(giver, name, IHave((contact_of(name, 1),)))
    giver.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
    state = giver.give_state()
    assert isinstance(state, KnownContacts)
    assert "".join(each.name for each in state.contacts) == "ABC"
    joiner.take_state(state)
    effects = joiner.up(ViewInstalled(view_of(2, "ABCD"), None, (state,)), 0.0)
    assert [each.member for each in cached(effects)] == [A, B, C]
    assert joiner.up(ViewInstalled(view_of(3, "ABCD"), view_of(2, "ABCD")), 0.0) == []


@pytest.mark.conforms("LA-5")
def test_a_new_place_of_mine_is_announced_more_than_once() -> None:
    discovery, moved = make(config=DiscoveryConfig(initial_hosts=(HOST,))), Physical("a2", 1)
    assert cached(discovery.down(Connect((moved,)), 5.0)) == [set_to("A", 2, moved)]
    announced: list[tuple[Destination, Header]] = []
    while (due := discovery.deadline()) is not None and due < 10.0:
        announced += datagrams(discovery.expire(due))
    expected = [IHave((contact_of("A", version, moved),)) for version in (3, 3, 4, 4, 5, 5)]
    assert announced == list(zip((None, HOST) * 3, expected, strict=True))


def test_frames_without_a_discovery_header_pass_unchanged() -> None:
    discovery = make()
    frame = Frame(B, A)
    assert discovery.up(frame, 0.0) == [Up(frame)]
    assert discovery.down(frame, 0.0) == [Down(frame)]


def test_a_stranger_that_has_fallen_silent_is_forgotten_and_a_member_is_not() -> None:
    discovery = make()
    for name in "BCD":
        hear(discovery, name, IHave((contact_of(name, 1),)))
    discovery.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    forgotten = []
    for now in range(0, 200, 10):
        discovery.up(Frame(C, None), float(now))
        forgotten += [(now, each) for each in cached(discovery.expire(float(now)))]
    assert forgotten == [(120, RemovePhysical(D))]
    assert drops(hear(discovery, "B", IHave((contact_of("D", 1),)), 200.0)) == ["removed_contact"]
    assert cached(hear(discovery, "D", IHave((contact_of("D", 2),)), 200.0)) == [set_to("D", 2)]


def test_contacts_are_bounded() -> None:
    discovery = make(config=DiscoveryConfig(contacts_max=10, answered_max=10, peers_max=10))
    discovery.down(FindMembers(), 0.0)
    reasons: list[str] = []
    for number in range(100):
        stranger = Address(number.to_bytes(16, "big"))
        contact = Contact(stranger, "s", (Physical("s", 1),), 1)
        reasons += drops(discovery.up(Frame(stranger, None, (WhoIsThere(contact, None, None, ""),)), 0.0))
    levels = discovery.levels()
    assert (levels["contacts"].now, levels["answered"].now) == (10, 10)
    assert reasons == ["too_many_peers"] * 90
