"""Who is out of order in a view, and by how little: what no aggregate can say.

The same judgement as that of `sitestack.promises.total_order`: what most members share is believed first, and the
fewest batches are blamed. It is given the disputed part of one view of one site.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Row

FINDING = (
    "uuid string, position long, issue string, why string, gseq long, "
    "origin_site string, origin string, scope string, first long, last long"
)


class OrderedBatch(NamedTuple):
    """A batch in the order of a member."""

    gseq: int | None
    origin_site: str
    origin: str
    scope: str
    first: int
    last: int

    @property
    def batch(self) -> tuple[str, str, str, int, int]:
        """Which batch it is, wherever it stands."""
        return self[1:]

    def __str__(self) -> str:
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}..{self.last}"
        place = "" if self.gseq is None else f" (gseq {self.gseq})"
        return f"{self.origin_site}/{self.origin[:8]} {self.scope} {numbers}{place}"


class Order(NamedTuple):
    """An order that some members share."""

    places: list[OrderedBatch]
    #: Where each place stands in the journal of the first of them.
    positions: list[int]
    #: (node, uuid, label) of those who have it.
    members: list[tuple[str, str, str]]
    #: How many batches it has in the whole view.
    length: int


def judge_view(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """One entry a batch that a member has out of order, as `FINDING` says, from the disputed deliveries of one view."""
    believed = sorted(_orders(rows), key=lambda order: (-len(order.members), -order.length, order.members[0]))
    return [
        (uuid, order.positions[at], issue, why, *order.places[at])
        for order, at, issue, why in _find(believed)
        for _, uuid, _ in order.members
    ]


def find_misplaced(ranks: list[int]) -> list[int]:
    """The fewest indices without which the ranks strictly increase: all but a longest increasing subsequence."""
    # From the right and downwards, so that of two that changed places the late one is kept out.
    tails: list[int] = []
    ends: list[int] = []
    following = [-1] * len(ranks)
    for at in reversed(range(len(ranks))):
        length = bisect_left(tails, -ranks[at])
        following[at] = ends[length - 1] if length else -1
        if length == len(tails):
            tails.append(-ranks[at])
            ends.append(at)
        else:
            tails[length], ends[length] = -ranks[at], at
    kept = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.add(at)
        at = following[at]
    return [at for at in range(len(ranks)) if at not in kept]


def _orders(rows: Sequence[Row]) -> list[Order]:
    """The distinct orders, each with the members that share it."""
    members: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        members.setdefault((row["node"], row["uuid"], row["label"]), []).append(row)
    orders: dict[int, Order] = {}
    for member, own in sorted(members.items()):
        own.sort(key=lambda row: row["position"])
        places = [OrderedBatch(*[row[name] for name in OrderedBatch._fields]) for row in own]
        order = Order(places, [row["position"] for row in own], [], own[0]["length"])
        orders.setdefault(own[0]["order_id"], order).members.append(member)
    return list(orders.values())


def _find(believed: list[Order]) -> Iterator[tuple[Order, int, str, str]]:
    """What is wrong: the order, the index in it, the issue, and why."""
    for order in believed:
        placed = [at for at, place in enumerate(order.places) if place.gseq is not None]
        for index in find_misplaced([gseq for place in order.places if (gseq := place.gseq) is not None]):
            beside = order.places[placed[index - 1 if index else 1]]
            yield order, placed[index], "falls", f"out of the order of places, beside {beside}"
    holders: dict[int, tuple[OrderedBatch, str]] = {}
    for number, order in enumerate(believed):
        for at, place in enumerate(order.places):
            if place.gseq is not None:
                holder, label = holders.setdefault(place.gseq, (place, order.members[0][2]))
                if holder.batch != place.batch:
                    yield order, at, "place", f"where {label} has {holder}"
        for reference in believed[:number]:
            for at in _compare(order, reference):
                yield order, at, "order", f"in another order than {reference.members[0][2]}"


def _compare(order: Order, reference: Order) -> list[int]:
    """What of an order stands elsewhere in the common part of both."""
    rank = {place.batch: at for at, place in reversed(list(enumerate(reference.places)))}
    # Of a batch that stands twice the later place counts, at the rank of its first.
    common: dict[tuple[Any, ...], int] = {}
    for at, place in enumerate(order.places):
        if place.batch in rank:
            common[place.batch] = at
    return [list(common.values())[index] for index in find_misplaced([rank[batch] for batch in common])]
