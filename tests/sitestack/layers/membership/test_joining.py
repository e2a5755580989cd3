"""The joiner's machine alone: whom it asks, how long it waits, and when it founds a site."""

from __future__ import annotations

from sitestack.layers.membership.headers import JoinOffer, JoinRedirect, JoinRequest
from sitestack.layers.membership.joining import Joining, Phase
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, Peer
from sitestack.model.frame import Frame
from sitestack.model.state_events import Fetched, Offered
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Effect, Up
from tests.harness.addresses import address, local_of

A, B, C = map(address, "ABC")
TIMEOUT_S = 4.0
LOOK = [Down(FindMembers())]


def asks(member: Address, hears: bool = False) -> list[Effect]:
    return [Down(Frame(B, member, (JoinRequest("B", hears),)))]


def peer(name: str, coordinator: str | None = None, counter: int = 1) -> Peer:
    leader = None if coordinator is None else address(coordinator)
    return Peer(address(name), name, leader, None if leader is None else ViewId(counter, leader))


def looking(fetches: bool = False) -> Joining:
    """B has just begun to look around."""
    joining = Joining(local_of("B"), TIMEOUT_S, fetches)
    assert joining.find_site() == LOOK
    return joining


def test_the_coordinator_of_the_newest_view_is_asked() -> None:
    assert looking().found(Found((peer("A", "A", 3), peer("C", "C", 7))), 1.0) == asks(C)


def test_a_coordinator_that_offers_nothing_is_asked_after_the_others() -> None:
    """It is heard, or heard of, and does not hear the joiner. When all are like that, it begins again with the newest."""
    joining, now = looking(), 1.0
    for coordinator in (C, A, C):
        assert joining.found(Found((peer("A", "A", 3), peer("D", "C", 7))), now) == asks(coordinator)
        now += TIMEOUT_S
        assert joining.expire(now) == LOOK


def test_a_coordinator_that_offered_and_took_too_long_is_asked_again() -> None:
    joining = looking()
    found = Found((peer("A", "A", 3), peer("C", "C", 7)))
    joining.found(found, 1.0)
    joining.offered(C)
    joining.expire(1.0 + TIMEOUT_S)
    assert joining.found(found, 6.0) == asks(C)


def test_of_joiners_alone_the_first_founds_the_site_and_the_others_look_again() -> None:
    assert looking().found(Found(()), 1.0) is None
    assert looking().found(Found((peer("C"),)), 1.0) is None
    assert looking().found(Found((peer("A"), peer("C"))), 1.0) == LOOK


def test_who_is_redirected_asks_there_and_waits_from_then_on() -> None:
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.redirected(JoinRedirect(C), 2.0) == asks(C)
    assert joining.redirected(JoinRedirect(B), 2.5) == [], "nobody asks itself"
    assert joining.deadline() == 2.0 + TIMEOUT_S
    assert joining.expire(2.0 + TIMEOUT_S) == LOOK


def test_an_offer_is_answered_once_and_only_one_of_whom_was_asked() -> None:
    """A second answer would look like the question of a member that does not know that it is one."""
    joining = looking()
    assert joining.offered(A) == [], "nobody was asked yet"
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.offered(C) == []
    assert joining.offered(A) == asks(A, hears=True)
    assert joining.offered(A) == []
    assert joining.deadline() == 1.0 + TIMEOUT_S
    joining.ready(2.0)
    assert joining.offered(A) == []


def test_who_stands_ready_waits_anew_and_asks_nobody() -> None:
    """To ask as a member would mean to have waited in vain."""
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.ready(1.0 + TIMEOUT_S - 0.1)
    assert joining.redirected(JoinRedirect(C), TIMEOUT_S) == []
    assert joining.expire(1.0 + TIMEOUT_S) == []
    assert joining.expire(1.0 + 2 * TIMEOUT_S - 0.1) == LOOK


def test_who_stands_ready_while_it_looks_around_does_not_act_on_what_it_finds() -> None:
    joining = looking()
    joining.ready(1.0)
    assert joining.found(Found(()), 1.5) == []
    assert joining.deadline() == 1.0 + TIMEOUT_S


def test_a_member_wants_nothing_any_more() -> None:
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.done()
    assert joining.phase is Phase.IDLE
    assert joining.deadline() is None


def test_who_has_something_to_fetch_does_so_before_it_answers_the_offer() -> None:
    joining = looking(fetches=True)
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.offered(A) == [Up(Offered(A))]
    assert joining.fetched(Fetched((JoinOffer(),)), 2.0) == [Down(Frame(B, A, (JoinRequest("B", True, (JoinOffer(),)),)))]
    assert joining.fetched(Fetched(()), 2.0) == [], "one answer to one offer"


def test_a_coordinator_from_which_something_comes_is_not_given_up() -> None:
    joining = looking(fetches=True)
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.offered(A)
    for second in range(2, 60, 3):
        joining.fetching(float(second))
        assert joining.expire(second + 0.9 * TIMEOUT_S) == []
    assert joining.expire(second + TIMEOUT_S) == LOOK
    assert joining.fetched(Fetched(()), 70.0) == [], "it has been given up, and is asked again"
    joining.fetching(70.0)
    assert joining.deadline() is None
