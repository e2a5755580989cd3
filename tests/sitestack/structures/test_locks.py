"""The lock services of a site's members, fed by one stream; views and parts without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from sitestack.model.address import Address
from sitestack.model.envelope import unwrap
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.structures.locks import Locks, Request
from sitestack.structures.registry import Structures
from tests.harness.addresses import address, view_of


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

    def ask(self, name: str) -> Request:
        return self.members[name].request("l", lambda: None)


def token_of(request: Request) -> int | None:
    """The token now; a property in this test would be taken for a constant."""
    return request.token


def formed() -> Site:
    site = Site()
    site.install(view_of(1, "ABC"))
    site.flow("ABC")
    return site


def test_one_member_holds_the_lock_and_the_next_one_gets_it_with_a_larger_token() -> None:
    site = formed()
    one, other = site.ask("A"), site.ask("B")
    site.flow("ABC")
    token = token_of(one)
    assert token is not None
    assert other.token is None
    site.members["A"].release(one)
    site.flow("ABC")
    assert token_of(one) is None
    after = token_of(other)
    assert after is not None
    assert after > token


def test_a_holder_that_leaves_the_view_passes_the_lock_on_and_a_joiner_knows_it() -> None:
    site = formed()
    site.ask("A")
    other = site.ask("B")
    site.flow("ABC")
    site.install(view_of(2, "BCD"))
    site.flow("BCD")
    assert other.token is not None
    held = site.members["D"].table.holder("l")
    assert held is not None
    assert (held[0].member, held[1]) == (address("B"), other.token)


def test_requests_that_a_view_change_has_swallowed_are_made_again() -> None:
    site = formed()
    one = site.ask("A")
    site.sent.clear()
    site.install(view_of(2, "ABC"))
    site.flow("ABC")
    assert one.token is not None
    site.members["A"].release(one)
    site.sent.clear()
    site.install(view_of(3, "ABC"))
    site.flow("ABC")
    assert site.members["B"].table.holder("l") is None


def test_a_part_without_the_majority_loses_its_locks_and_takes_the_state_of_the_other_part() -> None:
    site = formed()
    mine = site.ask("A")
    site.flow("ABC")
    token = mine.token
    assert token is not None
    site.clock_us = 5
    site.install(replace(view_of(2, "A"), is_primary=False))
    site.install(view_of(3, "BC"))
    other = site.ask("B")
    site.flow("BC")
    assert mine.is_over
    assert token_of(mine) is None
    assert other.token is not None
    assert other.token > token
    merged = view_of(4, "ABC")
    site.install(merged)
    site.flow("ABC")
    assert all(each.table.snapshot() == site.members["A"].table.snapshot() for each in site.members.values())
    held = site.members["A"].table.holder("l")
    assert held is not None
    assert held[0].member == address("B")


def test_while_a_view_lacks_an_agreement_nothing_is_granted_and_then_in_order() -> None:
    site = formed()
    site.install(view_of(2, "ABC"))
    one, other = site.ask("B"), site.ask("A")
    claims = [each for each in site.sent if b"claim" in each[1]]
    rest = [each for each in site.sent if each not in claims]
    site.sent = [*claims[:2], *rest]
    site.flow("ABC")
    assert token_of(one) is None
    site.sent = claims[2:]
    site.flow("ABC")
    assert token_of(one) is not None
    assert other.token is None


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
