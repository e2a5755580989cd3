"""Views, and the frozen classes that they and other values are."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
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


@fast_frozen
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: tuple[int, ...] = ()
    third: list[int] = field(default_factory=list, compare=False)
    fourth: str | None = field(init=False, default=None, compare=False)


def test_fields_and_defaults_are_those_of_the_class() -> None:
    assert repr(Quick(1)) == "Quick(first=1, second=(), third=[], fourth=None)"
    assert repr(Quick(1, second=(2,), third=[3])) == "Quick(first=1, second=(2,), third=[3], fourth=None)"
    assert Quick(1).third is not Quick(1).third


def test_equal_objects_are_equal_and_have_one_hash() -> None:
    assert Quick(1, (2,), [3]) == Quick(1, (2,))
    assert hash(Quick(1, (2,))) == hash(Quick(1, (2,)))
    assert Quick(1) != Quick(2)


def test_they_can_be_replaced_pickled_and_matched() -> None:
    assert replace(Quick(1, (2,)), first=3) == Quick(3, (2,))
    assert pickle.loads(pickle.dumps(Quick(1, (2,)))) == Quick(1, (2,))
    match Quick(1, (2,)):
        case Quick(first, second):
            assert (first, second) == (1, (2,))
