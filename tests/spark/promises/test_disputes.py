"""The disputed rows of a view become orders, and the checker's results become findings of the members that share
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Row

from pyspark_relay.promises.disputes import judge_view

VID = Row("counter", "creator")(1, 16 * "aa")
ROW = Row(
    *("node", "uuid", "label", "position", "gseq", "origin_site", "origin", "scope", "first", "last", "order_id", "length")
)


def rows(member: str, order: str, places: Sequence[int]) -> list[Row]:
    """A member that delivered batches of two messages of these origins at these places."""
    return [
        ROW(member, member, f"NYC/{member}", at, place, "NYC", 16 * f"0{name}", "all", 1, 2, hash(order), len(order))
        for at, (name, place) in enumerate(zip(order, places, strict=True))
    ]


def test_all_who_share_an_order_are_blamed_for_it_in_the_order_of_the_judgement() -> None:
    right = [1, 3, 5]
    members = [rows("A", "abc", right), rows("B", "abc", right), rows("C", "abc", right), rows("D", "acb", right)]
    members.append(rows("E", "acb", right))
    found = judge_view(VID, [row for member in members for row in member])
    assert [(who, number, issue) for who, number, issue, *_ in found] == [
        *(("D", 0, "place aaaaaaaa|1"), ("E", 0, "place aaaaaaaa|1")),
        *(("D", 1, "place aaaaaaaa|1"), ("E", 1, "place aaaaaaaa|1")),
        *(("D", 2, "order aaaaaaaa|1"), ("E", 2, "order aaaaaaaa|1")),
    ]
    assert found[-1][3:] == (
        "delivered NYC/0b0b0b0b all 1..2 (gseq 5) in aaaaaaaa|1 in another order than NYC/A",
        *("NYC", 16 * "0b", "all", "", 1, 2),
    )
