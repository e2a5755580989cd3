"""Who is out of order in a view: the fewest, against what most share."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pyspark.sql import Row

from relay.instruments.analytics.disputes import find_misplaced, judge_view


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


def rows(member: str, order: str, places: Sequence[int | None]) -> list[Row]:
    """A member that delivered batches of these names at these places."""
    names = (
        "node",
        "uuid",
        "label",
        "position",
        "gseq",
        "origin_site",
        "origin",
        "scope",
        "first",
        "last",
        "order_id",
        "length",
    )
    make = Row(*names)
    return [
        make(member, member, f"NYC/{member}", at, place, "NYC", batch, "all", 1, 1, hash((order, tuple(places))), len(order))
        for at, (batch, place) in enumerate(zip(order, places, strict=True))
    ]


def judged(*members: list[Row]) -> set[tuple[str, str, str]]:
    """(member, issue, batch)."""
    found = judge_view([row for member in members for row in member])
    return {(entry[0], entry[2], entry[6]) for entry in found}


def test_what_most_share_is_believed() -> None:
    right = [1, 2, 3]
    assert judged(rows("A", "xyz", right), rows("B", "xyz", right), rows("C", "xzy", right)) == {
        ("C", "place", "y"),
        ("C", "place", "z"),
        ("C", "order", "y"),
    }


def test_a_place_that_falls_is_found_at_one_member_alone() -> None:
    assert judged(rows("A", "xyz", [1, 3, 2])) == {("A", "falls", "z")}


def test_without_places_the_order_alone_is_compared() -> None:
    nowhere = [None, None, None]
    assert judged(rows("A", "xyz", nowhere), rows("B", "xyz", nowhere), rows("C", "yxz", nowhere)) == {("C", "order", "x")}


def test_who_lacks_a_batch_is_not_out_of_order() -> None:
    assert judged(rows("A", "xyz", [1, 2, 3]), rows("B", "xz", [1, 3])) == set()
