"""Views: order of ids, ranks, and who continues a lineage."""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.view import View, ViewId, next_lineage
from tests.harness.addresses import address

A, B, C, D = map(address, "ABCD")
FIRST = ViewId(1, A)


def view(*members: Address) -> View:
    return View(ViewId(5, A), FIRST, members, tuple(str(member) for member in members))


def test_the_counter_decides_and_the_creator_breaks_the_tie() -> None:
    assert ViewId(1, D) < ViewId(2, A) < ViewId(2, B)


def test_ranks_and_names() -> None:
    three = view(A, B, C)
    assert (three.coordinator, three.rank(A), three.rank(C), three.rank(D)) == (A, 0, 2, -1)
    assert three.name_of(B) == str(B)
    assert three.name_of(D) == repr(D)


def test_at_most_one_part_of_a_split_continues_the_lineage() -> None:
    new = ViewId(6, B)
    assert next_lineage(view(A, B, C), [B, C], new) == FIRST
    assert next_lineage(view(A, B, C), [A], new) == new
    assert next_lineage(view(A, B), [A], new) == FIRST
    assert next_lineage(view(A, B), [B], new) == new
    assert next_lineage(view(A, B, C, D), [A, D], new) == FIRST
    assert next_lineage(view(A, B, C, D), [B, C], new) == new
