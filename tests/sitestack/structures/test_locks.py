"""Locks of a site: the table of requests, and members that use it."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.envelope import unwrap
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.structures import lock_table
from sitestack.structures.lock_table import Claimant, LockTable
from sitestack.structures.locks import TOKENS_A_VIEW, Locks, Request
from sitestack.structures.registry import Structures
from sitestack.wire.plain import pack_plain
from tests.harness.addresses import address, view_of
from tests.harness.messages import present


class Site:
    """Members with a lock service each, and one stream for each part."""

    def __init__(self) -> None:
        self.members: dict[str, Locks] = {}
        self.sent: list[tuple[str, bytes]] = []
        self.clock_us = 0

    def add(self, name: str) -> None:
        def post_now(body: bytes, scope: Scope, target: Address | None) -> None:
            self.sent.append((name, unwrap(body)[1]))

        def post(body: bytes, scope: Scope, target: Address | None) -> Awaitable[None]:
            raise AssertionError("locks do not wait")

        structures = Structures(post, post_now, lambda reason: None)
        self.members[name] = Locks(address(name), structures, lambda: self.clock_us)

    def install(self, view: View) -> None:
        """A view for its members; what they say in it is delivered by `flow`."""
        for name in view.names:
            if name not in self.members:
                self.add(name)
            self.members[name].view_changed(view)

    def flow(self, to: str) -> None:
        """Deliver everything sent by these members to all of them."""
        while self.sent:
            source, data = self.sent.pop(0)
            for name in to if source in to else "":
                self.members[name].accept(address(source), data)

    def agree(self, view: View) -> None:
        """Its members install the view, and hear what they say in it."""
        self.install(view)
        self.flow("".join(view.names))

    def ask(self, name: str) -> Request:
        return self.members[name].request("l", lambda: None)


def token_of(request: Request) -> int | None:
    """The token now; a property in this test would be taken for a constant."""
    return request.token


def granted(request: Request) -> int:
    """The token of a request that holds the lock."""
    return present(request.token)


def formed() -> Site:
    site = Site()
    site.agree(view_of(1, "ABC"))
    return site


def test_one_member_holds_the_lock_and_the_next_one_gets_it_with_a_larger_token() -> None:
    site = formed()
    one, other = site.ask("A"), site.ask("B")
    site.flow("ABC")
    token = granted(one)
    assert other.token is None
    site.members["A"].release(one)
    site.flow("ABC")
    assert token_of(one) is None
    assert granted(other) > token


def test_a_holder_that_leaves_the_view_passes_the_lock_on_and_a_joiner_knows_it() -> None:
    site = formed()
    site.ask("A")
    other = site.ask("B")
    site.flow("ABC")
    site.agree(view_of(2, "BCD"))
    assert other.token is not None
    held = present(site.members["D"].table.holder("l"))
    assert (held[0].member, held[1]) == (address("B"), other.token)


def test_a_member_of_another_site_gets_no_lock() -> None:
    site, view = Site(), view_of(1, "ABC").at_site("NYC")
    site.install(view)
    site.flow("ABC")
    for name in "AD":  # another site may name any uuid
        site.members["A"].accept(ProxyUUID(address(name), "SFO"), pack_plain(["request", list(view.id), "l", 1, 1]))
    assert site.members["A"].table.holder("l") is None


def test_requests_that_a_view_change_has_swallowed_are_made_again() -> None:
    site = formed()
    one = site.ask("A")
    site.sent.clear()
    site.agree(view_of(2, "ABC"))
    assert one.token is not None
    site.members["A"].release(one)
    site.sent.clear()
    site.agree(view_of(3, "ABC"))
    assert site.members["B"].table.holder("l") is None


def test_a_minority_part_loses_its_locks_and_adopts_the_state_of_the_majority() -> None:
    site = formed()
    mine = site.ask("A")
    site.flow("ABC")
    token = granted(mine)
    site.clock_us = 5
    site.install(replace(view_of(2, "A"), is_primary=False))
    site.install(view_of(3, "BC"))
    other = site.ask("B")
    site.flow("BC")
    assert mine.is_over
    assert token_of(mine) is None
    assert granted(other) > token
    merged = view_of(4, "ABC")
    site.install(merged)
    site.flow("ABC")
    assert all(each.table.snapshot() == site.members["A"].table.snapshot() for each in site.members.values())
    held = present(site.members["A"].table.holder("l"))
    assert held[0].member == address("B")


def test_tokens_of_a_cut_off_member_are_below_all_of_the_next_view() -> None:
    """A paused coordinator wakes, and delivers a release in the rest of its last view, which the others lack."""
    site = formed()
    first, stale, other = site.ask("B"), site.ask("A"), site.ask("C")
    site.flow("ABC")
    site.members["B"].release(first)
    [(_, release)] = site.sent
    site.sent.clear()
    site.agree(view_of(2, "BC"))
    site.members["A"].accept(address("B"), release)
    assert granted(stale) < granted(other)


def test_a_request_of_a_cut_off_member_has_no_larger_token_however_late_it_comes() -> None:
    """The flush of its last view still delivers it, before the view without the majority."""
    site = formed()
    site.agree(view_of(2, "BC"))
    other = site.ask("B")
    site.flow("BC")
    site.clock_us = 10 * TOKENS_A_VIEW
    stale = site.ask("A")
    site.flow("A")
    assert granted(stale) < granted(other)


def test_a_request_that_waited_while_all_others_were_replaced_twice_gets_a_larger_token() -> None:
    site = formed()
    site.agree(view_of(5, "ABC"))
    site.ask("B")
    paused = site.ask("A")
    site.flow("ABC")
    site.clock_us = 10 * TOKENS_A_VIEW
    site.agree(view_of(1, "DE"))
    between = site.ask("D")
    site.flow("DE")
    token = granted(between)
    site.clock_us += 1
    site.agree(view_of(2, "FG"))
    site.agree(view_of(6, "AFG"))
    assert granted(paused) > token


def test_the_table_of_a_paused_holder_yields_to_that_of_the_new_members_though_these_count_views_anew() -> None:
    site = formed()
    site.agree(view_of(5, "ABC"))
    paused = site.ask("A")
    site.flow("ABC")
    site.clock_us = 10 * TOKENS_A_VIEW
    site.install(view_of(1, "DE"))
    other = site.ask("D")
    site.flow("DE")
    site.agree(view_of(6, "ADE"))
    assert paused.is_over
    assert token_of(other) is not None


def test_a_message_of_an_earlier_view_that_one_member_delivers_after_a_merge_counts_at_none() -> None:
    site = formed()
    lost = site.ask("C")
    [(_, request)] = site.sent
    site.sent.clear()
    site.members["C"].release(lost)
    site.sent.clear()
    site.install(replace(view_of(2, "C"), is_primary=False))
    site.agree(view_of(3, "AB"))
    site.install(view_of(4, "ABC"))
    site.members["C"].accept(address("C"), request)
    site.flow("ABC")
    assert all(each.table.holder("l") is None for each in site.members.values())
    assert all(each.table.snapshot() == site.members["A"].table.snapshot() for each in site.members.values())


def test_requests_and_releases_wait_for_the_agreement_of_the_view() -> None:
    site = formed()
    first = site.ask("B")
    site.flow("ABC")
    site.install(view_of(2, "ABC"))
    claims, site.sent = site.sent, []
    site.members["B"].release(first)
    second, given_up = site.ask("A"), site.ask("C")
    site.members["C"].release(given_up)
    assert site.sent == []
    site.sent = claims
    site.flow("ABC")
    assert token_of(second) is not None
    assert {each.table.count for each in site.members.values()} == {1}


def test_a_member_keeps_nothing_of_requests_that_it_gave_up_without_an_agreement() -> None:
    site = formed()
    site.install(replace(view_of(2, "A"), is_primary=False))
    for _ in range(100):
        site.members["A"].release(site.ask("A"))
    assert site.members["A"]._requests == {}
    assert site.sent == []


def test_a_release_is_not_undone_by_the_older_table_of_another_part() -> None:
    """The parts merge before the one that continued has agreed on its table: both tables are of the last view."""
    site = formed()
    held = site.ask("A")
    site.flow("ABC")
    site.members["A"].release(held)
    site.flow("AB")
    site.install(replace(view_of(2, "C"), is_primary=False))
    site.install(view_of(3, "AB"))
    site.sent.clear()
    site.install(view_of(4, "CAB"))
    site.flow("ABC")
    assert [each.table.holder("l") for each in site.members.values()] == [None] * 3


A, B, C = map(address, "ABC")


def asks(table: LockTable, member: Address, number: int = 1, name: str = "l") -> bool:
    return table.request(name, Claimant(member, number))


def holder(table: LockTable, name: str = "l") -> Address | None:
    held = table.holder(name)
    return None if held is None else held[0].member


def test_members_hold_the_lock_in_the_order_of_their_requests() -> None:
    table = LockTable()
    for member in (A, B, C):
        assert asks(table, member)
    assert holder(table) == A
    table.release("l", B, 1)
    table.release("l", A, 1)
    assert holder(table) == C
    table.release("l", C, 1)
    assert holder(table) is None
    assert table.count == 0


def test_a_request_that_is_repeated_counts_once() -> None:
    table = LockTable()
    asks(table, A)
    asks(table, A)
    assert table.count == 1
    asks(table, A, number=2)
    assert table.count == 2, "another task of the same member"


def test_a_departed_member_loses_its_locks_and_its_queue_places() -> None:
    table = LockTable()
    for member in (A, B, C):
        asks(table, member)
    table.retain([C])
    assert holder(table) == C
    table.retain([])
    assert table.count == 0


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.sampled_from(["l", "m"]), st.booleans()), max_size=40))
def test_tokens_only_grow(steps: list[tuple[Address, str, bool]]) -> None:
    table, seen = LockTable(), [0]
    for member, name, is_request in steps:
        before = {each: table.holder(each) for each in ("l", "m")}
        if is_request:
            asks(table, member, name=name)
        else:
            table.release(name, member, 1)
        for each in ("l", "m"):
            held = table.holder(each)
            if held is not None and held != before[each]:
                assert held[1] > max(seen)
                seen.append(held[1])
        restored = LockTable.restore(table.snapshot())
        assert restored.snapshot() == table.snapshot()


def test_at_the_bound_requests_are_refused() -> None:
    table = LockTable()
    for number in range(lock_table.REQUESTS_MAX):
        assert asks(table, A, number)
    assert not asks(table, B)


@pytest.mark.parametrize(
    "fields", [[inf, [0, 0, []]], [0, [inf, 0, []]], [0, [0, 0, [["l", inf, [[bytes(16), 1]]]]]], ["x", []]]
)
def test_a_claim_of_no_numbers_is_refused(fields: list[object]) -> None:
    """A member that lies would otherwise end the others."""
    site, view = Site(), view_of(1, "AB")
    site.install(view)
    with pytest.raises(ProtocolError):
        site.members["A"].accept(B, pack_plain(["claim", list(view.id), *fields]))
