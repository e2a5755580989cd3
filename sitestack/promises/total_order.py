"""L8: the members of a site deliver all multicasts, relayed ones included, in one order."""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises.history import History, by_site
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Damage, Findings, Violation


class OrderedBatch(NamedTuple):
    gseq: int | None
    site: str
    origin: Address
    scope: Scope
    first: int
    length: int

    @property
    def batch(self) -> tuple[str, Address, Scope, int, int]:
        return self[1:]

    @property
    def stream(self) -> Stream:
        return Stream(self.site, self.origin, self.scope, None)

    @property
    def numbers(self) -> Ranges:
        return Ranges([(self.first, self.first + self.length - 1)])

    def __str__(self) -> str:
        return f"{self.stream} {self.numbers}" + ("" if self.gseq is None else f" (gseq {self.gseq})")


#: A place as a plain tuple: made, hashed and compared for every delivery.
_PLACE = operator.attrgetter("gseq", "site", "origin", "scope", "first", "count")
_Order = tuple[tuple[Any, ...], ...]


def check_total_order(histories: Sequence[History]) -> list[Violation]:
    """L8. Two processes deliver their common multicasts of a view in one order.

    A journaled place (view, gseq) belongs to one batch, and places strictly increase. Unicasts have
    no common order, nor do multicasts with `order: fifo`.
    """
    findings = Findings("L8")
    for members in by_site(histories).values():
        orders: dict[ViewId, dict[_Order, list[History]]] = {}
        for history in members:
            for stay, view in history.placed_stays():
                multicasts = [each for each in stay.delivers if each.scope not in UNICASTS]
                # L2 reports a batch that is delivered twice at one place.
                order = tuple(dict.fromkeys(map(_PLACE, multicasts)))
                orders.setdefault(view.vid, {}).setdefault(order, []).append(history)
        for vid, found in orders.items():
            _check_view(findings, vid, found)
    return findings.violations()


def _check_view(findings: Findings, vid: ViewId, orders: dict[_Order, list[History]]) -> None:
    """Compare the distinct orders of a view; the order that most processes share is believed first."""
    if len(orders) == 1 and _rises([place[0] for place in next(iter(orders)) if place[0] is not None]):
        return
    believed = [
        (list(itertools.starmap(OrderedBatch, order)), group)
        for order, group in sorted(orders.items(), key=lambda each: (-len(each[1]), -len(each[0])))
    ]
    for found in judge_orders(vid, [(order, group[0].label) for order, group in believed]):
        order, group = believed[found.order]
        place = order[found.at]
        for history in group:
            damage = Damage("reordered", history.uuid, place.stream, place.numbers)
            findings.add(history.label, f"{found.kind} {vid}", found.what, damage)


class Misplaced(NamedTuple):
    """A batch out of order: number of its order, index in it, kind of mistake, and a sentence."""

    order: int
    at: int
    kind: Literal["falls", "place", "order"]
    what: str


def judge_orders(vid: ViewId, believed: Sequence[tuple[Sequence[OrderedBatch], str]]) -> Iterator[Misplaced]:
    """Yield the faults of the distinct orders of a view, each with the label of one of its processes.

    The order that is believed most must come first. The fewest batches are blamed.
    """
    for number, (order, _) in enumerate(believed):
        for at, why in _falls(order):
            yield Misplaced(number, at, "falls", _describe(order[at], vid, why))
    holders: dict[int, tuple[OrderedBatch, str]] = {}
    for number, (order, label) in enumerate(believed):
        for at, place in enumerate(order):
            if place.gseq is not None:
                holder, owner = holders.setdefault(place.gseq, (place, label))
                if holder.batch != place.batch:
                    yield Misplaced(number, at, "place", _describe(place, vid, f"where {owner} has {holder}"))
        for reference, owner in believed[:number]:
            for at in _compare(order, reference):
                yield Misplaced(number, at, "order", _describe(order[at], vid, f"in another order than {owner}"))


def _describe(place: OrderedBatch, vid: ViewId, why: str) -> str:
    return f"delivered {place} in {vid} {why}"


def _falls(order: Sequence[OrderedBatch]) -> Iterator[tuple[int, str]]:
    """Yield the fewest indices without which places rise, each with its worst contradiction."""
    placed = [(place.gseq, at) for at, place in enumerate(order) if place.gseq is not None]
    misplaced = find_misplaced([gseq for gseq, _ in placed])
    if not misplaced:
        return
    highest = [*itertools.accumulate(placed, max)]
    lowest = [*itertools.accumulate(reversed(placed), min)][::-1]
    for index in misplaced:
        gseq, at = placed[index]
        if index and highest[index - 1][0] >= gseq:
            yield at, f"out of the order of places, after {order[highest[index - 1][1]]}"
        else:
            yield at, f"out of the order of places, before {order[lowest[index + 1][1]]}"


def _compare(order: Sequence[OrderedBatch], reference: Sequence[OrderedBatch]) -> list[int]:
    """Return the indices in `order` of batches with another place in the part that both orders share."""
    rank = {place.batch: at for at, place in reversed(list(enumerate(reference)))}
    # For a batch that stands twice the later place counts.
    common = {place.batch: at for at, place in enumerate(order) if place.batch in rank}
    indices = list(common.values())
    return [indices[index] for index in find_misplaced([rank[batch] for batch in common])]


def find_misplaced(ranks: Sequence[int]) -> list[int]:
    """Return the fewest indices without which the ranks rise: all but a longest rising subsequence."""
    if _rises(ranks):
        return []
    # from the right, so that of two batches that changed places the late one is named
    tails: list[int] = []
    ends: list[int] = []
    following: list[int] = [-1] * len(ranks)
    for at in reversed(range(len(ranks))):
        length = bisect_left(tails, -ranks[at])
        following[at] = ends[length - 1] if length else -1
        if length == len(tails):
            tails.append(-ranks[at])
            ends.append(at)
        else:
            tails[length], ends[length] = -ranks[at], at
    kept = set()
    at = ends[-1]
    while at >= 0:
        kept.add(at)
        at = following[at]
    return [at for at in range(len(ranks)) if at not in kept]


def _rises(ranks: Sequence[int]) -> bool:
    return all(map(operator.lt, ranks, itertools.islice(ranks, 1, None)))
