"""Members out of order in a view: the fewest, against the most trusted order."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sitestack.model.message import Scope
from sitestack.promises.total_order import Misplaced, OrderedBatch, find_misplaced, judge_orders
from tests.harness.addresses import address, view_id


def longest_increasing(ranks: list[int]) -> int:
    """Its length, the slow way."""
    best = [0] * len(ranks)
    for at, rank in enumerate(ranks):
        best[at] = 1 + max((best[before] for before in range(at) if ranks[before] < rank), default=0)
    return max(best, default=0)


def test_the_fewest_are_misplaced_and_the_rest_is_in_order() -> None:
    rng = random.Random(1)
    for _ in range(500):
        ranks = [rng.randrange(12) for _ in range(rng.randrange(12))]
        misplaced = find_misplaced(ranks)
        kept = [rank for at, rank in enumerate(ranks) if at not in misplaced]
        assert kept == sorted(set(kept))
        assert len(kept) == longest_increasing(ranks)


def order(names: str, places: Sequence[int | None]) -> list[OrderedBatch]:
    """Batches of these origins at these places."""
    return [OrderedBatch(place, "NYC", address(name), Scope.ALL, 1, 1) for name, place in zip(names, places, strict=True)]


def judged(*orders: list[OrderedBatch]) -> list[Misplaced]:
    """Return the misplaced batches in the orders of A, B and C, the first of which is trusted most."""
    return list(judge_orders(view_id("1A"), list(zip(orders, "ABC", strict=False))))


def blamed(*orders: list[OrderedBatch]) -> list[tuple[str, str, str]]:
    """Whose order, of what kind, which batch."""
    return [("ABC"[each.order], each.kind, chr(orders[each.order][each.at].origin[0])) for each in judged(*orders)]


def test_the_order_that_contradicts_the_most_trusted_one_is_blamed() -> None:
    right = [1, 2, 3]
    assert blamed(order("xyz", right), order("xzy", right)) == [("B", "place", "z"), ("B", "place", "y"), ("B", "order", "y")]


def test_a_decreasing_place_is_found_in_one_order_and_names_the_contradicted_batch() -> None:
    [found] = judged(order("xyz", [1, 3, 2]))
    batch, other = "NYC/7a7a7a7a all 1 (gseq 2)", "NYC/79797979 all 1 (gseq 3)"
    assert found == (0, 2, "falls", f"delivered {batch} in 41414141|1 out of the order of places, after {other}")


def test_a_place_too_high_contradicts_a_lower_one_after_it() -> None:
    [found] = judged(order("xyz", [9, 1, 2]))
    assert found.what.endswith("out of the order of places, before NYC/79797979 all 1 (gseq 1)")


def test_without_places_the_order_alone_is_compared() -> None:
    nowhere = [None, None, None]
    assert blamed(order("xyz", nowhere), order("yxz", nowhere)) == [("B", "order", "x")]


def test_a_member_with_a_missing_batch_is_not_out_of_order() -> None:
    assert blamed(order("xyz", [1, 2, 3]), order("xz", [1, 3])) == []


def test_a_correct_start_and_end_do_not_change_the_verdict() -> None:
    rng = random.Random(2)
    names = "defghijk"
    for _ in range(300):
        whole = [sorted(rng.sample(range(2, 10), 8), key=lambda place: place + rng.choice((0, 0, 1.5, 3))) for _ in "ABC"]
        disputed = [order("".join(names[place - 2] for place in places), places) for places in whole]
        first, last = order("a", [1]), order("z", [10])
        longer = [[*first, *each, *last] for each in disputed]
        assert [each._replace(at=each.at - 1) for each in judged(*longer)] == judged(*disputed)
