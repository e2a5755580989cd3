"""Objects that are made quickly behave as those of any frozen dataclass."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace

from sitestack.model.fast_frozen import fast_frozen


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
